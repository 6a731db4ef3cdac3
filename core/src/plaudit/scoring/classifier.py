"""A sequence classifier as a reward: one number a completion, from the head of a language model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from plaudit.errors import UsageError
from plaudit.plugins.declare import reward

Loaded = tuple[Any, Any]
"""A model and its tokenizer."""


@reward(executor="thread", max_concurrency=1)
class ClassifierReward:
    """The model's logit for prompt and completion together, as TRL scores with a model in `reward_funcs`.

    Conversations go through the tokenizer's chat template, plain text is joined; no special tokens are added. Texts
    are scored in micro-batches of `batch_size`, longest first, padded on the right, cut on the left to `max_length`
    tokens. `head` picks a logit, `sigmoid` maps it to 0..1.
    """

    def __init__(
        self,
        load: Callable[[], Loaded],
        *,
        name: str,
        batch_size: int = 8,
        max_length: int | None = None,
        head: int = 0,
        sigmoid: bool = False,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """`load` is called once, at the first score or by `prepare`; `name` is what errors call the reward."""
        if batch_size < 1:
            raise UsageError(f"batch_size must be at least 1, got {batch_size}")
        self.name = name
        self._load, self._batch_size, self._max_length = load, batch_size, max_length
        self._head, self._sigmoid = head, sigmoid
        self._template = dict(chat_template_kwargs or {})
        self._loading = threading.Lock()
        self._loaded: Loaded | None = None

    def prepare(self) -> Any:
        """Load the model if it is not there yet. Returns it. Raises UsageError when it cannot score."""
        with self._loading:
            if self._loaded is None:
                self._loaded = self._checked(*self._load())
            return self._loaded[0]

    def __call__(self, completions: list[Any], prompts: list[Any], **_: Any) -> list[float]:
        self.prepare()
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
            return f"{prompt}{completion}"
        assert self._loaded is not None
        return str(self._loaded[1].apply_chat_template([*prompt, *completion], tokenize=False, **self._template))

    def _score(self, texts: Sequence[str]) -> list[float]:
        import torch

        assert self._loaded is not None
        model, tokenizer = self._loaded
        inputs = tokenizer(
            text=list(texts),
            return_tensors="pt",
            padding=True,
            padding_side="right",
            truncation=self._max_length is not None,
            max_length=self._max_length,
            add_special_tokens=False,
        ).to(model.device)
        with torch.inference_mode():
            logits = model(**inputs).logits[:, self._head].float()
        return [float(value) for value in (logits.sigmoid() if self._sigmoid else logits)]

    def _checked(self, model: Any, tokenizer: Any) -> Loaded:
        """The two in agreement on padding: the score is read at the last token that is no padding."""
        labels = getattr(model.config, "num_labels", 1)
        if not 0 <= self._head < labels:
            raise UsageError(f"{self.name}: head {self._head}, but the model has {labels}")
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
        return model.eval(), tokenizer


def load_classifier(path: str, *, tokenizer: Any = None, revision: str | None = None, **options: Any) -> Loaded:
    """The sequence-classification model at a folder or hub id, and the tokenizer given or beside it.

    `options` go to from_pretrained. Raises UsageError when there is none, or when its head was never trained: then
    transformers would draw one at random.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    trust = bool(options.get("trust_remote_code"))
    try:
        if tokenizer is None:
            tokenizer = AutoTokenizer.from_pretrained(path, revision=revision, trust_remote_code=trust)
        model, report = AutoModelForSequenceClassification.from_pretrained(
            path, revision=revision, output_loading_info=True, **options
        )
    except (OSError, ValueError, AttributeError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UsageError(f"cannot load a reward model from {path!r}: {said}") from error
    if report["missing_keys"]:
        raise UsageError(
            f"{path!r} has no trained classification head ({', '.join(sorted(report['missing_keys']))} missing); give "
            "a model that was saved as a sequence classifier"
        )
    tokenizer.truncation_side = "left"
    return model, tokenizer
