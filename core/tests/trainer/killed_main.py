"""Trains, is killed, resumes: `python killed_main.py OUTPUT SCENARIO…`. Writes what differs to OUTPUT/SCENARIO.json.

Every run is a fork of this process, which has imported everything and started nothing. A run counts events
(micro-batches, writes, renames, lines of logs) and kills itself with SIGKILL at one of them, in the middle of a file
where it writes one.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))

import datasets
import numpy
import pyarrow.parquet as pq
import torch
from plaudit.grpo import trainer
from plaudit.grpo.reporting import run_log
from plaudit.grpo.saving import checkpoint_folders
from plaudit.scoring.spec import reward_specs

from runs import ROWS, count_digits, make_trainer, metrics_of

TIMINGS = ("step_time", "runtime", "_per_second", "scoring/")
_CYCLE = {"per_device_train_batch_size": 4, "steps_per_generation": 4}


def sometimes(completions, **kwargs):
    """Fails for a batch now and then, as the completions say."""
    if sum(map(len, completions)) % 3 == 0:
        raise ConnectionError("no answer")
    return [float(len(text) % 5) for text in completions]


def _rewards():
    digits, failing = reward_specs([count_digits, sometimes])
    return [replace(digits, weight={"schedule": "adaptive", "success_at": 0.9}), failing]


SCENARIOS = {
    "aligned": {"save_steps": 2},
    "mid-cycle": {**_CYCLE, "num_iterations": 2, "save_steps": 1, "save_total_limit": 2},
    "streaming": {**_CYCLE, "save_steps": 2, "max_steps": 24},
    "lookahead": {"reward_lookahead": 1, "save_steps": 2},
    "everything": {
        **_CYCLE,
        "save_steps": 3,
        "logging_steps": 2,
        "beta": 0.1,
        "use_adaptive_entropy": True,
        "entropy_coef": 0.01,
        "entropy_target": 9.0,
        "log_completions": True,
        "num_completions_to_print": 0,
        "eval_strategy": "steps",
        "eval_steps": 3,
        "load_best_model_at_end": True,
        "metric_for_best_model": "eval_reward",
        "max_unscored_share": None,
    },
}


class Killer:
    """Counts events; ends the process at the `at`-th."""

    def __init__(self, at):
        self.seen, self.at = 0, at

    def event(self):
        self.seen += 1
        if self.seen == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(self, function):
        def call(*args, **kwargs):
            self.event()
            return function(*args, **kwargs)

        return call

    def within(self, save):
        """torch.save, killed when half of the file is there."""

        def call(value, path, *args, **kwargs):
            save(value, path, *args, **kwargs)
            if self.seen + 1 == self.at and isinstance(path, (str, Path)):
                os.truncate(path, os.path.getsize(path) // 2)
            self.event()

        return call


def build(folder, name):
    stream = {"rows": datasets.Dataset.from_list(ROWS[:9]).to_iterable_dataset()} if name == "streaming" else {}
    rewards = _rewards() if name == "everything" else count_digits
    options = {"save_strategy": "steps", "save_total_limit": None, "max_steps": 6, **SCENARIOS[name], **stream}
    return make_trainer(folder, rewards, eval_rows=ROWS[:4], **options)


def run(folder, name, at, resume, dump):
    killer = Killer(at)
    patches = [
        mock.patch.object(trainer.GRPOTrainer, "training_step", killer.before(trainer.GRPOTrainer.training_step)),
        mock.patch.object(run_log.RunLog, "flush", killer.before(run_log.RunLog.flush)),
        mock.patch.object(checkpoint_folders, "_sync", killer.before(checkpoint_folders._sync)),
        mock.patch("os.rename", killer.before(os.rename)),
        mock.patch("shutil.rmtree", killer.before(shutil.rmtree)),
        mock.patch("torch.save", killer.within(torch.save)),
    ]
    made = build(folder, name)
    for patch in patches:
        patch.start()
    made.train(resume_from_checkpoint=resume)
    for patch in patches:
        patch.stop()
    torch.save({"events": killer.seen, **state_of(made)}, dump)


def state_of(made):
    return {
        "weights": dict(made.model.named_parameters()),
        "optimizer": made.optimizer.state_dict(),
        "schedule": made.lr_scheduler.state_dict(),
        "random": [torch.get_rng_state(), str(random.getstate()), str(numpy.random.get_state())],
        "source": made.source.state_dict(made.state),
        "scorer": made.source.collector.scorer.state_dict(),
        "entropy": made.entropy.state_dict(),
        "window": made.windows["train"].state_dict(),
        "history": [without_timings(line) for line in made.state.log_history],
        "best": [made.state.best_metric, made.state.best_global_step],
        "metrics": [without_timings(line) for line in metrics_of(made.args.output_dir)],
        "tables": {
            path.name: pq.read_table(path).to_pydict() for path in sorted(Path(made.args.output_dir).rglob("*.parquet"))
        },
        "folders": sorted(path.name for path in Path(made.args.output_dir).iterdir()),
    }


def without_timings(line):
    return {name: value for name, value in line.items() if not any(part in name for part in TIMINGS)}


def forked(*arguments):
    """Run in a fork; returns the signal that ended it, 0 for none."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run(*arguments)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError(f"a run failed: {arguments}")
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def different(one, other, where=""):
    """Where two states differ, to the bit."""
    if isinstance(one, torch.Tensor):
        return [] if torch.equal(one, other) else [where]
    if isinstance(one, dict) and isinstance(other, dict):
        missing = [f"{where}/{key}: in one alone" for key in one.keys() ^ other.keys()]
        return missing + [
            d for key in one.keys() & other.keys() for d in different(one[key], other[key], f"{where}/{key}")
        ]
    if isinstance(one, (list, tuple)) and len(one) == len(other):
        return [
            d for place, pair in enumerate(zip(one, other, strict=True)) for d in different(*pair, f"{where}/{place}")
        ]
    return [] if one == other or (one != one and other != other) else [f"{where}: {one!r:.200} {other!r:.200}"]


def scenario(output, name):
    """Kill a run four times at random; what then differs from one that was not."""
    whole, killed = output / f"{name}-whole.pt", output / f"{name}-killed.pt"
    folder = output / name
    forked(folder, name, 0, None, whole)
    expected = torch.load(whole, weights_only=False)
    shutil.rmtree(folder)
    draw, kills = random.Random(os.environ.get("PLAUDIT_KILLS", "0") + name), []
    while not killed.exists():
        resume = checkpoint_folders.newest_whole(folder) is not None or None
        if resume is None:
            shutil.rmtree(folder, ignore_errors=True)
        at = draw.randrange(1, expected["events"] // 2) if len(kills) < 4 else 0
        kills.append([at, forked(folder, name, at, resume, killed), bool(resume)])
    found = torch.load(killed, weights_only=False)
    differences = different({**expected, "events": 0}, {**found, "events": 0})
    (output / f"{name}.json").write_text(
        json.dumps({"kills": kills, "events": expected["events"], "differences": differences})
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    for one in sys.argv[2:]:
        scenario(Path(sys.argv[1]), one)
