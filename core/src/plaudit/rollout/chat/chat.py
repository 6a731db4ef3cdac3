"""`tool_chat`: how one model family converses with tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import UsageError
from .calls import ToolCall, numbered
from .families import Family, family_of, template_of
from .formats import Format
from .probing import USER, check_schemas_shown, probe, reader_of, refuse
from .reading import as_message, read_turn, strip_marks
from .rendering import OPENINGS, Marks, Seen, Template
from .values import types_of

_SAID, _NEXT = "PLAUDIT-TURN", "PLAUDIT-NEXT"


@dataclass(frozen=True, slots=True, eq=False)
class ToolChat:
    """Prompts with tools, completions to messages and calls, and the tokens between two turns of the model.

    What the model sampled is never tokenised again: a dialogue is prompt ids + completion ids + suffix ids + the next
    completion's ids. Made by `tool_chat`. `read` is None where there are no tools: nothing is a call then.
    """

    template: Template
    family: str
    read: Format | None = None
    thinking_key: str = "reasoning_content"

    @property
    def end_ids(self) -> frozenset[int]:
        """The tokens that end a turn of the model or hand over to its tools: generation must stop at each of them."""
        return frozenset(self.template.marks.ends.values())

    def prompt_ids(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        """Token ids of a conversation with the tools' schemas and the opening of the assistant's turn."""
        return self.prompt(messages).ids

    def prompt(self, messages: Sequence[Mapping[str, Any]]) -> Seen:
        """The same, with the images in it."""
        return self.template.see(self.prompt_text(messages), messages)

    def prompt_text(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """What `prompt_ids` encodes."""
        return self.template.render(messages, prompt=True)

    def parse(self, completion_ids: Sequence[int]) -> tuple[dict[str, Any], list[ToolCall]]:
        """The assistant message that a completion is, and all calls that it makes, in their order.

        A malformed call has an `error` that says what is wrong, to be answered as text; it is in the list of calls
        but not in the message's `tool_calls`. Reasoning is a key of its own, as the family's template reads it.
        """
        text = self.template.tokenizer.decode(list(completion_ids), skip_special_tokens=False)
        text = self._without_end(text, completion_ids)
        special = self.template.marks.special
        if self.read is None:
            return {"role": "assistant", "content": strip_marks(text, special)}, []
        types, thinks = types_of(self.template.schemas), "</think>" in self.template.source
        turn = read_turn(text, self.read, types, thinks=thinks)
        calls = numbered(turn.calls, completion_ids)
        turn = replace(turn, content=strip_marks(turn.content, special), calls=calls)
        return as_message(turn, self.thinking_key), calls

    def suffix_ids(
        self,
        assistant_message: Mapping[str, Any],
        tool_messages: Sequence[Mapping[str, Any]],
        completion_ids: Sequence[int],
    ) -> tuple[int, ...]:
        """The tokens between the model's last sampled token and its next turn.

        The end of the assistant's turn where `completion_ids` (what it sampled in this turn) lacks it, the messages of
        tools (or of a user, after a turn without calls), and the opening of the next turn. None of them is the model's.
        """
        return self.suffix(assistant_message, tool_messages, completion_ids).ids

    def suffix(
        self,
        assistant_message: Mapping[str, Any],
        tool_messages: Sequence[Mapping[str, Any]],
        completion_ids: Sequence[int],
    ) -> Seen:
        """The same, with the images that the tools answered."""
        closing, rest = self.suffix_text(assistant_message, tool_messages)
        ended = bool(completion_ids) and self._is_ended(completion_ids, closing)
        return self.template.see(rest if ended else closing + rest, tool_messages)

    def suffix_text(
        self, assistant_message: Mapping[str, Any], tool_messages: Sequence[Mapping[str, Any]]
    ) -> tuple[str, str]:
        """What closes the assistant's turn, and the text from there to the opening of its next turn."""
        if not any(message.get("role") == "tool" for message in tool_messages):
            return self._after_text(tool_messages)
        calls = assistant_message.get("tool_calls") or [ToolCall(_name_of(tool_messages), id="call00000").as_message()]
        before, after = self._around(calls, tool_messages)
        cue = self.template.render([USER])
        tail = before[len(cue) :] if before.startswith(cue) else before
        cuts = [tail.rindex(mark) for mark in self.template.marks.ends if mark in tail]
        start = len(before) - len(tail) + max(cuts) if cuts else len(before)
        mark = next((mark for mark in self.template.marks.ends if after.startswith(mark, start)), "")
        return mark, after[start + len(mark) :]

    def _after_text(self, messages: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
        """The same after a turn that calls nothing, which stands as a word that no template changes."""
        rest, plain = self._behind(messages), self._behind([{**messages[0], "content": _NEXT}])
        opening = plain.partition(_NEXT)[0]
        # GPT-OSS closes its last turn with a mark of its own, which becomes this one once others follow.
        marks = (*self.template.marks.ends, "<|end|>")
        ends = [opening.index(mark) + len(mark) for mark in marks if mark in opening]
        closing = opening[: min(ends)] if ends and rest.startswith(opening[: min(ends)]) else ""
        return closing, rest.removeprefix(closing)

    def _behind(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """What is rendered behind the words of an assistant's turn that these messages follow."""
        whole = self.template.render([USER, {"role": "assistant", "content": _SAID}, *messages], prompt=True)
        if _SAID not in whole:
            raise UsageError(f"the chat template ({self.family}) leaves out an assistant's turn once others follow it")
        return whole[whole.index(_SAID) + len(_SAID) :]

    def _around(self, calls: Sequence[Any], answers: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
        """The conversation up to the calls, and with the answers; a family of one call a turn gets the first."""
        bare = [{**call, "function": {**call["function"], "arguments": {}}} for call in calls]
        try:
            return self._rendered(bare, answers)
        except Exception:
            if len(bare) == 1:
                raise
            return self._rendered(bare[:1], answers)

    def _rendered(self, calls: Sequence[Any], answers: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
        turns: list[Mapping[str, Any]] = [USER, {"role": "assistant", "content": "", "tool_calls": calls}]
        before, after = self.template.render(turns), self.template.render([*turns, *answers], prompt=True)
        if not after.startswith(before):
            raise UsageError(
                f"the chat template ({self.family}) renders an assistant's turn otherwise once tools have answered; "
                "set tokenizer.chat_template to one that does not"
            )
        return before, after

    def _is_ended(self, completion_ids: Sequence[int], closing: str) -> bool:
        ends = self.template.marks.ends
        last = completion_ids[-1]
        if closing in OPENINGS:  # the opening of what follows: only the very token stands for it
            return last == ends[closing]
        return last in ends.values() or self.template.encode(closing.strip()) == (last,)

    def _without_end(self, text: str, completion_ids: Sequence[int]) -> str:
        last = completion_ids[-1] if completion_ids else None
        mark = next((mark for mark, id in self.template.marks.ends.items() if id == last), None)
        return text if mark is None else text.removesuffix(mark)


def tool_chat(
    tokenizer: Any, chat_template_kwargs: Mapping[str, Any], schemas: Sequence[dict[str, Any]] = ()
) -> ToolChat:
    """How the model of this tokenizer (or processor) converses with these tools; `schemas` as `function_schema` gives.

    The tokenizer's template is taken as it is when what follows never changes what stands before; else ours for its
    family. Without tools any template will do. Raises UsageError when there is no template, or it cannot carry tools.
    """
    original = _source(tokenizer, bool(schemas))
    marks = Marks.of(getattr(tokenizer, "tokenizer", tokenizer))
    template = Template(tokenizer, original, dict(chat_template_kwargs), marks, tuple(schemas))
    family = family_of(original)
    if not schemas:
        return ToolChat(template, family.name)
    template = _preserving(template, family)
    read = reader_of(template)
    if read is None:
        raise refuse(family.name, "the calls that it writes are in no format that is known here")
    check_schemas_shown(template)
    thinking_key = "thinking" if family.name == "GPT-OSS" else "reasoning_content"
    return ToolChat(template, family.name, read, thinking_key)


def _source(tokenizer: Any, tools: bool) -> str:
    """The template's text; of named variants the one for tools, or the default."""
    source = tokenizer.chat_template
    if isinstance(source, Mapping):
        source = (source.get("tool_use") if tools else None) or source.get("default")
    if not source:
        raise UsageError(
            "conversations are given but the tokenizer has no chat template; set tokenizer.chat_template, or use an "
            "instruction-tuned model"
        )
    return str(source)


def _name_of(tool_messages: Sequence[Mapping[str, Any]]) -> str:
    return str((tool_messages[0].get("name") if tool_messages else None) or "tool")


def _preserving(template: Template, family: Family) -> Template:
    found = probe(template)
    if found.kept_over_turns:
        return template
    source = template_of(family)
    if source is not None:
        plain = template.render([USER])
        cue = template.render([USER], prompt=True).removeprefix(plain)
        options = {**template.options, **family.options, "assistant_cue": cue}
        ours = replace(template, source=source, options=options)
        if probe(ours).preserves:
            return ours
    if found.missing or not found.preserves:
        raise refuse(family.name, found.missing or "an assistant's turn is rendered otherwise once tools have answered")
    return template
