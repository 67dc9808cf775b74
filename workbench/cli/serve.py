"""The server of the app: which hosts it accepts, and which folders it may read.

A page of another site can make a browser send requests to this machine, under its own host name
(DNS rebinding) or as a foreign origin. Therefore every request, also for WebSockets, uploads and
media, must name a host that the app was started for; an origin, if there is one, must be that host.
Pages of other sites cannot show the app in a frame, which prevents clickjacking. Streamlit checks
hosts only for WebSockets, and looks up the external address of the machine for a foreign origin;
this module replaces that check. It also completes the page around the app: see `Prepared`. Costs:
microseconds per request, and a copy of a small page for each visit.
"""

import os
import re
import socket
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

from workbench.app.frame import preload
from workbench.core import machine
from workbench.core.errors import WorkbenchError

LOCAL = ("localhost", "127.0.0.1", "::1")
ANY = ("", "0.0.0.0", "::")  # addresses that stand for all of the machine
POLICY_VIOLATION = 1008  # code of a closed WebSocket


class KnownHosts:
    """Accepts requests with a known host and no foreign origin; returns 403 for all others."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or _is_known(Headers(scope=scope)):
            with suppress(ClientDisconnect):  # the page was closed during an upload
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
    """Add a header to responses: only pages of the app may show them in a frame."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.append("Content-Security-Policy", "frame-ancestors 'self'")
        await send(message)

    return sent


# Before Streamlit's scripts: where the server is, since Streamlit else tries each folder of the
# address first, and fails; no entry of the history where only the model or corpus is completed, or
# where a link's parameters are written into the address of the page that is left, just before the
# page is opened; one entry where an edit of the model changes, also if the former one is first
# removed; and one theme for all pages, since Streamlit stores one for each address.
_BEFORE = """<script>
window.__streamlit = { BACKEND_BASE_URL: new URL("./", document.baseURI).href };
const push = history.pushState;
let written = -Infinity, edited = -Infinity;
history.pushState = function (state, title, url) {
  const [from, to] = [location.href, url ?? ""].map((each) => new URL(each, location.href));
  const edit = (each) => each.searchParams.get("model")?.split("@edit:")[1];
  const isOther = edit(from) !== edit(to); // before the model is left out of both
  for (const { searchParams } of [from, to]) {
    searchParams.delete("model");
    searchParams.delete("corpus");
    searchParams.sort();
  }
  if (!from.searchParams.has("cell")) to.searchParams.delete("cell"); // the head that opens first
  const isSamePage = from.pathname === to.pathname, now = performance.now();
  const isSecond = !isSamePage && from.search && from.search === to.search && now - written < 1000;
  if (isSamePage) written = now;
  const isEdit = isSamePage && isOther && now - edited > 500;
  if (isEdit) edited = now;
  const put = (from.href === to.href && !isEdit) || isSecond ? history.replaceState : push;
  put.call(history, state, title, url);
};
try {
  const keys = /^stActiveTheme-/, all = "workbench-theme", set = Storage.prototype.setItem;
  const chosen = localStorage.getItem(all);
  if (chosen) localStorage.setItem(`stActiveTheme-${location.pathname}-v2`, chosen);
  Storage.prototype.setItem = function (key, value) {
    set.call(this, key, value);
    if (keys.test(key)) set.call(this, all, value);
  };
} catch { /* a browser without storage has the theme of the system */ }
</script>"""
_FONT = re.compile(r'<link\s+rel="preload"\s+href="[^"]*SourceSans[^>]*>')
_INTER = (
    '<link rel="preload" href="./app/static/inter-latin.woff2" as="font" type="font/woff2" '
    "crossorigin>"
)


class Prepared:
    """Adds to Streamlit's page, before its scripts: the server's address, theme, font and title."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or "text/html" not in Headers(scope=scope).get("accept", ""):
            await self.app(scope, receive, send)
            return
        whole = (b"accept-encoding", b"if-none-match", b"if-modified-since", b"range")
        kept = [header for header in scope["headers"] if header[0].lower() not in whole]
        page: list[bytes] = []
        start: Message = {}

        async def sent(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                if not _is_page(message):
                    await send(message)
            elif not start or not _is_page(start):
                await send(message)
            else:
                page.append(message.get("body", b""))
                if not message.get("more_body"):
                    body = prepared(b"".join(page).decode("utf-8")).encode("utf-8")
                    headers = MutableHeaders(scope=start)
                    headers["Content-Length"] = str(len(body))
                    for name in ("etag", "last-modified"):  # those of the file
                        del headers[name]
                    await send(start)
                    await send({"type": "http.response.body", "body": body})

        await self.app({**scope, "headers": kept}, receive, sent)


def prepared(page: str) -> str:
    """Streamlit's page with what is added to it; another page unchanged."""
    if "<title>Streamlit</title>" not in page:
        return page
    page = _FONT.sub(_INTER, page, count=1)
    return page.replace("<title>Streamlit</title>", f"<title>Workbench</title>{_BEFORE}", 1)


def _is_page(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    return headers.get("content-type", "").startswith("text/html") and start["status"] == 200


def limit_paths(allowed: Sequence[Path] = ()) -> None:
    """Limit models and corpora to these folders and to the folders of Workbench."""
    os.environ[machine.ALLOWED] = os.pathsep.join(str(path.resolve()) for path in allowed)


def check_port(address: str, port: int) -> None:
    """Refuse a port that another program uses, before anything is started."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        socket.create_server((address, port), family=family).close()
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (")[0]  # without the address again
        raise WorkbenchError(
            f"the app cannot use port {port} of {address!r}: {why}.",
            code="port-not-free",
            remedy="Choose another one with --port, or open the app that runs there.",
        ) from None


def serve(
    port: int,
    headless: bool,
    address: str = LOCAL[0],
    host_names: Sequence[str] = (),
    allowed: Sequence[Path] = (),
) -> None:
    """Serve the app until it is stopped.

    If other machines can reach it, or it has another host name, paths are limited to `allowed`.
    """
    if address not in LOCAL or host_names:
        limit_paths(allowed)
    script = machine.app_file()
    preload.begin()
    sys.argv = [str(script)]  # Streamlit searches its configuration next to the script
    config: dict[str, Any] = {
        "server.port": port,
        "server.headless": headless,
        "server.address": address,
        "server.allowedHosts": [*LOCAL, *host_names],
        # else it offers its own tools to whoever has some for coding, above the page
        "logger.hideWelcomeMessage": True,
    }
    host = next(iter(host_names), LOCAL[0] if address in ANY else address)
    print(f"Workbench: http://{host}:{port} (Ctrl+C ends it)", flush=True)
    st.App(script, middleware=[Middleware(KnownHosts), Middleware(Prepared)]).run(config=config)


def _is_known(headers: Headers) -> bool:
    hosts, origins = headers.getlist("host"), headers.getlist("origin")
    if len(hosts) != 1 or not is_host_allowed(hosts[0]):  # by `server.allowedHosts`
        return False
    return all(origin.partition("://")[2].lower() == hosts[0].lower() for origin in origins)
