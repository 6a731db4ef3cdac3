"""The fields of `[config]`, as `plaudit train --help-config` prints them."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator

from plaudit.errors import UsageError


def config_help(part: str = "", *, width: int = 100) -> Iterator[str]:
    """Name, default and help of each GRPOConfig field whose name contains `part`. Raises UsageError when none does."""
    from plaudit.grpo.config import GRPOConfig

    fields = [field for field in dataclasses.fields(GRPOConfig) if field.init and part in field.name]
    if not fields:
        raise UsageError(f"no field of [config] has '{part}' in its name; leave it out to see all")
    for field in fields:
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        shown = "" if default is dataclasses.MISSING else f" = {getattr(default, 'value', default)!r}"
        yield f"{field.name}{shown}"
        yield textwrap.fill(
            " ".join(str(field.metadata["help"]).split()), width, initial_indent="    ", subsequent_indent="    "
        )
