"""The tiny model that uses a calculator: its dialogues, what it can before training, and what it learns."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
from plaudit.cli import main
from plaudit.rollout.chat import function_schema, tool_chat
from plaudit_gym.calculator import Calculator
from plaudit_gym.tool_user.model import new_tokenizer, path
from plaudit_gym.tool_user.products import demonstration, products, prompt_text

EXAMPLE = Path(__file__).parents[3] / "examples" / "tool_use.toml"


def the_chat(tokenizer):
    return tool_chat(tokenizer, {}, [function_schema(Calculator().calculate)])


def test_demonstrations_are_what_the_agent_loop_writes():
    """Piece by piece: the prompt, the call, what the tool answers, the answer."""
    tokenizer, rng = new_tokenizer(), random.Random(0)
    chat = the_chat(tokenizer)
    for row in products(size=20):
        a, b = map(int, row["prompt"][0]["content"].split("*"))
        assert chat.prompt_text(row["prompt"]) == prompt_text(a, b)
        called, answered, said = demonstration(a, b, rng, tool_share=1.0)
        ids = chat.template.encode(called[0])
        message, calls = chat.parse(ids)
        assert [(call.name, call.arguments) for call in calls] == [("calculate", {"expression": f"{a}*{b}"})]
        reply = {"role": "tool", "name": "calculate", "content": Calculator().calculate(**calls[0].arguments)}
        assert tokenizer.decode(list(chat.suffix_ids(message, [reply], ids))) == answered[0]
        assert chat.parse(chat.template.encode(said[0]))[0]["content"] == f"={row['answer']}"


def test_the_shipped_tokenizer_is_the_one_in_code():
    from transformers import AutoTokenizer

    shipped, made = AutoTokenizer.from_pretrained(path()), new_tokenizer()
    assert shipped.chat_template == made.chat_template
    assert shipped.get_vocab() == made.get_vocab()


def test_splits_share_no_product():
    train, test = ({row["prompt"][0]["content"] for row in products(split)} for split in ("train", "test"))
    assert len(train) > 3000
    assert not train & test


def test_the_base_model_can_call_and_mostly_does_not():
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(path()), AutoTokenizer.from_pretrained(path())
    chat = the_chat(tokenizer)
    called = tokenizer.convert_tokens_to_ids("<tool_call>")
    rows = products("test", size=32)
    shares, right = [], 0
    for row in rows:
        ids = torch.tensor([chat.prompt_ids(row["prompt"])])
        with torch.no_grad():
            shares.append(model(input_ids=ids).logits[0, -1].softmax(-1)[called].item())
            forced = torch.cat([ids, torch.tensor([[called]])], dim=1)
            written = model.generate(input_ids=forced, max_new_tokens=20, do_sample=False, pad_token_id=0)
        _, calls = chat.parse(written[0, ids.shape[1] :].tolist())
        right += [call.arguments for call in calls] == [{"expression": row["prompt"][0]["content"]}]
    assert 0.15 < sum(shares) / len(shares) < 0.5
    assert right >= 28


@pytest.mark.slow
def test_it_learns_to_use_the_calculator(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "TOKENIZERS_PARALLELISM", "false")
    assert main(["train", str(EXAMPLE), "--set", "output_dir=run"]) == 0
    heldout = json.loads((tmp_path / "run" / "heldout.json").read_text(encoding="utf-8"))
    before, after = (heldout[when]["means"]["numeric"] for when in ("before", "after"))
    assert after >= before + 0.3
