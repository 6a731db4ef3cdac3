"""Importing a plugin in a process of its own, so that one that crashes, hangs or prints cannot hurt the CLI.

`python -m plaudit.plugins.probe KIND REFERENCE FILE` writes {"description": …} or {"error": …} to FILE.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

TIMEOUT_S = 60.0


def probe(kind: str, reference: str, *, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """{"description": …} (see `describe`) or {"error": text} of a component, found out in a subprocess."""
    with tempfile.TemporaryDirectory(prefix="plaudit-probe-") as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-m", "plaudit.plugins.probe", kind, reference, str(answer)]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return {"error": f"importing it took more than {timeout_s:g} s"}
        if answer.exists():
            return json.loads(answer.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        return {"error": f"its import ended the process with status {done.returncode} ({last[0][:200]})"}


def probe_all(targets: Sequence[tuple[str, str]], *, timeout_s: float = TIMEOUT_S) -> list[dict[str, Any]]:
    """`probe` of each (kind, reference), a few at a time, in their order."""
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda target: probe(*target, timeout_s=timeout_s), targets))


def main(kind: str, reference: str, answer: str) -> None:
    """The subprocess's part."""
    from plaudit.errors import PlauditError
    from plaudit.plugins.describe import describe
    from plaudit.plugins.importing import describe_error
    from plaudit.plugins.resolve import resolve

    try:
        found, origin = resolve(reference, (kind,))
        result: dict[str, Any] = {"description": describe(kind, found, origin)}
    except PlauditError as error:
        result = {"error": str(error)}
    except Exception as error:
        result = {"error": describe_error(error)}
    partial = Path(answer + ".partial")
    partial.write_text(json.dumps(result), encoding="utf-8")
    partial.replace(answer)
    # A plugin's threads or exit handlers may hang; the answer is written.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:4])
