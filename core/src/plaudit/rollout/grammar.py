"""Holding completions to a regular expression, a JSON schema or a choice, token by token, with llguidance."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..errors import PlauditError, UsageError
from .options import ExtraOptions
from .structured import StructuredOutput

if TYPE_CHECKING:
    from torch import Tensor


class Constraint:
    """A structured output over a tokenizer's vocabulary."""

    def __init__(self, structured: StructuredOutput, tokenizer: Any, end_ids: Sequence[int], vocab_size: int) -> None:
        """Raises UsageError if llguidance is missing, or the tokenizer or the grammar cannot be used."""
        check_installed()
        import llguidance

        if tokenizer is None or not end_ids:
            missing = "a tokenizer" if tokenizer is None else "an end-of-sequence token"
            raise UsageError(f"structured output needs {missing}; give the generator a tokenizer that has one")
        self._tokenizer = _vocabulary(tokenizer, list(end_ids), max(vocab_size, len(tokenizer)))
        self._grammar = _grammar(structured, self._tokenizer)
        self._matcher: Callable[..., Any] = llguidance.LLMatcher

    def begin(self, count: int) -> GrammarState:
        """The state of `count` completions that are yet empty."""
        first = self._matcher(self._tokenizer, self._grammar, log_level=0)
        return GrammarState([first, *(first.deep_copy() for _ in range(count - 1))], self._tokenizer.vocab_size)


class GrammarState:
    """Where each of W completions is in the grammar."""

    def __init__(self, matchers: list[Any], vocab_size: int) -> None:
        """`matchers`: llguidance's, one a row. `vocab_size`: tokens that they know."""
        import torch

        self._matchers = matchers
        self._words = (vocab_size + 31) // 32
        self._bits = torch.arange(32, dtype=torch.int32)

    def allowed(self, scores: Tensor) -> Tensor:
        """scores: (W, V). Returns them with -inf on every token that leads out of the grammar.

        Raises PlauditError when the tokenizer has no token to go on with, or the grammar is too complex.
        """
        import torch

        masks = torch.zeros(len(self._matchers), self._words, dtype=torch.int32)
        for matcher, mask in zip(self._matchers, masks, strict=True):
            if _ended(matcher):
                mask.fill_(-1)  # it only waits to leave the batch: any token will do
            else:
                matcher.unsafe_compute_mask_ptr(mask.data_ptr(), mask.numel() * mask.element_size())
                if matcher.is_error():
                    raise PlauditError(f"structured output: no token can follow the text so far: {matcher.get_error()}")
        known = ((masks[:, :, None] >> self._bits) & 1).flatten(1).bool()[:, : scores.shape[1]].to(scores.device)
        # Rows of the model's head beyond the tokenizer's vocabulary stand for no text.
        known = torch.nn.functional.pad(known, (0, scores.shape[1] - known.shape[1]))
        return scores.masked_fill(~known, float("-inf"))

    def chosen(self, tokens: Sequence[int]) -> None:
        """Move on by one token a row. Raises PlauditError when the grammar is too complex."""
        for matcher, token in zip(self._matchers, tokens, strict=True):
            if not _ended(matcher) and not matcher.consume_token(token):
                raise PlauditError(f"structured output could not be followed: {matcher.get_error()}")

    def select(self, slots: Sequence[int]) -> None:
        """Keep these rows."""
        self._matchers = [self._matchers[slot] for slot in slots]


def _ended(matcher: Any) -> bool:
    return bool(matcher.is_stopped() and matcher.stop_reason() == "EndOfSentence")


def check_installed() -> None:
    """Raise UsageError if llguidance is missing."""
    if find_spec("llguidance") is None:
        raise UsageError("structured output needs llguidance: pip install 'plaudit[structured]'")


def refuse_with_structured(extra: ExtraOptions) -> None:
    """Raise UsageError on options that could leave a constrained completion without any token to go on with."""
    if extra.min_new_tokens or extra.suppress_tokens:
        raise UsageError(
            "structured output cannot be combined with min_new_tokens or suppress_tokens: the grammar says which "
            "tokens may come; leave them out"
        )


def check_grammar(structured: StructuredOutput, extra: ExtraOptions) -> None:
    """Raise UsageError on what needs no tokenizer to be refused: a bad regex or schema, or options that exclude it."""
    check_installed()
    refuse_with_structured(extra)
    _grammar(structured)


def _grammar(structured: StructuredOutput, tokenizer: Any = None) -> str:
    """llguidance's form of it. Raises UsageError if it cannot be used; `tokenizer`: llguidance's own."""
    from llguidance import LLMatcher

    if (text := structured.regex) is not None:
        if (len(text) - len(text.rstrip("\\"))) % 2:
            raise UsageError(f"structured output: the regex {text!r} ends with a backslash that escapes nothing")
        grammar = LLMatcher.grammar_from_regex(text)
    elif structured.json is not None:
        grammar = LLMatcher.grammar_from_json_schema(_schema(structured.json))
    else:
        choices = " | ".join(f'"{"".join(map(_quoted, choice))}"' for choice in structured.choice or ())
        grammar = LLMatcher.grammar_from_lark(f"start: {choices}")
    if message := LLMatcher.validate_grammar(grammar, tokenizer):
        raise UsageError(f"structured output: the {structured.kind} cannot be used: {message}")
    return grammar


def _schema(schema: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(schema))
    except (TypeError, ValueError) as error:
        raise UsageError(f"structured output: the json schema {schema!r} cannot be written as JSON: {error}") from None


def _quoted(character: str) -> str:
    """As it stands inside a string of the grammar."""
    control = ord(character) < 32 or ord(character) == 127
    return f"\\x{ord(character):02x}" if control else json.dumps(character, ensure_ascii=False)[1:-1]


def _vocabulary(tokenizer: Any, end_ids: list[int], vocab_size: int) -> Any:
    """llguidance's view of the tokenizer: by its own reading of it, else from the text of every token."""
    from llguidance import LLTokenizer, TokenizerWrapper
    from llguidance.hf import from_tokenizer

    try:
        return from_tokenizer(tokenizer, n_vocab=vocab_size, eos_token=end_ids)
    except ValueError:
        wrapper = TokenizerWrapper(_Tokens(tokenizer, end_ids))
        return LLTokenizer(wrapper, n_vocab=vocab_size, eos_token=end_ids)


class _Tokens:
    """A tokenizer without merges, such as one token a word: every token writes the same text wherever it stands."""

    def __init__(self, tokenizer: Any, end_ids: list[int]) -> None:
        self._tokenizer = tokenizer
        self.eos_token_id = end_ids[0]
        self.bos_token_id = tokenizer.bos_token_id
        self.tokens = [tokenizer.decode([token]).encode() for token in range(len(tokenizer))]
        self.special_token_ids = sorted({*tokenizer.all_special_ids, *end_ids})

    def __call__(self, text: str) -> list[int]:
        ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return [token for token in ids if token != self._tokenizer.unk_token_id]
