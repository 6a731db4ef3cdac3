"""A loaded reward is a TRL reward function as it stands: TRL 1.16's trainer calls, awaits and names it."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from plaudit import Verdict, load_reward, reward

pytestmark = pytest.mark.peer

REWARDS = """
from plaudit import Verdict, reward

async def slow_exact(completion, reference):
    return completion.strip() == reference

def telling(completion, reference, level):
    return Verdict(float(level), extracted=completion[:1], metrics={"level": float(level)})

@reward(granularity="rollout")
def length(completions, *, scale: float = 1.0):
    return [scale * len(completion) for completion in completions]

class Constant:
    def __init__(self, value: float): self.value = value
    def __call__(self, completions, **columns): return [self.value for _ in completions]
"""


@pytest.fixture
def rewards(tmp_path: Path) -> list:
    file = tmp_path / "rewards.py"
    file.write_text(REWARDS)
    options = {"slow_exact": {}, "telling": {}, "length": {"scale": 2.0}, "Constant": {"value": 0.25}}
    return [load_reward(f"{file}:{name}", options=given) for name, given in options.items()]


def tiny_model(folder: Path) -> tuple[str, object]:
    """A random Qwen3 of two layers over a vocabulary of single characters; returns (its folder, the tokenizer)."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    vocabulary = {character: i for i, character in enumerate(["<eos>", "<unk>", *"0123456789+= "])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    core.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<eos>", pad_token="<eos>", unk_token="<unk>", padding_side="left"
    )
    config = Qwen3Config(
        vocab_size=len(vocabulary), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder), tokenizer


def test_trl_trains_with_loaded_rewards(rewards: list, tmp_path: Path) -> None:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    folder, tokenizer = tiny_model(tmp_path / "model")
    data = Dataset.from_list([{"prompt": f"{i}+1=", "answer": str(i + 1), "level": i} for i in range(4)])
    arguments = GRPOConfig(
        output_dir=str(tmp_path / "out"), max_steps=1, per_device_train_batch_size=4, num_generations=2,
        max_completion_length=4, logging_steps=1, report_to=[], bf16=False, gradient_checkpointing=False, use_cpu=True,
        save_strategy="no", disable_tqdm=True, log_completions=False,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=folder, reward_funcs=rewards, args=arguments, train_dataset=data, processing_class=tokenizer
    )
    assert trainer.reward_func_names == ["slow_exact", "telling", "length", "Constant"]
    trainer.train()
    logged = trainer.state.log_history[0]
    assert logged["rewards/Constant/mean"] == pytest.approx(0.25)
    assert logged["rewards/length/mean"] > 0
    assert logged["rewards/telling/mean"] == pytest.approx(logged["level"])
    assert 0 <= logged["rewards/slow_exact/mean"] <= 1
    assert len(trainer._logs["extra"]["telling/extracted"]) == 4


def test_another_process_unpickles_by_reference(rewards: list, tmp_path: Path) -> None:
    (tmp_path / "rewards.pickle").write_bytes(pickle.dumps(rewards))
    script = (
        "import asyncio, pickle, sys; loaded = pickle.load(open(sys.argv[1], 'rb')); "
        "columns = dict(prompts=['p'], completions=['ab'], completion_ids=[[1]], answer=['ab'], level=[3]); "
        "print([asyncio.run(r(**columns)) if r.component.is_async else r(**columns) for r in loaded]); "
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "rewards.pickle")], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[[1.0], [3.0], [4.0], [0.25]]", done.stderr


# TRL's documented examples, loaded: what they print there is what they give here.
CONVERSATION = [
    [{"role": "assistant", "content": "<think>1 and 2 is 3, times 4.</think><answer>(1 + 2) * 4 = 12</answer>"}],
    [{"role": "assistant", "content": "The sum of 3 and 1 is 4, which we multiply by 2 to get 8."}],
]


def token_length(completion_ids, **kwargs):
    return [float(len(ids)) for ids in completion_ids]


def character_length(completions, **kwargs):
    return [float(len(completion)) for completion in completions]


def think_then_answer(completions, **kwargs):
    import re

    contents = [completion[0]["content"] for completion in completions]
    return [1.0 if re.match(r"^<think>.*?</think><answer>.*?</answer>$", text) else 0.0 for text in contents]


def boxed(completions, ground_truth, log_extra=None, log_metric=None, **kwargs):
    import re

    found = [re.search(r"\\boxed\{(.*?)\}", completion) for completion in completions]
    scores = [1.0 if m and m.group(1) == truth else 0.0 for m, truth in zip(found, ground_truth, strict=True)]
    if log_metric:
        log_metric("accuracy", sum(scores) / len(scores))
    return scores


def only_math(prompts, completions, task, **kwargs):
    return [1.0 if kind == "math" else None for kind in task]


async def non_empty(prompts, completions, **kwargs):
    await asyncio.sleep(0.01)
    return [1.0 if completion else 0.0 for completion in completions]


TEXTS = {"prompts": ["a", "b"], "completion_ids": [[6303, 13], [304, 279, 12884, 13]]}


@pytest.mark.parametrize(
    ("function", "columns", "scores"),
    [
        (token_length, {"completions": [" blue.", " in the sky."]}, [2.0, 4.0]),
        (character_length, {"completions": [" blue.", " in the sky."]}, [6.0, 12.0]),
        (think_then_answer, {"completions": CONVERSATION}, [1.0, 0.0]),
        (boxed, {"completions": [r"\boxed{2}.", r"\boxed{6}."], "ground_truth": ["2", "5"]}, [1.0, 0.0]),
        (only_math, {"completions": ["x", "y"], "task": ["math", "code"]}, [1.0, None]),
        (non_empty, {"completions": ["x", ""]}, [1.0, 0.0]),
    ],
)
def test_trls_documented_shapes_run_unchanged(function, columns, scores) -> None:
    loaded = load_reward(function)
    got = loaded(**TEXTS, **columns, trainer_state=None, log_extra=lambda *a: None, log_metric=lambda *a: None)
    assert (asyncio.run(got) if loaded.component.is_async else got) == scores
    assert loaded.__name__ == function.__name__


def test_decorated_functions_stay_plain_functions() -> None:
    @reward(timeout_s=3)
    def decorated(completions, **kwargs):
        return [Verdict(1.0).score for _ in completions]

    assert decorated(completions=["a"]) == [1.0]
