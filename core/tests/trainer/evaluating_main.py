"""What one rank of a test of evaluation runs: `python evaluating_main.py OUTPUT PART…`; see `many_ranks_main`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pyarrow.parquet as pq
from datasets import Dataset
from many_ranks_main import main
from plaudit.grpo.losses import LOSSES
from rank_main import WORLD
from side_by_side import inject

from runs import ROWS, make_trainer

BATCH = 8
UNEVEN = [
    # One row leaves nothing to the second rank; of 5 it has none in the last batch.
    *({"count": count, "stream": stream} for count in (1, 5) for stream in (False, True)),
    *({"count": 3, "loss_type": loss} for loss in LOSSES),
    {"count": 3, "top_entropy_quantile": 0.5},
    {"count": 5, "num_generations_eval": 2},
    {"count": 3, "num_generations_eval": 1},
]


def evaluated(folder: Path, *, count: int, stream: bool = False, **options) -> dict:
    """Metrics of `count` rows, the prompts that this rank scored, and rows of the completions' tables."""
    rows, scored = Dataset.from_list(ROWS[:count]), []

    def note(prompts, completion_ids, **columns):
        scored.extend(prompts)
        return [int(prompt[0]) + len(ids) for prompt, ids in zip(prompts, completion_ids, strict=True)]

    trainer = evaluating_trainer(folder, note, rows.to_iterable_dataset() if stream else rows, **options)
    inject(trainer)
    metrics = trainer.evaluate()
    tables = [len(pq.read_table(path)) for path in (folder / "completions").glob("eval*")]
    return {"metrics": metrics, "scored": scored, "logged": tables}


def evaluating_trainer(folder: Path, reward, eval_rows, **options):
    luspo = {"importance_sampling_level": "sequence"} if options.get("loss_type") == "luspo" else {}
    sizes = {"per_device_train_batch_size": BATCH // WORLD, "per_device_eval_batch_size": BATCH // WORLD}
    more = {"log_completions": True, "num_completions_to_print": 0}
    return make_trainer(
        folder, reward, eval_rows=eval_rows, **{"entropy_coef": 0.1, **sizes, **more, **luspo, **options}
    )


def uneven(output: Path) -> list[dict]:
    """Evaluation rows that do not fill the last batch, of a dataset and of a stream."""
    return [evaluated(output / f"uneven{case}", **options) for case, options in enumerate(UNEVEN)]


def best(output: Path) -> dict:
    """Training with several evaluation sets, one of them a stream, that ends with the best weights."""
    sets = {"few": Dataset.from_list(ROWS[:1]), "more": Dataset.from_list(ROWS[:3]).to_iterable_dataset()}

    def rises_and_falls(prompts, completion_ids, trainer_state, **columns):
        height = 5.0 if trainer_state.global_step == 2 else 0.0
        return [height + sum(ids) % 7 / 10 for ids in completion_ids]

    trainer = evaluating_trainer(
        output / "best",
        rises_and_falls,
        sets,
        entropy_coef=0.0,  # ranks take the mean entropy of their own rows
        max_steps=3,
        eval_strategy="steps",
        eval_steps=1,
        save_strategy="steps",
        save_steps=1,
        load_best_model_at_end=True,
        metric_for_best_model="eval_more_reward",
    )
    inject(trainer)
    trainer.train()
    logs = [{name: value for name, value in line.items() if "reward" in name} for line in trainer.state.log_history]
    return {
        "best": trainer.state.best_global_step,
        "logs": [line for line in logs if any(name.startswith("eval_") for name in line)],
        "weights": sum(float(weight.double().abs().sum()) for weight in trainer.model.parameters()),
    }


if __name__ == "__main__":
    main(globals())
