"""The app's server: who may talk to it, and what it may read.

A page of another site can make a browser send requests to this machine, under a host name of its
own (DNS rebinding) or as a foreign origin. So every request, of WebSockets, uploads and media too,
must name a host that the app was started for; an origin, where one is named, must be that host.
No page of another site may show the app in a frame, to steal clicks.
Streamlit by itself checks hosts on WebSockets only, and looks up the machine's external address to
judge a foreign origin; it is never asked here. Costs microseconds a request.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

from workbench.core import machine

LOCAL = ("localhost", "127.0.0.1", "::1")
POLICY_VIOLATION = 1008  # why a WebSocket is closed


class KnownHosts:
    """Passes on what names a known host and no foreign origin; answers 403 to all else."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or _is_known(Headers(scope=scope)):
            with suppress(ClientDisconnect):  # a page that is closed during an upload
                await self.app(scope, receive, _unframed(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        else:
            refusal = PlainTextResponse(
                "This host or origin is not known. Start the app with --host-name NAME.\n", 403
            )
            await refusal(scope, receive, send)


def _unframed(send: Send) -> Send:
    """Have answers say that only the app's own pages may show them in a frame."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.append("Content-Security-Policy", "frame-ancestors 'self'")
        await send(message)

    return sent


def limit_paths(allowed: Sequence[Path] = ()) -> None:
    """From now on, read models and corpora in these folders and in Workbench's own only."""
    os.environ[machine.ALLOWED] = os.pathsep.join(str(path.resolve()) for path in allowed)


def serve(
    port: int,
    headless: bool,
    address: str = LOCAL[0],
    host_names: Sequence[str] = (),
    allowed: Sequence[Path] = (),
) -> None:
    """Serve the app until it is stopped.

    Where it listens beyond this machine, or under another name, paths are limited to `allowed`.
    """
    if address not in LOCAL or host_names:
        limit_paths(allowed)
    script = machine.app_file()
    sys.argv = [str(script)]  # Streamlit looks for its configuration beside it
    config: dict[str, Any] = {
        "server.port": port,
        "server.headless": headless,
        "server.address": address,
        "server.allowedHosts": [*LOCAL, *host_names],
    }
    st.App(script, middleware=[Middleware(KnownHosts)]).run(config=config)


def _is_known(headers: Headers) -> bool:
    named, origins = headers.getlist("host"), headers.getlist("origin")
    if len(named) != 1 or not is_host_allowed(named[0]):  # by `server.allowedHosts`
        return False
    return all(origin.partition("://")[2].lower() == named[0].lower() for origin in origins)
