"""Completions that are held to a regular expression, a JSON schema or a choice."""

import json
import re

import pytest
import torch
from plaudit import PlauditError, UsageError
from plaudit.rollout.grammar import Constraint, check_grammar
from plaudit.rollout.options import ExtraOptions
from plaudit.rollout.protocol import SamplingOptions
from plaudit.rollout.structured import StructuredOutput
from plaudit.rollout.transformers_generator import TransformersGenerator

WORDS = ["<pad>", "<eos>", *'abcdefglrstu0123456789{}":, -', "true", "abc"]
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


@pytest.fixture
def tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>", pad_token="<pad>", unk_token="<pad>")


@pytest.fixture
def model(tiny_model):
    return tiny_model("qwen3", vocab_size=48)  # more rows than the tokenizer has tokens


def written(model, tokenizer, requests, **options):
    generator = TransformersGenerator(model, tokenizer)
    return list(generator.generate(requests, SamplingOptions(**{"max_new_tokens": 60, "seed": 4, **options})))


def is_object(text):
    try:
        return sorted(json.loads(text)) == ["a", "b"]
    except json.JSONDecodeError:
        return False


def text_of(tokenizer, generated):
    return tokenizer.decode(generated.completion_ids, skip_special_tokens=True)


@pytest.mark.parametrize(
    ("structured", "holds"),
    [
        ({"regex": r"[a-c]{2,5}-\d{3}"}, lambda text: re.fullmatch(r"[a-c]{2,5}-\d{3}", text)),
        ({"choice": ["abc", "abd", "true"]}, lambda text: text in ("abc", "abd", "true")),
        ({"json": SCHEMA}, is_object),
    ],
    ids=["regex", "choice", "json"],
)
def test_completed_texts_fulfil_it(model, tokenizer, requests_of, structured, holds):
    for options in (
        {"structured": StructuredOutput.of(structured)},
        {"generation_kwargs": {"structured_outputs": structured}},
    ):
        done = written(model, tokenizer, requests_of([(5, 9, 3), (7,)] * 12), **options)
        complete = [generated for generated in done if generated.finish_reason == "stop"]
        assert len(complete) >= 6
        texts = {text_of(tokenizer, generated) for generated in complete}
        assert len(texts) > 1
        assert all(holds(text) for text in texts), texts
    assert not all(holds(text_of(tokenizer, free)) for free in written(model, tokenizer, requests_of([(5, 9, 3)])))


def test_logprobs_are_normalised_over_the_allowed_tokens(model, tokenizer, requests_of):
    """Two letters are allowed at each step, so their probabilities follow from two logits alone."""
    prompt = (5, 9, 3)
    done = written(model, tokenizer, requests_of([prompt] * 6), structured=StructuredOutput(regex="[ab]{4}"))
    letters = [WORDS.index("a"), WORDS.index("b")]
    for generated in done:
        ids = generated.completion_ids
        assert len(ids) == 5
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
        pair = logits[:4, letters].log_softmax(-1)
        expected = [pair[step, letters.index(ids[step])].item() for step in range(4)]
        assert generated.logprobs == pytest.approx([*expected, 0.0], abs=1e-4)  # only the end may follow


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "exactly one of regex, json, choice; given: none"),
        ({"regex": "a", "choice": ["a"]}, "given: regex, choice"),
        ({"regexp": "a"}, "did you mean 'regex'"),
        ({"choice": []}, "choice is .*a list of strings"),
        ({"json": "not a mapping"}, "a JSON schema as a mapping"),
        ("[0-9]+", "it must be a mapping with one of"),
    ],
    ids=str,
)
def test_what_is_no_structured_output(given, message):
    with pytest.raises(UsageError, match=message):
        StructuredOutput.of(given)


def test_what_cannot_be_followed_is_refused(model, tokenizer, requests_of):
    regex = StructuredOutput(regex="[ab]+")
    for arguments, options, message in [
        ((model, tokenizer), {"structured": StructuredOutput(regex="(a")}, "the regex cannot be used"),
        ((model, tokenizer), {"structured": StructuredOutput(regex="az")}, "no token can follow"),
        ((model, None), {"structured": regex}, "needs a tokenizer"),
        ((model, tokenizer), {"structured": regex, "generation_kwargs": {"min_new_tokens": 3}}, "min_new_tokens"),
    ]:
        with pytest.raises(PlauditError, match=message):
            written(*arguments, requests_of([(5,)]), **options)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"regex": "(a"}, "the regex cannot be used: .*unclosed group"),
        ({"regex": r"\bword\b"}, "lookarounds not supported"),
        ({"regex": "a\\"}, "ends with a backslash that escapes nothing"),
        ({"json": {"type": "nope"}}, "the json cannot be used: Invalid type: nope"),
        ({"json": {"type": "string", "pattern": "(a"}}, "unclosed group"),
        ({"json": {"not": {"type": "string"}}}, "Unimplemented keys"),
        ({"json": {"enum": []}}, "Unsatisfiable"),
        ({"json": {"enum": {"a set"}}}, "cannot be written as JSON"),
    ],
    ids=str,
)
def test_a_bad_grammar_needs_no_tokenizer_to_be_refused(given, message):
    with pytest.raises(UsageError, match=rf"(?s){message}"):
        check_grammar(StructuredOutput.of(given), ExtraOptions())


def test_any_string_may_be_a_choice(model):
    """Control characters, quotes, backslashes, and what could end a string of the grammar."""
    from llguidance import LLMatcher
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({"<eos>": 0, **{sign: n for n, sign in enumerate(alphabet, 1)}}, []))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    inner.add_special_tokens(["<eos>"])
    letters = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>")
    texts = [f"a{chr(code)}b" for code in (*range(34), 39, 47, 92, 96, 124, 127, 133, 160, 0x2028, 0x200B, 0x1F600)]
    texts += ["\\u0041", "\\x41", '" | "x', "a b", " a"]
    constraint = Constraint(StructuredOutput(choice=tuple(texts)), letters, [0], len(letters))
    for text in texts:
        matcher = LLMatcher(constraint._tokenizer, constraint._grammar)
        ids = letters(text)["input_ids"]
        assert matcher.try_consume_tokens(ids) == len(ids), text
        assert matcher.is_accepting(), text
