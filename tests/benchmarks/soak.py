"""Page changes and the memory of the server under random clicks, while a run is under way.

    python -m tests.benchmarks.soak --minutes 30 --runs 1 --out tests/benchmarks/results/soak.json

One server and one tab, as in `app_pages`. Each step is a page of the navigation, or else a model of
the bar, a text, a state of the switch of a head, or a link from outside, drawn by a fixed seed.
Measured: seconds of each page change (50 %, 95 %, maximum), the memory of the server after each 20
steps (USS, or RSS where the system has no USS), and its growth per step, by least squares over the
second half. Costs: its minutes.
"""

import argparse
import json
import os
import random
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np
import psutil
from playwright.sync_api import Error, Page, sync_playwright

from tests.app.drive import still
from tests.benchmarks.app_pages import BUSY, LATER, PAGES, App, clicked, spread
from tests.benchmarks.browser import opened
from workbench.core.files import atomic_write

HERE = Path(__file__).parents[2]
EVERY = 20  # steps between measurements of memory
MAX_MEMORY, MAX_CHANGE = 1.5e9, 0.6  # bytes after half an hour, and seconds (95 %)
MODELS = ("mini:bert", "mini:gpt", "novels:bert", "novels:gpt")
STATES = ("on", "off", "halve", "double", "mean")
WORDS = "the old man saw a ship that she had sold to her brother in spring".split()


def memory() -> int:
    """Bytes of the server's own memory, without its workers."""
    (server,) = (
        each for each in psutil.Process().children() if "workbench" in " ".join(each.cmdline())
    )
    full = server.memory_full_info()
    return int(getattr(full, "uss", full.rss))


def step(page: Page, home: str, draw: random.Random) -> tuple[str, float] | None:
    """One random step; page and seconds, if it is a change of pages by the navigation."""
    if draw.random() < 0.6:
        here = urlsplit(page.url).path.removeprefix("/")
        path = draw.choice([path for path in PAGES if path != here])
        return path, clicked(page, path)
    text = " ".join(draw.choices(WORDS, k=draw.randint(3, 12)))
    match draw.choice(["model", "model", "text", "text", "switch", "switch", "link"]):
        case "model":
            page.locator(".st-key-context button:visible").first.click()
            page.get_by_test_id("stPopoverBody").get_by_role("combobox", name="Model").click()
            page.get_by_role("option", name=draw.choice(MODELS)).first.click()
        case "text":
            if urlsplit(page.url).path != "/":
                clicked(page, "")
            box = page.get_by_role("textbox", name="Your sentence")
            box.fill(text)
            box.press("Enter")
        case "switch":
            if urlsplit(page.url).path != "/head":
                clicked(page, "head")
            page.get_by_role("radio", name=draw.choice(STATES)).first.click()
        case "link":  # from outside: the browser loads the app anew
            query = {"model": draw.choice(MODELS), "text": text, "from": "Your own text"}
            page.goto(f"{home}/{draw.choice(('attention', 'predict', ''))}?{urlencode(query)}")
    still(page)
    return None


def measured(minutes: float, n_runs: int, seed: int = 0) -> dict[str, Any]:
    draw, changes, failed = random.Random(seed), [], 0
    sizes: list[tuple[int, int]] = []  # steps, bytes
    with TemporaryDirectory() as temporary:
        app = App(HERE, Path(temporary))
        with app.served() as home, sync_playwright() as playwright:
            browser = opened(playwright)
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.set_default_timeout(120_000)
            page.goto(home)
            time.sleep(LATER)
            ends, count = time.monotonic() + 60 * minutes, 0
            while time.monotonic() < ends:
                if count % EVERY == 0:
                    app.keep_busy(BUSY[:n_runs])
                    sizes.append((count, memory()))
                    so_far = spread([seconds for _, seconds in changes]) if changes else {}
                    print(sizes[-1], os.getloadavg()[0], so_far, flush=True)
                try:
                    change = step(page, home, draw)
                except (
                    Error,
                    AssertionError,
                ):  # a page that hides the navigation, or one that was too slow
                    failed += 1
                    page.goto(home)
                    change = None
                changes += [] if change is None else [change]
                count += 1
            sizes.append((count, memory()))
            app.end_runs()
            browser.close()
    later = sizes[len(sizes) // 2 :]
    slope = float(np.polyfit(*zip(*later, strict=True), 1)[0]) if len(later) > 1 else 0.0
    return {
        "minutes": minutes,
        "runs at a time": n_runs,
        "load": round(os.getloadavg()[0], 1),
        "steps": count,
        "failed": failed,
        "page change": spread([seconds for _, seconds in changes]),
        "medians": {
            path: round(median(seconds for each, seconds in changes if each == path), 2)
            for path in dict(changes)
        },
        "memory": sizes,
        "growth per step": round(slope),
        "bounds": {"memory": MAX_MEMORY, "page change, 95 %": MAX_CHANGE},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="default 30")
    parser.add_argument("--runs", type=int, default=1, help="at a time, at most 2 (default 1)")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    text = json.dumps(measured(given.minutes, given.runs), indent=1) + "\n"
    print(text)
    if given.out is not None:
        with atomic_write(given.out) as path:
            path.write_text(text)


if __name__ == "__main__":
    main()
