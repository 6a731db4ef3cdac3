"""Prompts with images for the engine in this process: our token ids, and what vLLM makes of the pictures.

The ids have a token for each part of an image already, put there by the model's processor. vLLM's own way from pictures
to a prompt would put them in again, so its parts are called one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...errors import UsageError
from ..media import Media
from ..protocol import Request


@dataclass(slots=True, eq=False)
class PicturePrompts:
    """Makes the engine's prompts; pictures that several requests share are prepared once, as long as this lives."""

    engine: Any
    _prepared: dict[int, tuple[Media, Any]] = field(default_factory=dict)

    def prompt(self, request: Request) -> dict[str, Any]:
        """What `add_request` takes. Raises UsageError where the images are not in the tokens as vLLM expects them."""
        if request.media is None or not request.media.sources:
            return {"prompt_token_ids": list(request.prompt_ids)}
        from vllm.inputs import mm_input

        processor = self.engine.renderer.get_mm_processor()
        result = self._looked_at(processor, request.media)
        ids = list(request.prompt_ids)
        found = processor._find_mm_placeholders(ids, result.prompt_updates)
        wanted, places = len(request.media.sources), len(found.get("image", ()))
        if places != wanted:
            raise UsageError(
                f"request {request.index} has {wanted} images, but vLLM finds the tokens of {places} in its prompt; "
                "generate without vLLM for this model"
            )
        ranges = {kind: [place.to_range() for place in them] for kind, them in found.items()}
        return dict(mm_input(ids, result.kwargs, result.hashes, ranges))

    def _looked_at(self, processor: Any, media: Media) -> Any:
        if id(media) not in self._prepared:
            from vllm.multimodal.processing.context import TimingContext
            from vllm.multimodal.processing.inputs import ProcessorInputs

            items = processor.info.parse_mm_data({"image": media.pictures()})
            result = processor._cached_apply_hf_processor(ProcessorInputs([], items), TimingContext(enabled=False))
            self._prepared[id(media)] = media, result
        return self._prepared[id(media)][1]
