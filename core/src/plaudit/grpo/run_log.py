"""The files that a run writes as it goes: metrics.jsonl and the completions tables. Only the main process writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .collecting import Collected
from .config import GRPOConfig
from .table_sinks import sinks_of, start_upload
from .tables import CompletionsLog
from .writing import Mode


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
        """Drop lines after `step`: a run that resumes there writes them again."""
        if not self.main or not self.metrics.is_file():
            return
        lines = self.metrics.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if json.loads(line)["step"] <= step]
        self.metrics.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
