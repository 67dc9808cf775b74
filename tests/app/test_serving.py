"""Who may talk to the app: known hosts and its own origin, on every route."""

import asyncio
import http.client
import os
import shutil
import socket
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import streamlit
from playwright.sync_api import Page, expect
from starlette.requests import ClientDisconnect

import workbench as wb
from tests.app.conftest import served
from tests.app.drive import typed
from workbench import WorkbenchError
from workbench.cli import serve
from workbench.cli.serve import KnownHosts
from workbench.core.machine import ALLOWED, require_allowed

MINI = Path(wb.__file__).parent / "models" / "mini" / "bert"

ROUTES = {  # a method and a path of every kind: pages, facts, uploads, media, components
    "page": ("GET", "/attention"),
    "health": ("GET", "/_stcore/health"),
    "settings": ("GET", "/_stcore/host-config"),
    "upload": ("PUT", "/_stcore/upload_file/session/file"),
    "removal": ("DELETE", "/_stcore/upload_file/session/file"),
    "media": ("GET", "/media/0.png"),
    "component": ("GET", "/component/workbench/index.html"),
    "component v2": ("GET", "/_stcore/bidi-components/workbench/index.js"),
    "static": ("GET", "/static/index.html"),
}
POLICY = "content-security-policy"
ALL = [("GET", "/"), ("GET", "/_stcore/stream"), *ROUTES.values()]


def answer(url: str, path: str, method: str = "GET", **headers: str) -> int:
    """The status of a request with these headers; of the handshake where it is a WebSocket's."""
    return asked(url, path, method, **headers)[0]


