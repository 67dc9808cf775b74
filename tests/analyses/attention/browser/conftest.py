"""The attention browser in Chromium, mounted as Streamlit mounts it, answered from Python."""

import base64
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.analyses.attention.browser.making import World
from workbench.analyses.attention.browser import frames

# A stand-in for Streamlit: a shadow root, triggers that reach Python, answers as new data.
PAGE = """<!doctype html><meta charset="utf-8"><title>harness</title>
<style>:root {{ --st-background-color: #ffffff; }} body {{ margin: 16px; }}
:root.dark {{ --st-background-color: #15191e; }} :root.dark body {{ background: #15191e; }}</style>
<div id="host"></div>
<script type="module">
{script}
const style = document.createElement("style");
style.textContent = {style!r};
const bytes = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
document.addEventListener("keydown", (event) => window.escaped.push(event.key));
window.mount = () => {{
  const box = document.createElement("div");
  document.getElementById("host").replaceChildren(box);
  document.documentElement.className = "";
  const place = (window.place = box.attachShadow({{ mode: "open" }}));
  place.append(style.cloneNode(true));
  Object.assign(window, {{ slow: 0, escaped: [], workbenchAttention: undefined }});
  const trigger = async (name, request) => {{
    const wait = window.slow;
    const text = place === window.place && await window.answer(name, JSON.stringify(request));
    if (wait) await new Promise((go) => setTimeout(go, wait));
    if (text && place === window.place) window.give(text);
  }};
  window.give = (text) => {{
    const given = {{ parentElement: place, data: bytes(text), setTriggerValue: trigger }};
    window.clear = attention(given);
  }};
}};
window.unmount = () => {{
  window.clear();
  document.getElementById("host").replaceChildren();
  window.place = null;
}};
</script>"""


@dataclass
class Shown:
    """The page and what went on in it."""

    page: Page
    world: World
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def requests_for(self, what: str) -> list[dict[str, Any]]:
        return [request for request in self.world.requests if request["what"] == what]

    def give(self, frame: bytes) -> None:
        self.page.evaluate("text => window.give(text)", base64.b64encode(frame).decode())

    def painted(self) -> None:
        self.page.wait_for_selector(".attention[data-painted]")

    def open(self, row: int, column: int) -> None:
        """Opens a cell by the keyboard's way: focus, then Enter."""
        self.page.locator("canvas.heads").first.focus()
        for key in ["ArrowDown"] * row + ["ArrowRight"] * column + ["Enter"]:
            self.page.keyboard.press(key)
        self.cell(row, column)

    def cell(self, row: int, column: int) -> None:
        """Waits until that cell is what is seen."""
        self.page.wait_for_selector(f".attention[data-cell='{row},{column}']")

    def menu(self, name: str, is_open: bool = True) -> None:
        """Opens or closes a menu of the row above the open head."""
        summary = self.page.locator("details.menu > summary", has_text=name)
        summary.evaluate("(one, open) => { one.parentElement.open = open }", is_open)

    def exact_values(self) -> list[float]:
        """The values of the pinned row or column, unrounded."""
        found = self.page.locator(".bars .number")
        return [float(v) for v in found.evaluate_all("all => all.map(one => one.dataset.value)")]

    def map_box(self, panel: int = 0) -> dict[str, float]:
        box = self.page.locator(".panel").nth(panel).locator(".map .pane svg").bounding_box()
        assert box
        return {**box}

    def at(self, i: int, j: int, panel: int = 0) -> tuple[float, float]:
        """Where on the screen a map's cell lies."""
        box = self.map_box(panel)
        side = self.world.sides[min(panel, len(self.world.sides) - 1)]
        rows, columns = side.maps.shape[-2:]
        return (
            box["x"] + (j + 0.5) * box["width"] / columns,
            box["y"] + (i + 0.5) * box["height"] / rows,
        )

    def hover(self, i: int, j: int, panel: int = 0) -> str:
        self.page.mouse.move(*self.at(i, j, panel))
        return self.page.locator(".tip").inner_text()

    def click(self, i: int, j: int, panel: int = 0) -> None:
        self.page.mouse.click(*self.at(i, j, panel))

    def nodes(self) -> int:
        return int(
            self.page.evaluate(
                "() => { let n = 0; const walk = document.createTreeWalker("
                "place.querySelector('.attention'), NodeFilter.SHOW_ALL);"
                "while (walk.nextNode()) n += 1; return n; }"
            )
        )

    def shot(self, name: str) -> None:
        if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
            self.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


Show = Callable[..., Shown]


@pytest.fixture(scope="session")
def stage(browser: Browser) -> Iterator[tuple[Page, list[Shown]]]:
    """One page for all tests, for opening one takes longest; the last of the list is on it."""
    page = browser.new_context(accept_downloads=True).new_page()
    page.set_default_timeout(15_000)
    shown: list[Shown] = []

    def answered(name: str, request: str) -> str | None:
        assert name == "ask"
        frame = shown[-1].world.answer(request)
        return base64.b64encode(frame).decode() if frame else None

    page.expose_function("answer", answered)
    page.on("request", lambda request: shown[-1].requests.append(request.url))
    page.on("console", lambda message: shown[-1].console.append(message.text))
    page.on("pageerror", lambda error: shown[-1].console.append(str(error)))
    page.on("dialog", lambda dialog: (shown[-1].console.append("dialog"), dialog.dismiss()))
    yield page, shown
    page.context.close()


def written(folder: Path, patience: int) -> Path:
    """A file with the stand-in, which sends a request again after so many milliseconds."""
    script = frames.script().replace("PATIENCE = 3000", f"PATIENCE = {patience}")
    script = script.replace("KEPT = 2000", "KEPT = 300") + f"window.patience = {patience};"
    file = folder / "page.html"
    file.write_text(PAGE.format(script=script, style=frames.style()), encoding="utf-8")
    return file


@pytest.fixture
def show(stage: tuple[Page, list[Shown]], tmp_path: Path) -> Iterator[Show]:
    """Shows a world in the stand-in for Streamlit; by the end nothing may have gone wrong."""
    page, shown = stage
    shown.clear()

    def opened(
        world: World, *, width: int = 1280, patience: int = 3000, first: bytes | None = None
    ) -> Shown:
        one = Shown(page, world)
        shown.append(one)
        page.mouse.move(0, 0)
        page.set_viewport_size({"width": width, "height": 900})
        if page.evaluate("window.patience") != patience:
            page.goto(written(tmp_path, patience).as_uri())
        page.evaluate("window.mount()")
        one.give(first or world.overview())
        if first is None:
            one.painted()
        return one

    yield opened
    if shown:
        page.evaluate("window.unmount()")  # so that nothing of this test speaks in the next
    for one in shown:
        assert one.console == []
        schemes = ("file:", "data:", "blob:", "about:")
        assert all(url.startswith(schemes) for url in one.requests)
