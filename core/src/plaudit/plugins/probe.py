"""Importing a plugin in a process of its own, so that one that crashes, hangs or prints cannot hurt the CLI.

`python -m plaudit.plugins.probe KIND REFERENCE FILE` writes {"description": …} or {"error": …} to FILE.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any


def probe(kind: str, reference: str, *, timeout_s: float = 60.0) -> dict[str, Any]:
    """{"description": …} (see `describe`) or {"error": text} of a component, found out in a subprocess."""
    with tempfile.TemporaryDirectory(prefix="plaudit-probe-") as folder:
        answer, noise = Path(folder) / "answer.json", Path(folder) / "noise.txt"
        command = [sys.executable, "-m", "plaudit.plugins.probe", kind, reference, str(answer)]
        # Output goes to a file: what the plugin starts could hold a pipe open for ever.
        with noise.open("wb") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return {"error": f"importing it took more than {timeout_s:g} s"}
        finally:
            _end(process)
        if answer.exists():
            return json.loads(answer.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
        last = noise.read_bytes()[-2000:].decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        return {"error": f"its import ended the process with status {status} ({last[0][:200]})"}


def probe_all(targets: Sequence[tuple[str, str]], *, timeout_s: float = 60.0) -> list[dict[str, Any]]:
    """`probe` of each (kind, reference), a few at a time, in their order."""
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda target: probe(*target, timeout_s=timeout_s), targets))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and what it started (its session; on Windows the process alone), and reap it."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


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
