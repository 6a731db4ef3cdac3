"""What TRL's own tests of its trainer show and no other test here does: defaults, data of every kind, loaders, code."""

from __future__ import annotations

import json

import pytest
import torch
from datasets import Dataset, DatasetDict, IterableDataset, IterableDatasetDict
from plaudit.errors import UsageError
from plaudit.grpo import GRPOTrainer
from tiny_policy import make_model, make_tokenizer

from runs import ROWS, count_digits, make_trainer, metrics_of


def test_defaults_alone_make_a_trainer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_model(max_position_embeddings=1024).save_pretrained("policy")
    make_tokenizer().save_pretrained("policy")
    trainer = GRPOTrainer("./policy", count_digits, train_dataset=Dataset.from_list(ROWS * 2))
    assert trainer.args.output_dir
    assert trainer.args.num_generations == 8
    assert trainer.processing_class.eos_token == "<eos>"


CODE = """
from transformers import Qwen3Config, Qwen3ForCausalLM

class OwnConfig(Qwen3Config):
    model_type = "own_policy"

class OwnModel(Qwen3ForCausalLM):
    config_class = OwnConfig
"""


@pytest.fixture
def own_model(tmp_path, monkeypatch):
    """A folder with a model whose class lies beside it."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    folder = tmp_path / "own"
    make_model().save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    (folder / "own_code.py").write_text(CODE)
    config = json.loads((folder / "config.json").read_text())
    classes = {"AutoConfig": "own_code.OwnConfig", "AutoModelForCausalLM": "own_code.OwnModel"}
    config |= {"model_type": "own_policy", "architectures": ["OwnModel"], "auto_map": classes}
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def test_code_beside_a_model_runs_only_when_it_is_trusted(own_model, tmp_path):
    with pytest.raises(UsageError, match="contains custom code"):
        make_trainer(tmp_path / "run", model=own_model)
    trainer = make_trainer(tmp_path / "run", model=own_model, trust_remote_code=True, max_steps=1, beta=0.1)
    assert type(trainer.model).__name__ == "OwnModel"
    trainer.train()
    assert metrics_of(tmp_path / "run")[0]["kl"] == pytest.approx(0.0, abs=1e-6)


def stream(rows):
    return IterableDataset.from_generator(lambda: iter(rows))


SETS = {
    "dataset": lambda: Dataset.from_list(ROWS[:4]),
    "iterable": lambda: stream(ROWS[:4]),
    "dict": lambda: {"one": Dataset.from_list(ROWS[:2]), "two": Dataset.from_list(ROWS[2:4])},
    "dict of iterables": lambda: {"one": stream(ROWS[:2]), "two": stream(ROWS[2:4])},
    "DatasetDict": lambda: DatasetDict(one=Dataset.from_list(ROWS[:2]), two=Dataset.from_list(ROWS[2:4])),
    "IterableDatasetDict": lambda: IterableDatasetDict(one=stream(ROWS[:2]), two=stream(ROWS[2:4])),
}


@pytest.mark.parametrize("kind", SETS)
def test_evaluation_sets_of_every_kind(kind, tmp_path):
    names = ["eval_reward"] if kind in ("dataset", "iterable") else ["eval_one_reward", "eval_two_reward"]
    given = make_trainer(tmp_path / "given").evaluate(SETS[kind]())
    own = make_trainer(tmp_path / "own", eval_rows=SETS[kind]()).evaluate()
    for name in names:
        assert given[name] == own[name]
        assert 0 <= own[name] <= 2


def test_one_generation_in_evaluation(tmp_path):
    seen = []

    def count(completions, answer, **kwargs):
        seen.append(answer)
        return [0.0] * len(completions)

    rows = [{"prompt": f"{n}=", "answer": n} for n in range(5)]
    make_trainer(tmp_path, count, rows=rows, eval_rows=rows, num_generations_eval=1).evaluate()
    assert sorted(number for answers in seen for number in answers) == [0, 1, 2, 3, 4]


def test_evaluation_before_the_first_step(tmp_path):
    options = {"loss_type": "grpo", "eval_on_start": True, "eval_strategy": "steps", "eval_steps": 1}
    trainer = make_trainer(tmp_path, eval_rows=ROWS[:4], **options)
    trainer.train()
    assert [line["step"] for line in trainer.state.log_history if "eval_reward" in line] == [0, 1, 2]


def losses_of(trainer):
    trainer.train()
    return [line["loss"] for line in trainer.state.log_history if "loss" in line]


def test_loader_workers_change_nothing(tmp_path):
    """Rows are drawn by the process that trains, so that workers have nothing to do but must not hang or reorder."""
    options = {"eval_rows": stream(ROWS[:4])}
    alone = losses_of(make_trainer(tmp_path / "0", **options))
    several = make_trainer(tmp_path / "2", dataloader_num_workers=2, **options)
    assert losses_of(several) == alone
    assert "eval_reward" in several.evaluate()


def test_adaptive_entropy_moves_once_an_optimizer_step(tmp_path):
    options = {"use_adaptive_entropy": True, "entropy_coef": 0.01, "entropy_coef_delta": 0.005, "entropy_target": 15.0}
    trainer = make_trainer(tmp_path, max_steps=3, gradient_accumulation_steps=2, **options)
    trainer.train()
    assert trainer.entropy.value == pytest.approx(0.01 + 3 * 0.005)


def test_a_group_larger_than_a_micro_batch(tmp_path):
    model = make_model()
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    options = {"num_generations": 6, "per_device_train_batch_size": 3, "gradient_accumulation_steps": 2}
    make_trainer(tmp_path, model=model, **options).train()
    assert any(not torch.equal(value, before[name]) for name, value in model.named_parameters())


def test_a_trainer_without_rows_says_so(tmp_path):
    with pytest.raises(UsageError, match="train_dataset is missing"):
        make_trainer(tmp_path, rows=None)


@pytest.mark.parametrize("multiple", [8])
def test_images_with_padding_to_a_multiple(multiple, tmp_path):
    from seeing import make_seeing, rows

    def by_length(completions, **columns):
        return [float(len(completion[0]["content"]) % 5) for completion in completions]

    found = []
    for padding in (None, multiple):
        model, processor = make_seeing("Qwen2-VL")
        folder = tmp_path / str(padding)
        trainer = make_trainer(
            folder, by_length, model=model, tokenizer=processor, rows=rows(), pad_to_multiple_of=padding
        )
        found.append(losses_of(trainer))
    assert found[0] == pytest.approx(found[1], rel=1e-4, abs=1e-6)
