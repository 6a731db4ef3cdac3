"""Conversations with tools: prompts that show them, calls read out of completions, and what follows a call.

`tool_chat(tokenizer, chat_template_kwargs, schemas)` gives the `ToolChat` of a model family; `function_schema(f)` the
JSON schema of a function.
"""

from .calls import ToolCall
from .chat import ToolChat, tool_chat
from .schema import function_schema

__all__ = ["ToolCall", "ToolChat", "function_schema", "tool_chat"]
