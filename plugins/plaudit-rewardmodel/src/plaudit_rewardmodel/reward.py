"""The `reward_model` reward: one number a completion from a sequence-classification model."""

from __future__ import annotations

from typing import Any

from plaudit import ClassifierReward, load_classifier, reward


@reward(executor="thread", max_concurrency=1)
class RewardModel(ClassifierReward):
    """The model's first logit for prompt and completion together.

    `path` is a hub id or a folder. Conversations go through the tokenizer's chat template, plain text is joined. Texts
    are scored in micro-batches of `batch_size`, longest first, cut on the left to `max_length` tokens. `device` is
    by default a GPU where there is one, `dtype` a torch dtype's name. `head` picks a logit, `sigmoid` maps to 0..1.

    The model is loaded by the first call. Raises UsageError when it cannot be loaded or has no such head.
    """

    def __init__(
        self,
        *,
        path: str,
        revision: str | None = None,
        device: str | None = None,
        dtype: str = "float32",
        batch_size: int = 8,
        max_length: int | None = None,
        head: int = 0,
        sigmoid: bool = False,
        trust_remote_code: bool = False,
    ) -> None:
        def load() -> tuple[Any, Any]:
            import torch

            model, tokenizer = load_classifier(
                path, revision=revision, dtype=getattr(torch, dtype), trust_remote_code=trust_remote_code
            )
            return model.to(device or ("cuda" if torch.cuda.is_available() else "cpu")), tokenizer

        super().__init__(
            load,
            name=f"reward_model {path!r}",
            batch_size=batch_size,
            max_length=max_length,
            head=head,
            sigmoid=sigmoid,
        )
