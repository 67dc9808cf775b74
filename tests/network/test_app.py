"""A page of another site cannot control the app, and the app sends no request to other machines.

Under a name that leads here the browser believes that the app is a part of the hostile site (DNS
rebinding); Chromium's host map replaces the hostile name server. In the other tests the hostile
page sends requests to the app's own address. The app's processes record the foreign addresses they
would reach (`sitecustomize`), and the hub is not in offline mode.
"""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.app.conftest import forked, served
from tests.app.drive import still
from tests.app.test_serving import ROUTES, answer
from tests.conftest import HOSTILE
from tests.network.conftest import NOTES, environment, made, noted

pytestmark = pytest.mark.browser
PAGES = (
    "",
    "questions",
    "attention",
    "models",
    "doctor",
    "corpora",
    "words",
    "heads",
    "head",
    "pruning",
    "cut",
    "probing",
    "transfer",
    "experiments",
    "runs",
)
FORKED = f"""
{NOTES}
import runpy
sys.modules.pop("workbench.cli.main", None)
runpy.run_module("workbench.cli.main", run_name="__main__", alter_sys=True)
"""
ASK = """async ([base, routes, mode]) => {
    const found = {}
    for (const [name, [method, path]] of Object.entries(routes)) {
        const options = {method, mode, credentials: "include"}
        found[name] = await fetch(base + path, options).then(r => r.status, () => "blocked")
    }
    return found
}"""
CONNECT = """url => new Promise(done => {
    const socket = new WebSocket(url, ["streamlit"])
    socket.onopen = () => done("open")
    socket.onerror = () => done("refused")
    setTimeout(() => done("neither"), 20000)
})"""
FRAME = """url => new Promise(done => {
    const frame = document.createElement("iframe")
    frame.onload = () => done()
    frame.src = url
    document.body.append(frame)
})"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("app"))


@pytest.fixture(scope="module")
def app_url(place: Path) -> Iterator[str]:
    """An app that notes what it would ask of other machines."""
    with forked(place, "-c", FORKED, **environment(place)) as url:
        yield url


@pytest.fixture(scope="module")
def own_url(place: Path) -> Iterator[str]:
    """The same in a process that begins with it."""
    with served(place, **environment(place)) as url:
        yield url


@pytest.fixture(autouse=True)
def nothing_left(place: Path) -> Iterator[None]:
    yield
    assert noted(place) == ""


@pytest.fixture
def hostile(page: Page, app_url: str) -> Page:
    """A page whose origin is the hostile name, on the app's port."""
    answer = page.goto(f"http://{HOSTILE}:{urlsplit(app_url).port}/")
    assert answer is not None and answer.status == 403
    expect(page.get_by_text("not known")).to_be_visible()
    expect(page.get_by_test_id("stApp")).to_have_count(0)
    return page


@pytest.mark.slow  # by day tests/app/test_serving.py asks without a browser, as the next test
def test_under_a_name_that_leads_here_nothing_is_answered(hostile: Page, app_url: str) -> None:
    base = f"http://{HOSTILE}:{urlsplit(app_url).port}"
    assert hostile.evaluate(ASK, [base, ROUTES, "same-origin"]) == dict.fromkeys(ROUTES, 403)
    assert hostile.evaluate(CONNECT, f"{base.replace('http', 'ws')}/_stcore/stream") == "refused"


@pytest.mark.slow
def test_across_origins_nothing_is_answered_either(hostile: Page, app_url: str) -> None:
    found = hostile.evaluate(ASK, [app_url, ROUTES, "cors"])
    assert found == dict.fromkeys(ROUTES, "blocked")
    socket = f"{app_url.replace('http', 'ws')}/_stcore/stream"
    assert hostile.evaluate(CONNECT, socket) == "refused"
    hostile.evaluate(FRAME, app_url)
    frame = hostile.frames[-1]
    for _ in range(100):  # its address comes a moment after it has loaded
        if frame.url:
            break
        hostile.wait_for_timeout(100)
    assert frame.url.startswith("chrome-error:"), "the browser shows no frame of it"


def test_the_same_browser_uses_the_app_under_its_own_name(page: Page, app_url: str) -> None:
    page.goto(app_url)
    expect(page.get_by_test_id("stApp")).to_be_visible()
    answered = page.evaluate(ASK, [app_url, ROUTES, "same-origin"])
    assert answered["page"] == answered["health"] == answered["settings"] == 200
    assert 403 not in {answered[name] for name in ("media", "component", "component v2")}
    assert page.evaluate(CONNECT, f"{app_url.replace('http', 'ws')}/_stcore/stream") == "open"


def look_at(
    names: tuple[str, ...], url: str, page: Page, place: Path, model: str = "mini:bert"
) -> None:
    """Open pages; neither the app nor the browser sends a request to another machine."""
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("websocket", lambda socket: requested.append(socket.url))
    for name in names:
        page.goto(f"{url}/{name}?model={model}")
        expect(page.get_by_test_id("stApp")).to_be_visible()
        still(page)
    hosts = {
        urlsplit(each).hostname for each in requested if not each.startswith(("data:", "blob:"))
    }
    assert hosts == {"localhost"}
    assert noted(place) == ""


def test_no_foreign_origin_makes_the_app_ask_another_machine(app_url: str, place: Path) -> None:
    """Streamlit looks up the machine's external address to judge an origin, if it is let."""
    assert answer(app_url, "/_stcore/stream", Origin="http://evil.example") == 403
    assert answer(app_url, "/_stcore/stream", Origin="http://192.0.2.7:8501") == 403
    assert noted(place) == ""


@pytest.mark.slow
def test_no_page_does_where_a_model_is_opened(own_url: str, page: Page, place: Path) -> None:
    look_at(("attention",), own_url, page, place)


@pytest.mark.slow
def test_no_other_page_does(own_url: str, page: Page, place: Path) -> None:
    look_at(PAGES, own_url, page, place, str(place / "model"))