def asked(
    url: str, path: str, method: str = "GET", **headers: str
) -> tuple[int, Mapping[str, str], str]:
    """The status, the headers and the text of what is answered."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection("localhost", place.port, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    headers = {"Host": place.netloc, **headers}
    if path.endswith("stream"):
        headers |= {
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }  # fmt: skip
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    text = "" if response.status == 101 else response.read().decode()
    connection.close()
    return response.status, dict(response.headers), text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "localhost.evil.example"])
def test_a_foreign_host_is_refused_on_every_route(app_url: str, host: str) -> None:
    named = host.format(port=urlsplit(app_url).port)
    assert {answer(app_url, path, method, Host=named) for method, path in ALL} == {403}


@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost:1", "null"])
def test_a_foreign_origin_is_refused_on_every_route(app_url: str, origin: str) -> None:
    assert {answer(app_url, path, method, Origin=origin) for method, path in ALL} == {403}


def test_a_refusal_says_why_and_only_own_pages_show_the_app_in_a_frame(app_url: str) -> None:
    """In a browser: tests/network/test_app.py, at night."""
    assert "not known" in asked(app_url, "/", Host="evil.example")[2]
    headers = asked(app_url, "/")[1]
    policies = [value for name, value in headers.items() if name.lower() == POLICY]
    assert policies == ["frame-ancestors 'self'"]


def test_an_upload_that_is_broken_off_is_no_error() -> None:
    """Streamlit hands on the disconnect, and the server would log it with a traceback."""

    async def upload(scope: object, receive: object, send: object) -> None:
        raise ClientDisconnect

    scope = {"type": "http", "headers": [(b"host", b"localhost")], "method": "PUT", "path": "/"}
    answer = KnownHosts(upload)(scope, None, None)  # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as aside:  # a browser's test may have an event loop in this thread
        aside.submit(asyncio.run, answer).result()


def test_the_page_around_the_app_knows_where_the_server_is() -> None:
    """Else Streamlit asks each folder of the address for it first, and the console has errors."""
    page = (Path(streamlit.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    page = serve.prepared(page)
    assert page.index("BACKEND_BASE_URL") < page.index('type="module"')
    assert "Workbench</title>" in page and "SourceSans" not in page
    assert serve.prepared("<p>another page</p>") == "<p>another page</p>"


def test_its_own_names_are_served(app_url: str) -> None:
    port = urlsplit(app_url).port
    for host in ("localhost", "127.0.0.1", "[::1]"):
        own = f"{host}:{port}"
        assert answer(app_url, "/_stcore/health", Host=own, Origin=f"http://{own}") == 200
        assert answer(app_url, "/_stcore/stream", Host=own, Origin=f"http://{own}") == 101


def test_where_others_are_let_in_only_allowed_folders_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "out").symlink_to("/etc")
    assert require_allowed(Path("/etc/passwd")), "on localhost paths are free"
    monkeypatch.setenv(ALLOWED, os.pathsep.join([str(tmp_path / "in")]))
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    for fine in ("in/a", "home/b", "runs/c"):
        assert require_allowed(tmp_path / fine)
    for path in ("/etc/passwd", tmp_path / "in/../x", tmp_path / "in/out/passwd", "~/x"):
        with pytest.raises(WorkbenchError, match="path-not-allowed"):
            require_allowed(Path(path))


def test_models_and_corpora_outside_them_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "text.txt").write_text("A dog ran.")
    monkeypatch.setenv(ALLOWED, str(tmp_path / "elsewhere"))
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    folder = tmp_path / "model"
    elmo, vectors = f"elmo:{folder}/a,{folder}/b", f"vectors:{folder}"
    for model in (f"{folder}", f"{folder}@random", elmo, vectors):
        with pytest.raises(WorkbenchError, match="path-not-allowed"):
            wb.load(model, device="cpu")
    with pytest.raises(WorkbenchError, match="path-not-allowed"):
        wb.read(tmp_path / "text.txt")
    assert wb.load("mini:bert", device="cpu")


@pytest.mark.parametrize(
    ("options", "limited"),
    [
        ({}, False),
        ({"address": "127.0.0.1"}, False),
        ({"address": "0.0.0.0"}, True),
        ({"address": "::"}, True),
        ({"address": ""}, True),
        ({"address": "192.168.1.7"}, True),
        ({"host_names": ["lab.example"]}, True),
    ],
)
def test_paths_are_limited_whenever_others_can_reach_it(
    options: dict[str, Any],
    limited: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(serve.st.App, "run", lambda self, config: None)
    monkeypatch.setattr(serve.preload, "begin", lambda: None)  # it is for a process of its own
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setenv(ALLOWED, "")  # so that what is set here is taken back
    monkeypatch.delenv(ALLOWED)
    serve.serve(8501, True, allowed=[tmp_path], **options)
    assert capsys.readouterr().out.startswith("Workbench: http://")
    assert os.environ.get(ALLOWED) == (str(tmp_path.resolve()) if limited else None)


def test_a_port_in_use_is_refused() -> None:
    with socket.create_server(("localhost", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(WorkbenchError, match="port-not-free"):
            serve.check_port("localhost", port)
    serve.check_port("localhost", port)


@pytest.mark.slow
@pytest.mark.browser
def test_a_shared_app_opens_what_lies_in_allowed_folders_and_nothing_else(
    page: Page, tmp_path: Path
) -> None:
    """Typed into the page, as a visitor does."""
    for name in ("inside", "outside"):
        shutil.copytree(MINI, tmp_path / name / "bert")
    options = ("--address", "0.0.0.0", "--allow", str(tmp_path / "inside"))
    with served(tmp_path, *options) as url:
        page.goto(f"{url}/models")
        typed(page, "Folder, GGUF file, hub id or run", str(tmp_path / "outside" / "bert"))
        page.get_by_role("button", name="Use this model").click()
        expect(page.get_by_text("may not read this path").first).to_be_visible()
        typed(page, "Folder, GGUF file, hub id or run", str(tmp_path / "inside" / "bert"))
        page.get_by_role("button", name="Use this model").click()
        expect(page.get_by_text("may not read this path")).to_have_count(0)
        expect(page.get_by_test_id("stMetricValue").first).to_have_text("bert")
