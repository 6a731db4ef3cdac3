"""A tiny random classifier, scored one text at a time by hand and through the reward."""

from __future__ import annotations

import pytest
import torch
from plaudit import PlauditError, load_reward
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForSequenceClassification

TEMPLATE = "{% for m in messages %}<{{ m['role'][0] }}>{{ m['content'] }}{% endfor %}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("classifier")
    vocabulary = {token: index for index, token in enumerate(["<pad>", *"abcdefgh<>u "])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", chat_template=TEMPLATE)
    fast.save_pretrained(path)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 32}
    sizes |= {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}
    config = Qwen2Config(vocab_size=len(vocabulary), num_labels=2, pad_token_id=0, **sizes)
    Qwen2ForSequenceClassification(config).save_pretrained(path)
    return path


def by_hand(folder, text, head=0):
    from transformers import AutoTokenizer

    model = Qwen2ForSequenceClassification.from_pretrained(folder)
    tokens = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    return float(model(**tokens).logits[0, head])


def test_plain_text_in_micro_batches(folder):
    completions = ["a", "abcdefgh", "bb", "hgf", "cad"]
    reward = load_reward("reward_model", options={"path": str(folder), "batch_size": 2})
    scores = reward(prompts=["ab "] * 5, completions=completions)
    assert scores == pytest.approx([by_hand(folder, "ab " + text) for text in completions], abs=1e-5)


def test_conversations_go_through_the_template(folder):
    reward = load_reward("reward_model", options={"path": str(folder), "head": 1, "sigmoid": True})
    prompt, completion = [{"role": "user", "content": "abc"}], [{"role": "assistant", "content": "de"}]
    expected = torch.sigmoid(torch.tensor(by_hand(folder, "<u>abc<a>de", head=1))).item()
    assert reward(prompts=[prompt], completions=[completion]) == pytest.approx([expected], abs=1e-5)


def test_max_length_keeps_the_end(folder):
    reward = load_reward("reward_model", options={"path": str(folder), "max_length": 3})
    assert reward(prompts=["ab"], completions=["cde"]) == pytest.approx([by_hand(folder, "cde")], abs=1e-5)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"path": "no/such/folder/here"}, "cannot load"),
        ({"head": 5}, "head 5, but the model has 2"),
        ({"batch_size": 0}, "at least 1"),
    ],
)
def test_bad_options(folder, options, match):
    with pytest.raises(PlauditError, match=match):
        load_reward("reward_model", options={"path": str(folder), **options})(prompts=["a"], completions=["b"])
