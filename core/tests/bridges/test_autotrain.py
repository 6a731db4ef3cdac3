"""AITraining's interface end to end: runs by flags and by Python, the hotel example."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from plaudit import UsageError
from plaudit.bridges.autotrain import AutoTrainProject, LLMTrainingParams
from plaudit.bridges.autotrain.environment import load_environment
from plaudit.cli import main

EXAMPLES = Path(__file__).parents[3] / "examples"

ENVIRONMENT = """
import threading, time
from datasets import Dataset

class Env:
    lengths, live, most, lock = [], 0, 0, threading.Lock()

    def __init__(self, turns=2, offers_tools=False):
        self.turns, self.offers_tools = turns, offers_tools

    def build_dataset(self, tokenizer):
        prompts = [f"count {n}:" for n in range(4)]
        return Dataset.from_dict({"prompt": prompts, "case_idx": [3, 2, 1, 0], "extra": ["x"] * 4})

    def score_episode(self, model, tokenizer, completion, case_idx, extra="none"):
        assert isinstance(completion, str) and extra == "x"
        with Env.lock:
            Env.live += 1
            Env.most = max(Env.most, Env.live)
        try:
            for _ in range(self.turns):
                inputs = tokenizer(f"{completion} {case_idx}", return_tensors="pt").to(model.device)
                out = model.generate(**inputs, max_new_tokens=4, do_sample=True)
                assert out.shape[1] <= inputs["input_ids"].shape[1] + 4
                completion = tokenizer.decode(out[0], skip_special_tokens=True)
        finally:
            with Env.lock:
                Env.live -= 1
        Env.lengths.append(len(completion))
        return None if case_idx == 0 else (len(completion) % 7) / 7

    def get_tools(self):
        return [{"type": "function", "function": {"name": "look", "parameters": {}}}] if self.offers_tools else []
"""


@pytest.fixture
def env_module(tmp_path, monkeypatch):
    name = f"env_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(ENVIRONMENT)
    (tmp_path / "wrong_code.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    yield name
    sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("module", "name", "config", "says"),
    [
        ("no_such_module_here", "Env", {}, "cannot be imported"),
        (None, "Nope", {}, "has no such class .it has Env"),
        (None, "Env", {"colour": 1}, r"Env.colour=1. failed: TypeError"),
        ("wrong_code", "Env", {}, "wrong_code: cannot be imported from .*ZeroDivisionError"),
    ],
)
def test_an_environment_that_cannot_be_built_is_named(env_module, module, name, config, says):
    with pytest.raises(UsageError, match=says):
        load_environment(module or env_module, name, config)


def run_flags(module, folder, model_folder, *more):
    return ["train", "--rl-env-module", module, "--rl_env_class", "Env", "--model", str(model_folder),
            "--project-name", str(folder), "--rl-max-new-tokens", "5", "--batch-size", "4", "--gradient-accumulation",
            "2", "--lr", "1e-3", "--rl-top-k", "0", "--save-strategy", "no", *more]  # fmt: skip


def test_a_run_by_flags_trains_and_saves(env_module, tmp_path, model_folder, capsys):
    from transformers import AutoModelForCausalLM

    folder = tmp_path / "out"
    assert main(run_flags(env_module, folder, model_folder, "--rl-env-config", '{"turns": 2}', "--epochs", "2")) == 0
    assert "model" in capsys.readouterr().out
    module = sys.modules[env_module]
    assert len(module.Env.lengths) == 2 * 16
    assert module.Env.most > 1
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert any(line.get("rewards/score_episode/mean") is not None for line in lines)
    before = AutoModelForCausalLM.from_pretrained(model_folder).state_dict()
    after = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    assert any(not before[name].equal(after[name]) for name in before)


def test_an_adapter_is_merged_into_the_saved_model(env_module, tmp_path, model_folder):
    folder = tmp_path / "out"
    line = run_flags(
        env_module,
        folder,
        model_folder,
        "--peft",
        "--lora-r",
        "2",
        "--rl-env-config",
        '{"turns": 1, "offers_tools": true}',
    )
    assert main(line) == 0
    names = {path.name for path in folder.iterdir()}
    assert "model.safetensors" in names
    assert not any(name.startswith("adapter_") for name in names)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("train --rl-env-class C", "requires --rl-env-module"),
        ("train --rl-env-module m", "requires --rl-env-class"),
        ("train run.toml --rl-env-module m", "not both"),
        ("llm --trainer grpo --rl-env-module m --rl-env-class C", "add --train"),
    ],
)
def test_wrong_command_lines_end_with_a_message(line, says, capsys):
    assert main(line.split()) == 2
    assert says in capsys.readouterr().err


def test_the_hotel_example_runs_by_the_python_api(tmp_path, model_folder, monkeypatch):
    monkeypatch.chdir(EXAMPLES)
    params = LLMTrainingParams(
        model=str(model_folder), project_name=str(tmp_path / "hotel"), trainer="grpo",
        rl_env_module="my_envs.hotel_env", rl_env_class="HotelEnv",
        rl_env_config='{"max_turns": 2, "difficulty": "hard", "cases": 4}',
        rl_num_generations=4, rl_max_new_tokens=8, rl_temperature=1.0, rl_kl_coef=0.1, rl_clip_range=0.2,
        epochs=1, batch_size=4, lr=1e-5, peft=True, lora_r=16, lora_alpha=32, save_strategy="no",
    )  # fmt: skip
    assert AutoTrainProject(params=params, backend="local", process=True).create() == str(tmp_path / "hotel")
    assert (tmp_path / "hotel" / "model.safetensors").is_file()


class Scripted:
    """A policy that says the next of its lines, whatever it is asked."""

    device = "cpu"

    def __init__(self, tokenizer, *lines):
        self.tokenizer, self.lines = tokenizer, list(lines)

    def generate(self, input_ids, **_):
        import torch

        said = self.tokenizer(self.lines.pop(0), return_tensors="pt")["input_ids"]
        return torch.cat([input_ids, said], dim=1)


@pytest.mark.parametrize(
    ("lines", "score"),
    [
        (["I do not know."], 0.0),
        (['search_hotels({"city": "CITY"})', "thanks", "bye"], 1 / 3),
        (['search_hotels({"city": "CITY"})', 'book_room({"hotel": "CHEAP", "nights": NIGHTS})'], 1.0),
        (['book_room({"hotel": "Ritz", "nights": 1})'], 1 / 3),
        (["search_hotels({city})", "", ""], 0.0),
    ],
)
def test_the_hotel_guest_scores_what_was_done(lines, score, model_folder, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from my_envs.hotel_env import HOTELS, HotelEnv
    from transformers import AutoTokenizer

    env = HotelEnv(max_turns=3)
    index = next(place for place, case in enumerate(env.cases) if case.budget >= 150)
    case = env.cases[index]
    words = {"CITY": case.city, "CHEAP": HOTELS[case.city][0][0], "NIGHTS": str(case.nights)}
    for word, value in words.items():
        lines = [line.replace(word, value) for line in lines]
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    policy = Scripted(tokenizer, *lines[1:], "nothing", "nothing")
    assert env.score_episode(policy, tokenizer, lines[0], index) == pytest.approx(score)
