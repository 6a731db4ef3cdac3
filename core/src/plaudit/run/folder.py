"""The run folder: what lies where, and what happens when a run is there already."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plaudit.errors import UsageError
from plaudit.grpo.saving.checkpoint_folders import TRAINER_STATE, checkpoints_of, newest_whole, staging_root


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of a run, all under `root`."""

    root: Path

    @property
    def run_file(self) -> Path:
        """The run file as resolved."""
        return self.root / "run.toml"

    @property
    def lock(self) -> Path:
        """Versions and hashes of the rewards."""
        return self.root / "plaudit.lock"

    @property
    def metrics(self) -> Path:
        """One JSON object a log line, written by the trainer."""
        return self.root / "metrics.jsonl"

    @property
    def heldout(self) -> Path:
        """The evaluations on held-out rows, before and after."""
        return self.root / "heldout.json"

    @property
    def curve(self) -> Path:
        """The learning curve."""
        return self.root / "curve.png"

    @property
    def report(self) -> Path:
        """What came of the run, for people."""
        return self.root / "report.md"

    @property
    def model(self) -> Path:
        """The trained model and its tokenizer."""
        return self.root / "model"

    @property
    def merged(self) -> Path:
        """The trained model with its adapter merged into it, where a further stage needs it."""
        return self.root / "merged"

    @property
    def completions(self) -> Path:
        """Parquet tables, a file a logged step."""
        return self.root / "completions"

    @property
    def samples(self) -> Path:
        """Completions written now and then while training, where `[samples]` asks for them."""
        return self.root / "samples.jsonl"

    @property
    def canary(self) -> Path:
        """Completions of the canary rows."""
        return self.root / "canary.jsonl"

    def checkpoints(self) -> list[Path]:
        """Checkpoint folders, the oldest first."""
        return checkpoints_of(self.root)

    def holds_run(self) -> bool:
        """Whether a run has left results here; one that ended before its first step has not."""
        return self.metrics.exists() or self.heldout.exists() or bool(self.checkpoints())

    def find_checkpoint(self, asked: str) -> Path:
        """The checkpoint to resume from: the last whole one for "latest", else that folder. Raises UsageError.

        Warns of later ones that a killed run left half-written.
        """
        found = self.checkpoints()
        if asked == "latest":
            newest = newest_whole(self.root)
            if newest is None:
                holds = "holds no checkpoint that is whole" if found else "holds no checkpoint"
                raise UsageError(f"--resume: '{self.root}' {holds}; leave --resume out to start")
            return newest
        path = Path(asked)
        if not path.is_dir():
            names = ", ".join(str(one) for one in found) or "none"
            raise UsageError(f"--resume {asked}: there is no such folder (checkpoints of this run: {names})")
        return path

    def logged_up_to(self, checkpoint: Path) -> list[dict[str, Any]]:
        """The lines of metrics that a run which goes on from a checkpoint keeps."""
        from plaudit.run.curve import read_metrics

        state = json.loads((checkpoint / TRAINER_STATE).read_text(encoding="utf-8"))
        return [line for line in read_metrics(self.metrics) if line["step"] <= state["global_step"]]

    def require_empty(self) -> None:
        """Raise UsageError when a run is here already."""
        if self.holds_run():
            resume = "--resume to continue it, " if self.checkpoints() else ""
            raise UsageError(
                f"'{self.root}' holds a run already: {resume}--overwrite to replace it, --set output_dir=… to keep both"
            )

    def clear(self) -> None:
        """Remove what a run writes, and nothing else."""
        tables = (self.metrics, self.heldout, self.samples, self.canary)
        for path in (self.run_file, self.lock, *tables, self.curve, self.report):
            path.unlink(missing_ok=True)
        for folder in (self.model, self.merged, self.completions, staging_root(self.root), *self.checkpoints()):
            if folder.exists():
                shutil.rmtree(folder)
