"""Ctrl-C: the first finishes the step and saves a checkpoint, the second ends at once."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

from transformers import TrainerCallback

NOTICE = "\nCtrl-C: finishing this step, then saving a checkpoint. Press Ctrl-C again to end at once, without one."


class Interruption(TrainerCallback):
    """A context in which SIGINT asks the training loop to save and stop. `requested`: whether it came."""

    def __init__(self) -> None:
        self.requested = False
        self._before: Any = None

    def __enter__(self) -> Interruption:
        # Only the main thread may set handlers; elsewhere Ctrl-C keeps its usual meaning.
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

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
        print(NOTICE, file=sys.stderr, flush=True)


def _on_any_rank(flag: bool, args: Any) -> bool:
    """Whether the flag is set on any rank: the signal may reach one before the others."""
    if args.world_size == 1:
        return flag
    import torch

    raised = torch.tensor([int(flag)], device=args.device)
    torch.distributed.all_reduce(raised, op=torch.distributed.ReduceOp.MAX)
    return bool(raised.item())
