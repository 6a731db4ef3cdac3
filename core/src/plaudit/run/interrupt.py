"""Ctrl-C or SIGTERM: the first finishes the step and saves a checkpoint, the second ends at once."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

from transformers import TrainerCallback

from plaudit.run.signals import ENDING

NOTICE = "\nCtrl-C: finishing this step, then saving a checkpoint. Press Ctrl-C again to end at once, without one."
TERMINATED = "\nSIGTERM: finishing this step, then saving a checkpoint. A second one ends it at once, without one."


class Interruption(TrainerCallback):
    """A context in which SIGINT or SIGTERM asks the training loop to save and stop. `requested`: whether it came."""

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        # Only the main thread may set handlers; elsewhere Ctrl-C keeps its usual meaning.
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in ENDING}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Save and stop after the step in which the signal came, all ranks after the same one."""
        self.requested = _on_any_rank(self.requested, args)
        if self.requested:
            control.should_save = True
            control.should_training_stop = True
        return control

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        print(NOTICE if number == signal.SIGINT else TERMINATED, file=sys.stderr, flush=True)


def _on_any_rank(flag: bool, args: Any) -> bool:
    """Whether the flag is set on any rank: the signal may reach one before the others."""
    if args.world_size == 1:
        return flag
    import torch

    raised = torch.tensor([int(flag)], device=args.device)
    torch.distributed.all_reduce(raised, op=torch.distributed.ReduceOp.MAX)
    return bool(raised.item())
