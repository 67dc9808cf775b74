"""Time from load to paint of the attention browser and of BertViz's model view, in one Chromium.

    pip install -e ".[test,bench]"
    python -m tests.benchmarks.browser --write tests/benchmarks/results/browser.json

Both show the same attention maps: 12 x 12 heads at 32, 128 and 512 tokens, and 24 x 16 at 512 for
ours only. Each arm is one page in its own browser; arms alternate, three rounds. Measured: seconds
from navigation to paint, bytes of the page, memory of the tab's process, nodes of the document, and
for ours the time to open one head. BertViz draws a line for every weight; a page that is not
painted after `--patience` seconds, or whose tab dies, is reported as such. BertViz loads three
libraries from the network; here they come from npm and are served locally.

Then the app itself, with a random model of BERT-base's shape and a text of 510 words: a new text
(with its forward pass), another view, opening a head, the next head. Measured: seconds from the key
press to paint, and bytes received.
"""

import argparse
import json
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from playwright.sync_api import Browser, CDPSession, Error, Page, Playwright, Route, sync_playwright

import workbench as wb
from tests.analyses.attention.test_grids import made
from tests.conftest import CHROMIUM
from workbench.analyses.attention.browser.frames import cell_of, overview_of, standalone
from workbench.analyses.attention.browser.scene import scene_of, side_of
from workbench.analyses.attention.grids import Options

LENGTHS = (32, 128, 512)
ROUNDS = 3
LIBRARIES = {  # what BertViz loads from the network: the npm package, and the file in it
    "require.min.js": ("requirejs@2.3.6", "require.js"),
    "d3.min.js": ("d3@5.7.0", "dist/d3.min.js"),
    "jquery.min.js": ("jquery@2.1.4", "dist/jquery.min.js"),
}


def maps(layers: int, heads: int, length: int) -> np.ndarray:
    """Attention as sharp as trained heads have it.  # [layers, heads, n, n]"""
    scores = np.random.default_rng(0).normal(0, 2.5, (layers, heads, length, length))
    weights = np.exp(scores - scores.max(-1, keepdims=True)).astype(np.float32)
    return weights / weights.sum(-1, keepdims=True)


def ours(values: np.ndarray) -> tuple[bytes, bytes, int]:
    """The page with the overview alone, as the app sends it, one with a head too, and its bytes."""
    length = values.shape[-1]
    names = [f"token{i}" for i in range(length)]
    look = made(values, list(range(length)), [False] * length, names)
    doc = next(iter(wb.read("primer").docs("test")))
    scene = scene_of([side_of(look, ("encoder", "self"), Options(), doc)])
    overview, cell = overview_of(scene), cell_of(scene, 0, 0)
    return standalone([overview], "ours"), standalone([overview, cell], "ours"), len(cell)


def theirs(values: np.ndarray) -> bytes:
    """BertViz's model view of the same maps."""
    import torch
    from bertviz import model_view

    attention = [torch.from_numpy(layer)[None] for layer in values]
    tokens = [f"token{i}" for i in range(values.shape[-1])]
    page = model_view(attention, tokens, html_action="return", display_mode="light")
    return f"<!doctype html><body>{page.data}</body>".encode()


def libraries(folder: Path) -> dict[str, str]:
    """The libraries that BertViz loads, by the end of their URL."""
    found = {}
    for name, (package, inside) in LIBRARIES.items():
        done = subprocess.run(
            ["npm", "pack", "--silent", package], cwd=folder, check=True, capture_output=True
        )
        archive = folder / done.stdout.decode().split()[-1]
        shutil.unpack_archive(archive, folder / package)
        found[name] = (folder / package / "package" / inside).read_text()
    return found


def memory(session: CDPSession) -> int:
    """Memory of the tabs' processes in bytes."""
    told = session.send("SystemInfo.getProcessInfo")["processInfo"]
    total = 0
    for process in told:
        if process["type"] == "renderer":
            status = Path(f"/proc/{process['id']}/smaps_rollup").read_text()
            total += 1024 * int(status.split("Pss:")[1].split()[0])
    return total


