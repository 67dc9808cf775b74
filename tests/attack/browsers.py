"""Pages that click at random through the app, each a visitor of its own.

    python -m tests.attack.browsers --pages 8 --minutes 5

A visitor opens a page, clicks what can be clicked, types odd texts, presses keys, goes back, loads
again, and opens heads of the attention browser, each of which is timed. A page must show neither a
traceback nor "something went wrong", no script of it may fail, the server must log no error, and
answer to the end; its memory is measured all the time. Costs a server, a browser, and 200 MB a
page.
"""

import argparse
import asyncio
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Error, Page, async_playwright

from tests.attack.fuzz import draw_of
from tests.attack.mutations import ODD_TEXTS

PAGES = ("", "models", "corpora", "attention", "heads", "head", "pruning", "cut", "transfer")
PAGES += ("layer", "word", "questions", "probing", "words", "experiments", "runs", "lessons")
PAGES += ("doctor",)
CHROMIUM = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PATIENCE = 120.0  # seconds that a page may take to be drawn
GROWTH = 1_500 << 20  # bytes that the server may gain while models and corpora are first opened
CREEP = 200 << 20  # and that it may gain in the second half, when it has seen everything
WRONG = ("Traceback (most recent call last)", "something went wrong inside Workbench")
CLICKED = (
    "[data-testid=stButton] button, [role=tab], [role=radio], [role=checkbox], [role=switch], "
    "[data-testid=stPills] button, [data-testid=stExpander] summary, [role=option], a[href^='/'], "
    "[data-testid=stTopNavLink], [data-baseweb=select], [data-testid=stSelectbox] input, canvas"
)
KEYS = ("Enter", "Escape", "ArrowRight", "ArrowDown", "ArrowLeft", "Tab", "Home", "End", "/")


