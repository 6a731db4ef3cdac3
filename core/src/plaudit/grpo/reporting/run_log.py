"""The files that a run writes as it goes: metrics.jsonl and the completions tables. Only the main process writes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..collected import Collected
from ..config import GRPOConfig
from ..writing import Mode
from .table_sinks import sinks_of, start_upload
from .tables import CompletionsLog


@dataclass(frozen=True, slots=True)
class RunLog:
    """`metrics`: the file that each log adds a line to. `completions`: None when they are not asked for."""

    metrics: Path
    completions: CompletionsLog | None
    main: bool

    @classmethod
    def of(cls, args: GRPOConfig, *, main: bool) -> RunLog:
        """The log of a run in its output_dir."""
        folder = Path(args.output_dir)
        table = None
        if args.log_completions and main:
            table = CompletionsLog(
                folder / "completions", args.num_completions_to_print, args.log_unique_prompts, sinks_of(args.report_to)
            )
            if args.log_completions_hub_repo:
                start_upload(args.log_completions_hub_repo, table.folder)
        return cls(folder / "metrics.jsonl", table, main)

    def add(self, collected: Collected, mode: Mode, step: int) -> None:
        """Hold a generation batch until the next log."""
        if self.completions is not None:
            self.completions.add(collected, mode, step)

    def flush(self, logs: Mapping[str, Any], mode: Mode, step: int) -> None:
        """Write one line of metrics, and what is held of completions."""
        if not self.main:
            return
        self.metrics.parent.mkdir(parents=True, exist_ok=True)
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **logs}, default=float) + "\n")
        if self.completions is not None:
            self.completions.flush(mode, step)

    def rewind(self, step: int) -> None:
        """Drop lines and tables after `step`: a run that resumes there writes them again."""
        if not self.main:
            return
        if self.metrics.is_file():
            lines = self.metrics.read_text(encoding="utf-8").splitlines()
            kept = [line for line in lines if (found := _step_of(line)) is not None and found <= step]
            replace_file(self.metrics, "".join(f"{line}\n" for line in kept).encode())
        if self.completions is not None:
            self.completions.rewind(step)

    def state_dict(self) -> dict[str, Any]:
        """What is held until the next log, as JSON text."""
        held = {} if self.completions is None else self.completions.held()
        return {"held": json.dumps(held, default=str)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Hold again what a checkpoint kept."""
        if self.completions is not None:
            self.completions.hold(json.loads(state["held"]))


def _step_of(line: str) -> int | None:
    """The step of a line of metrics; None of one that a killed process left half-written."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return None


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that a process that is killed meanwhile leaves the old one."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(content)
    os.replace(beside, path)