def opened(playwright: Playwright) -> Browser:
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    return playwright.chromium.launch(executable_path=executable, args=CHROMIUM)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the files of a folder locally; yields the URL."""
    server = ThreadingHTTPServer(("localhost", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_address[1]}"
    finally:
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    """A file server that writes no log."""

    def log_message(self, *args: object) -> None:
        pass


def measured(
    playwright: Playwright, address: str, painted: str, answers: dict[str, str], patience: float
) -> dict[str, Any]:
    """Load one page in its own browser and measure it."""
    browser = opened(playwright)
    try:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(1000 * patience)
        page.route(re.compile("^https:"), lambda route: _answer(route, answers))
        started = time.perf_counter()
        try:
            page.goto(address, wait_until="commit")
            page.wait_for_function(painted, timeout=1000 * patience)
            page.evaluate(_FRAME)
        except Error as error:
            why = "the tab died" if "crash" in str(error).lower() else "not painted"
            return {"painted": None, "why": f"{why} after {time.perf_counter() - started:.0f} s"}
        seconds = time.perf_counter() - started
        found = {
            "painted": seconds,
            "memory": memory(browser.new_browser_cdp_session()),
            "nodes": page.evaluate(_NODES),
        }
        if "head" in answers:
            found["head"] = _opening(page)
        return found
    finally:
        browser.close()


_FRAME = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
_NODES = """() => { const count = (root) => [...root.querySelectorAll('*')].reduce(
    (sum, node) => sum + 1 + (node.shadowRoot ? count(node.shadowRoot) : 0), 0);
    return count(document); }"""
_OURS = (
    "() => [...document.querySelectorAll('*')].some(node => node.dataset && node.dataset.painted)"
)
_THEIRS = "() => document.querySelectorAll('svg line').length > 0"


def _opening(page: Page) -> float:
    """Seconds from Enter on the first head to the paint of its map."""
    page.locator("canvas").first.focus()
    started = time.perf_counter()
    page.keyboard.press("Enter")
    page.locator("svg image").first.wait_for()
    page.evaluate(_FRAME)
    return time.perf_counter() - started


def _answer(route: Route, answers: dict[str, str]) -> None:
    """Serve a library locally instead of from the network."""
    name = route.request.url.rsplit("/", 1)[-1]
    route.fulfill(body=answers[name], content_type="text/javascript")


def rows(patience: float) -> list[dict[str, Any]]:
    found = []
    with (
        tempfile.TemporaryDirectory() as temporary,
        served(Path(temporary)) as home,
        sync_playwright() as playwright,
    ):
        folder = Path(temporary)
        local = libraries(folder)
        for layers, heads, length in [*((12, 12, n) for n in LENGTHS), (24, 16, 512)]:
            values = maps(layers, heads, length)
            overview, with_head, head_bytes = ours(values)
            (folder / "workbench.html").write_bytes(with_head)
            arms = {"workbench": (len(overview), _OURS, {"head": ""})}
            if layers == 12:
                page = theirs(values)
                (folder / "bertviz.html").write_bytes(page)
                arms["bertviz"] = (len(page), _THEIRS, local)
                del page
            told: dict[str, list[dict[str, Any]]] = {name: [] for name in arms}
            for _ in range(ROUNDS):
                for name, (_, painted, answers) in arms.items():
                    if told[name] and told[name][-1]["painted"] is None:
                        continue  # a repeat would fail as well
                    address = f"{home}/{name}.html"
                    told[name].append(measured(playwright, address, painted, answers, patience))
            for name, rounds in told.items():
                size = arms[name][0]
                row = {"heads": f"{layers} x {heads}", "tokens": length, "arm": name, "bytes": size}
                if name == "workbench":
                    row["head_bytes"] = head_bytes
                found.append(row | _joined(rounds))
                print(_line(found[-1]), flush=True)
    return found


def _joined(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    done = [each for each in rounds if each["painted"] is not None]
    if not done:
        return rounds[-1]
    keys = [key for key in done[0] if key != "why"]
    return {key: statistics.median(each[key] for each in done) for key in keys} | {
        "rounds": [each["painted"] for each in done]
    }


def _line(row: dict[str, Any]) -> str:
    start = (
        f"{row['arm']:9}  {row['heads']:7}  {row['tokens']:3} tokens  {row['bytes'] / 1e6:7.2f} MB"
    )
    if row["painted"] is None:
        return f"{start}  {row['why']}"
    spread = f"{min(row['rounds']):.2f}-{max(row['rounds']):.2f}"
    head = (
        f"  head in {row['head']:.2f} s, {row['head_bytes'] / 1e3:.0f} kB" if "head" in row else ""
    )
    return (
        f"{start}  painted in {row['painted']:6.2f} s ({spread})  "
        f"tab {row['memory'] / 2**20:5.0f} MiB  {row['nodes']:,} nodes{head}"
    )


def in_app(steps: int = 5) -> dict[str, Any]:
    """Seconds from a key press to paint in the app, and bytes received."""
    from tests.app.conftest import served as app_served

    with (
        tempfile.TemporaryDirectory() as temporary,
        app_served(Path(temporary)) as home,
        sync_playwright() as playwright,
    ):
        words = _base_shaped(Path(temporary) / "model")
        browser = opened(playwright)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(180_000)
        received: list[int] = []
        page.on(
            "websocket",
            lambda socket: socket.on("framereceived", lambda data: received.append(len(data))),
        )
        text = " ".join(words[number % len(words)] for number in range(509))
        model = quote(str(Path(temporary) / "model"))
        page.goto(f"{home}/attention?model={model}&from=Your+own+text&text={quote(text)}")
        root = page.locator("[data-painted]")
        root.wait_for()
        box = page.get_by_role("textbox", name="What to read")
        told: dict[str, list[tuple[float, int]]] = {}

        def timed(name: str, act: Callable[[], object], done: Callable[[], object]) -> None:
            received.clear()
            started = time.perf_counter()
            act()
            done()
            page.evaluate(_FRAME)
            told.setdefault(name, []).append((time.perf_counter() - started, max(received)))

        def another_view(before: str | None) -> Callable[[], object]:
            changed = "([node, view]) => node.dataset.view !== view"
            return lambda: page.wait_for_function(changed, arg=[root.element_handle(), before])

        for step in range(steps):
            box.fill(f"{text} {words[step]}")
            view = root.get_attribute("data-view")
            timed("a new text", lambda: box.press("Control+Enter"), another_view(view))
        for name in ("words", "pieces") * 2:
            view = root.get_attribute("data-view")
            button = page.get_by_role("radio", name=name).or_(page.get_by_role("button", name=name))
            timed("by words or pieces", button.click, another_view(view))
        page.locator("canvas").first.focus()
        image = root.locator("svg image").first
        timed("a head", lambda: page.keyboard.press("Enter"), image.wait_for)
        for step in range(steps):
            cell = f"0,{step + 1}"
            arrived = f"(node) => node.dataset.cell === '{cell}'"
            timed(
                "the next head",
                lambda: page.keyboard.press("ArrowRight"),
                lambda arrived=arrived: page.wait_for_function(arrived, arg=root.element_handle()),
            )
        browser.close()
    return {
        name: {
            "seconds": statistics.median(second for second, _ in found),
            "rounds": [second for second, _ in found],
            "bytes": max(size for _, size in found),
        }
        for name, found in told.items()
    }


def _base_shaped(folder: Path) -> list[str]:
    """A random model of BERT-base's shape in a folder, and words of one piece each."""
    import torch
    from transformers import BertConfig, BertModel

    from tests.tiny import _tokenizer

    words = sorted({t.text for doc in wb.read("primer").docs("test") for t in doc if t.is_alpha})
    torch.manual_seed(0)
    tokenizer = _tokenizer(words)
    tokenizer.save_pretrained(folder)
    BertModel(BertConfig(vocab_size=len(tokenizer))).save_pretrained(folder)
    return words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--patience",
        type=float,
        default=120.0,
        help="maximum seconds to wait for paint (default 120)",
    )
    parser.add_argument("--write", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    found = {"pages": rows(options.patience), "app": in_app()}
    for name, step in found["app"].items():
        spread = f"{min(step['rounds']):.2f}-{max(step['rounds']):.2f}"
        print(f"app: {name}: {step['seconds']:.2f} s ({spread}), {step['bytes'] / 1e3:.0f} kB")
    if options.write:
        options.write.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