@dataclass
class Browsing:
    """What visitors did, and what was found."""

    pages: int = 0  # visitors
    loads: int = 0
    actions: Counter[str] = field(default_factory=Counter)
    heads: list[float] = field(default_factory=list)  # seconds from Enter to a head's map
    memory: list[tuple[float, int]] = field(default_factory=list)  # (seconds, bytes of the server)
    runs: int = 0
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        actions = ", ".join(f"{name} {number:,}" for name, number in self.actions.most_common())
        lines = [
            f"browsers                {self.pages:9} visitors, {self.loads:,} pages loaded, "
            f"{sum(self.actions.values()):,} actions, {self.runs} runs started",
            f"  {actions}",
        ]
        if self.heads:
            late = statistics.quantiles(self.heads, n=20)[-1] if len(self.heads) > 1 else 0.0
            middle = statistics.median(self.heads)
            lines.append(
                f"  {len(self.heads)} heads opened: median {middle:.2f} s, "
                f"95th percentile {late or middle:.2f} s"
            )
        if self.memory:
            sizes = [size >> 20 for _, size in self.memory]
            lines.append(
                f"  memory of the server: {sizes[0]} MiB at first, "
                f"{sizes[len(sizes) // 2]} at half time, {sizes[-1]} at the end, "
                f"{max(sizes)} at most"
            )
        return "\n".join(lines)

    def judge_memory(self, line: str) -> None:
        """Growth is a finding where it goes on when everything has been opened."""
        sizes = [size for _, size in self.memory]
        if sizes and max(sizes) - sizes[0] > GROWTH:
            self.findings.append(f"{line}   # the server gained {max(sizes) - sizes[0]:,} bytes")
        late = sizes[3 * len(sizes) // 4 :]
        before = sizes[len(sizes) // 2 : 3 * len(sizes) // 4]
        if len(sizes) > 60 and min(late) - max(before) > CREEP:
            self.findings.append(f"{line}   # the server's memory still grows at the end")


def attack(seed: int, seconds: float, *, pages: int = 3, first: int = 0) -> Browsing:
    """So many visitors at a time, for so long."""
    from tests.app.conftest import served

    told = Browsing(pages=pages)
    line = f"python -m tests.attack --seed {seed} --only browsers --case {first}"
    with tempfile.TemporaryDirectory(prefix="attack-app-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        try:
            with served(folder) as home:
                server = _server(folder)
                asyncio.run(_all(home, server, seed, seconds, range(first, first + pages), told))
                if not Path(f"/proc/{server}").exists():
                    told.findings.append(f"{line}   # the server died")
        finally:
            _end_runs(folder, told)
        log = (folder / "log").read_text(errors="replace")
        for sign in ("Traceback", "a page failed", "ERROR"):
            if sign in log:
                at = log.index(sign)
                said = " / ".join(log[at:].strip().splitlines()[:40])[-700:]
                told.findings.append(f"{line}   # the server logged: {said}")
                break
    told.judge_memory(line)
    return told


async def _all(
    home: str, server: int, seed: int, seconds: float, numbers: range, told: Browsing
) -> None:
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    end = time.monotonic() + seconds
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=CHROMIUM)
        watch = asyncio.create_task(_watched(server, end, told))
        await asyncio.gather(
            *(_visitor(browser, home, seed, number, end, told) for number in numbers)
        )
        watch.cancel()
        with suppress(Error):
            await browser.close()


async def _watched(server: int, end: float, told: Browsing) -> None:
    """The server's memory, twice a second."""
    began = time.monotonic()
    while time.monotonic() < end + PATIENCE:
        with suppress(OSError, IndexError):
            told.memory.append((time.monotonic() - began, held(server)))
        await asyncio.sleep(0.5)


def held(process: int) -> int:
    """Bytes of memory that a process holds."""
    text = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(text.split("VmRSS:")[1].split()[0])


async def _visitor(
    browser: Any, home: str, seed: int, number: int, end: float, told: Browsing
) -> None:
    """One visitor: one page after another, a few actions on each."""
    draw = draw_of(seed, "browsers", number)
    line = f"python -m tests.attack --seed {seed} --only browsers --case {number}"
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    page: Page = await context.new_page()
    page.set_default_timeout(10_000)
    trail: list[str] = []

    def found(what: str) -> None:
        at = page.url.removeprefix(home)[:100]
        told.findings.append(f"{line}   # {at}: {what:.300} (after: {'; '.join(trail[-4:])})")

    page.on("pageerror", lambda error: found(f"a script failed: {error}"))
    page.on("crash", lambda _: found("the tab crashed"))
    page.on(
        "response",
        lambda answer: (
            found(f"status {answer.status} of {answer.url}") if answer.status >= 500 else None
        ),
    )
    while time.monotonic() < end:
        try:
            name = draw.choice([*PAGES, "attention", "attention"])
            trail.append(f"open /{name}")
            await page.goto(f"{home}/{name}", timeout=1000 * PATIENCE)
            told.loads += 1
            await _drawn(page, found)
            for _ in range(draw.randint(3, 12)):
                if time.monotonic() > end:
                    break
                await _action(page, draw, told, trail)
                await _drawn(page, found)
        except Error as error:
            said = str(error).splitlines()[0]
            if "closed" in said or "crash" in said.lower():
                found(said)
                break
            if "ERR_CONNECTION" in said:
                found(f"the server does not answer: {said}")
                break
            trail.append(f"({said[:60]})")
    with suppress(Error):
        await context.close()


async def _drawn(page: Page, found: Any) -> None:
    """Wait until the page is drawn; it must show no error of ours."""
    await page.wait_for_timeout(200)
    if page.url == "about:blank":
        return  # back to before the first page
    app = page.locator("[data-testid=stApp][data-test-script-state=notRunning]")
    try:
        await app.wait_for(timeout=1000 * PATIENCE)
    except Error:
        found(f"not drawn within {PATIENCE:.0f} s")
        return
    text = await page.locator("body").inner_text(timeout=1000 * PATIENCE)
    for wrong in WRONG:
        if wrong in text:
            at = text.index(wrong)
            found(text[max(0, at - 100) : at + 300].replace("\n", " / "))
    if await page.locator("[data-testid=stException]").count():
        found("a traceback on the page")


async def _action(page: Page, draw: random.Random, told: Browsing, trail: list[str]) -> None:
    """One thing that somebody might do here."""
    kind = draw.choices(
        ["click", "type", "key", "head", "back", "load", "wheel"], [50, 14, 14, 14, 3, 3, 2]
    )[0]
    painted = page.locator("[data-painted] canvas").first
    if kind == "head" and not await painted.count():
        kind = "click"
    told.actions[kind] += 1
    try:
        match kind:
            case "click":
                all_there = page.locator(CLICKED).locator("visible=true")
                if number := await all_there.count():
                    chosen = all_there.nth(draw.randrange(number))
                    trail.append(f"click {(await chosen.inner_text(timeout=2_000))[:30]!r}")
                    await chosen.click(timeout=3_000)
            case "type":
                boxes = page.locator("input[type=text], textarea, input[type=number]")
                boxes = boxes.locator("visible=true")
                if number := await boxes.count():
                    text = draw.choice([*ODD_TEXTS, "The dog barks."]).encode("utf-8", "replace")
                    said = text.decode()[:400].replace("\0", "")
                    trail.append(f"type {said[:20]!r}")
                    box = boxes.nth(draw.randrange(number))
                    await box.fill(said, timeout=3_000)
                    await box.press(draw.choice(["Enter", "Control+Enter", "Tab"]), timeout=3_000)
            case "key":
                key = draw.choice(KEYS)
                trail.append(f"press {key}")
                await page.keyboard.press(key)
            case "head":
                trail.append("open a head")
                await _head(page, draw, painted, told)
            case "back":
                trail.append("back")
                await page.go_back(timeout=1000 * PATIENCE)
            case "load":
                trail.append("load again")
                await page.reload(timeout=1000 * PATIENCE)
            case "wheel":
                await page.mouse.wheel(0, draw.choice([-800, 800]))
    except Error as error:
        if "closed" in str(error) or "crash" in str(error).lower():
            raise
        trail.append(f"(not: {str(error).splitlines()[0][:40]})")  # covered, gone or switched off


async def _head(page: Page, draw: random.Random, painted: Any, told: Browsing) -> None:
    """Some head by the keyboard, and the seconds until its map is on the screen."""
    await page.keyboard.press("Escape")
    await painted.focus(timeout=3_000)
    for _ in range(draw.randint(0, 3)):
        await page.keyboard.press(draw.choice(["ArrowRight", "ArrowDown"]))
    maps = page.locator("[data-painted] svg image")
    if await maps.count():
        return  # one is open already, and would be mistaken for the next
    began = time.monotonic()
    await page.keyboard.press("Enter")
    await maps.first.wait_for(timeout=60_000)
    told.heads.append(time.monotonic() - began)
    await page.keyboard.press("Escape")


def _server(folder: Path) -> int:
    """The number of the app's process."""
    own = str(os.getpid())
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
                here = (entry / "cwd").resolve() == folder.resolve()
                if parent == own and here:
                    return int(entry.name)
    raise RuntimeError("the app's process was not found")


def _end_runs(folder: Path, told: Browsing) -> None:
    """End what visitors have started."""
    from unittest.mock import patch

    from workbench.runs import launch
    from workbench.runs.run import all_runs

    with patch.dict("os.environ", WORKBENCH_RUNS=str(folder / "runs")):
        runs = all_runs()
        told.runs = len(runs)
        launch.end([run for run, now in runs if now.under_way], grace=2)


def main() -> int:
    """Browse for some minutes; 1 where anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack.browsers", description=__doc__)
    parser.add_argument("--pages", type=int, default=8, help="visitors at a time (default 8)")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long (default 5)")
    parser.add_argument("--seed", type=int, default=0, help="of all clicks (default 0)")
    options = parser.parse_args()
    told = attack(options.seed, 60 * options.minutes, pages=options.pages)
    print(told)
    print("\n".join(told.findings) or "nothing was found")
    return 1 if told.findings else 0


if __name__ == "__main__":
    sys.exit(main())
