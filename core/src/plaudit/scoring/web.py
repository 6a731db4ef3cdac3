"""What every HTTP server of the project shares: a token, a limit on requests, deliberate errors as answers."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plaudit.errors import PlauditError, UsageError

if TYPE_CHECKING:
    from aiohttp import web

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class WebLimits:
    """`token`: what a client must send as a bearer token, None = nothing. `max_mb`: the largest request."""

    token: str | None = None
    max_mb: int = 64


def web_app(limits: WebLimits) -> web.Application:
    """An aiohttp application that asks for the token on all but /health, and answers PlauditError with 400."""
    from aiohttp import web

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if limits.token is not None and request.path != "/health":
            given = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(), limits.token.encode()):
                raise web.HTTPUnauthorized(text="a bearer token is needed")
        try:
            return await handler(request)
        except PlauditError as error:
            raise web.HTTPBadRequest(text=str(error)) from error

    return web.Application(client_max_size=limits.max_mb * 2**20, middlewares=[guard])


async def json_object(request: web.Request) -> dict[str, Any]:
    """The request's body. Raises UsageError when it is not a JSON object."""
    try:
        found = await request.json()
    except ValueError as error:
        raise UsageError(f"the request to {request.path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f"the request to {request.path} is {found!r:.60}; expected a JSON object")
    return found
