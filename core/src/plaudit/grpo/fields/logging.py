"""Fields about what is shown and kept of the completions."""

from __future__ import annotations

from dataclasses import dataclass

from .option import option


@dataclass
class LoggingFields:
    """The table of completions."""

    log_completions: bool = option(
        False, "Print prompts, completions and scores at every log, and keep them as parquet in the run folder."
    )
    log_multimodal: bool = option(True, "Include images in that table where the logger can show them.")
    num_completions_to_print: int | None = option(None, "Rows to print, drawn at random; None = all.")
    log_unique_prompts: bool = option(False, "Show one completion of each prompt to the logger.")
    log_completions_hub_repo: str | None = option(None, "Dataset on the hub that the table is also uploaded to.")
