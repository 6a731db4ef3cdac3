"""Liger's kernels for a model's layers: `use_liger_kernel`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from ...errors import UsageError


def prepare_liger(args: Any) -> None:
    """Have the Trainer apply Liger's layer kernels without its fused head, which would bypass our log-probs.

    Raises UsageError when liger-kernel or a GPU is missing, or when the fused head is asked for.
    """
    if not args.use_liger_kernel:
        return
    if find_spec("liger_kernel") is None:
        raise UsageError("use_liger_kernel needs liger-kernel; pip install liger-kernel, or leave it out")
    if args.device.type == "cpu":
        raise UsageError("use_liger_kernel needs a GPU, for its kernels are Triton's; leave it out on a CPU")
    chosen = args.liger_kernel_config or {}
    if chosen.get("fused_linear_cross_entropy"):
        raise UsageError(
            "liger_kernel_config sets fused_linear_cross_entropy, which replaces the forward that log-probs are "
            "computed with; leave it out: they are computed in tiles anyway"
        )
    args.liger_kernel_config = {**chosen, "fused_linear_cross_entropy": False}
