"""What leaves a run for the hub: checkpoints, the final model and its card."""

from __future__ import annotations

import warnings
from pathlib import Path

from transformers import Trainer

from ...errors import PlauditError
from ..policy.models import is_adapted
from ..source import RolloutSource
from .model_card import model_card


class HubError(PlauditError):
    """The hub did not take what it was sent, or cannot be reached."""


class PublishingTrainer(Trainer):
    """A Trainer that says before a run when the hub cannot be reached, and when an upload failed."""

    source: RolloutSource

    def init_hf_repo(self, token: str | None = None, private: bool | None = None) -> None:
        """Make the model's repository. Raises HubError when that fails, so that nothing is trained in vain."""
        try:
            super().init_hf_repo(token, private)
        except Exception as error:
            repository = self.args.hub_model_id or Path(self.args.output_dir).absolute().name
            raise HubError(
                f"push_to_hub: the repository '{repository}' cannot be made ({type(error).__name__}: {error}). Check "
                "the network and hub_token (or HF_TOKEN), or train with push_to_hub=False and call push_to_hub() later"
            ) from error

    def _finish_current_push(self) -> None:
        super()._finish_current_push()
        push = getattr(self, "push_in_progress", None)
        for job in push.jobs if push is not None else ():
            error = job.exception() if job.done() and not job.cancelled() else None
            if error is not None:
                warnings.warn(f"an upload to the hub failed ({type(error).__name__}: {error})", stacklevel=2)

    def create_model_card(
        self,
        model_name: str | None = None,
        dataset_name: str | list[str] | None = None,
        tags: str | list[str] | None = None,
    ) -> None:
        """Write README.md into output_dir: base model, rewards and their versions, results, curve, configuration."""
        if not self.is_world_process_zero():
            return
        folder = Path(self.args.output_dir)
        base = getattr(getattr(self.model, "config", None), "_name_or_path", None) or None
        text = model_card(
            name=model_name or folder.absolute().name,
            base=base,
            dataset=dataset_name,
            tags=[tags] if isinstance(tags, str) else list(tags or []),
            specs=[runtime.spec for runtime in self.source.collector.scorer.runtimes],
            args=self.args,
            history=self.state.log_history,
            folder=folder,
            library="peft" if is_adapted(self.accelerator.unwrap_model(self.model)) else "transformers",
        )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "README.md").write_text(text, encoding="utf-8")
