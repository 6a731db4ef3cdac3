"""The fields of GRPOConfig by what they are for. TRL 1.16's names and defaults; the help is the documentation."""

from __future__ import annotations

from .generation import GenerationFields
from .logging import LoggingFields
from .loss import LossFields
from .model import ModelFields
from .vllm import VLLMFields

__all__ = ["GenerationFields", "LoggingFields", "LossFields", "ModelFields", "VLLMFields"]
