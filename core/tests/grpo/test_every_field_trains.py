"""No field is refused by the trainer: a step with each legal value, but those that need vLLM, ranks or other data."""

from __future__ import annotations

import pytest
from legal_values import LEGAL, fields_with
from tiny_policy import make_model, make_tokenizer

from runs import ROWS, make_trainer

ELSEWHERE = {
    "use_vllm": "tests/vllm/test_training.py",
    "max_staleness": "needs servers: core/tests/trainer/test_overlap.py",
    "compile_decoding": "compiles for minutes: core/tests/rollout/test_replaying.py",
    "router_aux_loss_coef": "needs a mixture of experts, as in TRL: core/tests/trainer/test_moe.py",
    "log_completions_hub_repo": "uploads: core/tests/trainer/test_table_sinks.py",
}


def column_of_numbers(rows):
    return [{**row, "answer": int(row["answer"]), "task": "sums"} for row in rows]


def letters(completions, **kwargs):
    """Needs no column, and differs within a group."""
    return [float(len(text)) for text in completions]


QUICK = {"curriculum_column", "generation_kwargs", "scale_rewards", "vllm_importance_sampling_mode", "loss_type"}
NAMES = [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in LEGAL if name not in ELSEWHERE
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_a_step_with_a_legal_value(name, tmp_path):
    model = make_model()
    if name == "model_init_kwargs":
        model.save_pretrained(tmp_path / "policy")
        model = str(tmp_path / "policy")
    rows = column_of_numbers(ROWS)
    run = tmp_path / "run"
    trainer = make_trainer(run, letters, rows=rows, model=model, tokenizer=make_tokenizer(), **fields_with(name))
    trainer.train()
    assert trainer.state.global_step == 2
