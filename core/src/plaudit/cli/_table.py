"""Tables on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

PIPE_WIDTH = 240


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns under headers; into a pipe, wide enough that nothing wraps."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)
    with console.capture() as printed:
        console.print(table)
    print("\n".join(line.rstrip() for line in printed.get().splitlines()))
