"""The `reward_model` reward: one number a completion from a sequence-classification model."""

from __future__ import annotations

import threading
from typing import Any

from plaudit import UsageError, reward


@reward(executor="thread", max_concurrency=1)
class RewardModel:
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
        if batch_size < 1:
            raise UsageError(f"batch_size must be at least 1, got {batch_size}")
        self._path, self._source = path, {"revision": revision, "trust_remote_code": trust_remote_code}
        self._device, self._dtype, self._batch_size = device, dtype, batch_size
        self._max_length, self._head, self._sigmoid = max_length, head, sigmoid
        self._loading = threading.Lock()
        self._model: Any = None
        self._tokenizer: Any = None

    def __call__(self, completions: list[Any], prompts: list[Any], **_: Any) -> list[float]:
        with self._loading:
            if self._model is None:
                self._load()
        texts = [self._text(prompt, completion) for prompt, completion in zip(prompts, completions, strict=True)]
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]), reverse=True)
        scores = [0.0] * len(texts)
        for start in range(0, len(order), self._batch_size):
            chosen = order[start : start + self._batch_size]
            for index, score in zip(chosen, self._score([texts[i] for i in chosen]), strict=True):
                scores[index] = score
        return scores

    def _text(self, prompt: Any, completion: Any) -> str:
        if isinstance(prompt, str):
            return prompt + completion
        return str(self._tokenizer.apply_chat_template([*prompt, *completion], tokenize=False))

    def _score(self, texts: list[str]) -> list[float]:
        import torch

        inputs = self._tokenizer(
            texts,
            return_tensors="pt",
            padding=True,
            truncation=self._max_length is not None,
            max_length=self._max_length,
            add_special_tokens=False,
        ).to(self._model.device)
        with torch.inference_mode():
            logits = self._model(**inputs).logits[:, self._head].float()
        return [float(value) for value in (logits.sigmoid() if self._sigmoid else logits)]

    def _load(self) -> None:
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        device = self._device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            tokenizer = AutoTokenizer.from_pretrained(self._path, padding_side="right", **self._source)
            model = AutoModelForSequenceClassification.from_pretrained(
                self._path, dtype=getattr(torch, self._dtype), **self._source
            )
        except (OSError, ValueError, AttributeError) as error:
            raise UsageError(f"reward_model cannot load {self._path!r}: {str(error).splitlines()[0]}") from error
        if not 0 <= self._head < model.config.num_labels:
            raise UsageError(f"reward_model: head {self._head} of {self._path!r}, which has {model.config.num_labels}")
        tokenizer.truncation_side = "left"
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        model.config.pad_token_id = tokenizer.pad_token_id
        self._tokenizer, self._model = tokenizer, model.eval().to(device)
