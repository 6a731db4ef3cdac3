"""Ready tools for agents: Python and bash in a sandbox, with state that lasts for one rollout.

`SandboxTools` is an environment by itself: its public methods are the tools. An environment of your own holds one:

```python
class Analyst:
    def __init__(self):
        self._tools = SandboxTools()

    async def reset(self, **row):
        await self._tools.reset()

    async def python(self, code: str) -> str:
        \"\"\"Run Python code. …\"\"\"
        return await self._tools.python(code)

    async def close(self):
        await self._tools.close()
```
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from plaudit_sandbox.limits import Limits
from plaudit_sandbox.opening import shared_sandbox
from plaudit_sandbox.protocol import Program, Sandbox, Session
from plaudit_sandbox.result import Result

_BASH = """\
exec 2>&1
set -a
[ -f ~/.bash_state ] && . ~/.bash_state
keep() { export -p; declare -f; printf "cd -- %q\\n" "$PWD"; }
trap 'keep > ~/.bash_state.new; mv -f ~/.bash_state.new ~/.bash_state' EXIT
"""


class SandboxTools:
    """One rollout's Python and bash. State lasts from one `reset` to the next, or to `close`.

    backend, options: as for `shared_sandbox`, None = the run's back end; many rollouts share one pool.
    timeout_s, memory_mb: of one call. max_characters: of what a tool returns; of more, the middle is left out.
    sandbox: use this one instead of the shared one; its own limits hold.
    """

    def __init__(
        self,
        *,
        backend: str | None = None,
        timeout_s: float = 30.0,
        memory_mb: int = 1024,
        max_characters: int = 8000,
        sandbox: Sandbox | None = None,
        **options: Any,
    ) -> None:
        limits = Limits(timeout_s=timeout_s, memory_mb=memory_mb)
        self._box = sandbox or shared_sandbox(backend, limits=limits, **options)
        self._max_characters = max_characters
        self._held = AsyncExitStack()
        self._session: Session | None = None

    async def reset(self, **row: object) -> None:
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
        """Run a bash command and return its output.

        The working directory, variables, functions and files last from call to call.

        Args:
            command: The bash command to run.

        Returns:
            What the command wrote to stdout and stderr, followed by its exit code if that is not 0.
        """
        session = await self._begun()
        return self._text(await session.run(Program(command=["bash", "-c", f"{_BASH}{command}\n"])))

    async def _begun(self) -> Session:
        if self._session is None:
            self._session = await self._held.enter_async_context(self._box.session())
        return self._session

    def _text(self, result: Result) -> str:
        parts = [result.text, result.error_text]
        if result.status == "failed" and not result.error_text:
            parts.append(f"[exit code {result.exit_code}]")
        elif result.status not in ("ok", "failed", "compile"):
            parts.append(f"[{result.status}: {result.detail}]")
        return shorten("\n".join(part.rstrip("\n") for part in parts if part.strip()), self._max_characters)


def shorten(text: str, limit: int) -> str:
    """`text`, or its beginning and end with a note of what is left out."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"
