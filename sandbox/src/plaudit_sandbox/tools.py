"""Ready tools for agents: Python and bash in a sandbox, with state that lasts for one rollout.

```python
class Notebook:                      # an environment
    def __init__(self):
        self._tools = SandboxTools()
    async def reset(self, **row):
        await self._tools.reset()
    async def python(self, code: str) -> str:
        ...
```

Or as they are: `get_tools(tools)` gives two bound methods with typed arguments and Google docstrings.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from plaudit_sandbox.limits import Limits
from plaudit_sandbox.opening import shared_sandbox
from plaudit_sandbox.protocol import Sandbox, Session
from plaudit_sandbox.result import Result

DEFAULT_LIMITS = Limits(timeout_s=30, memory_mb=1024)
_STATE = ".bash_state"
_BASH = """\
[ -f "$HOME/{state}" ] && . "$HOME/{state}"
trap '{{ code=$?; {{ declare -p; declare -f; alias -p; echo "cd -- $(printf %q "$PWD")"; }} 2>/dev/null |
  grep -Ev "^declare -[a-z]*r[a-z]* |^declare -[-a-z]* (BASH|DIRSTACK|EUID|FUNCNAME|GROUPS|PIPESTATUS|PPID|SHELL|UID|_)";
  exit $code; }} > "$HOME/{state}.new"; mv -f "$HOME/{state}.new" "$HOME/{state}"' EXIT
"""


class SandboxTools:
    """One rollout's tools. State lasts from `reset` to the next `reset` or `close`.

    max_characters: of what a tool returns; the middle is left out of more. sandbox: where to run; by default the
    process's shared one of `backend` with `limits`.
    """

    def __init__(
        self,
        *,
        backend: str = "local",
        limits: Limits = DEFAULT_LIMITS,
        max_characters: int = 8000,
        sandbox: Sandbox | None = None,
        **options: Any,
    ) -> None:
        self._box = sandbox or shared_sandbox(backend, limits=limits, **options)
        self._max_characters = max_characters
        self._held = AsyncExitStack()
        self._session: Session | None = None

    async def reset(self) -> None:
        """Begin anew: names, files and processes of the rollout before are gone."""
        await self.close()

    async def close(self) -> None:
        """End the session, if one was begun. A later call begins another."""
        self._session = None
        await self._held.aclose()

    async def python(self, code: str) -> str:
        """Run Python code and return what it prints, or its error.

        Names, imports and files last from call to call. The value of a last expression is printed.

        Args:
            code: The Python code to run.

        Returns:
            What the code printed, followed by the error if it raised one.
        """
        return self._text(await (await self._begun()).run(code))

    async def bash(self, command: str) -> str:
        """Run a shell command and return its output.

        The working directory, variables, functions and files last from call to call.

        Args:
            command: The bash command to run.

        Returns:
            What the command wrote to stdout and stderr, followed by its exit code if that is not 0.
        """
        raise NotImplementedError

    async def _begun(self) -> Session:
        if self._session is None:
            self._session = await self._held.enter_async_context(self._box.session())
        return self._session

    def _text(self, result: Result) -> str:
        parts = [result.text, result.error_text]
        if result.status == "timeout":
            parts.append(f"[stopped: {result.detail}]")
        elif result.status != "ok":
            parts.append(f"[{result.detail or result.status}]")
        return shorten("\n".join(part.rstrip("\n") for part in parts if part.strip()), self._max_characters)


def get_tools(tools: SandboxTools) -> list[Callable[[str], Awaitable[str]]]:
    """The tools as functions: [python, bash]."""
    return [tools.python, tools.bash]


def shorten(text: str, limit: int) -> str:
    """`text`, or its beginning and end with a note of what is left out."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"
