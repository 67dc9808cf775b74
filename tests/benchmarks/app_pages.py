"""How long pages of the app take in Chromium, while two runs are under way on two cores.

Called by `python -m tests.benchmarks.start --app`. A page is there when its heading is in view and
the script of the page has ended. Measured with one server and one tab: a click in the navigation to
each page in turn, and a reload; then, in a new browser, the page Attention opened by its address,
to its heading and to its first painted map, when the runs have ended. Costs: two minutes a
checkout on two cores.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from playwright.sync_api import Page, sync_playwright

from tests.benchmarks.browser import opened
from workbench.app import navigation

GROUPS = {
    page.name: (group, page.title)
    for group, members in navigation.groups().items()
    for page in members
}
PAGES = [*GROUPS, ""]  # in the address
BUSY = ("head-pruning", "edge-probing")
PATIENCE = 120.0  # seconds that a page may take
LATER = 45.0  # seconds in which an app that was just started prepares its pages
_THERE = """([path, before]) => {
    const app = document.querySelector('[data-testid="stApp"]');
    const main = document.querySelector('[data-testid="stMain"]');
    return location.pathname === '/' + path && main.innerText !== before
        && app.getAttribute('data-test-script-state') === 'notRunning';
}"""


class App:
    """The app of a checkout, in a process and a folder of its own."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.seeds = count()
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(root),
            "WORKBENCH_HOME": str(folder / "home"),
            "WORKBENCH_RUNS": str(folder / "runs"),
            "BENCHMARK_ROUND": folder.name,  # a starter of its own
            "WORKBENCH_STARTER": "",  # the tests, if they are imported, have none
        }

    @contextmanager
    def served(self) -> Iterator[str]:
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "workbench", "app", "--headless", "--port", str(port)]
        with (self.folder / "log").open("w") as log:
            app = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, env=self.environment
            )
        address = f"http://localhost:{port}"
        try:
            while True:
                try:
                    urlopen(f"{address}/_stcore/health", timeout=2).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield address
        finally:
            app.terminate()
            app.wait()

    def keep_busy(self, kinds: Sequence[str] = BUSY) -> None:
        """Start runs until one of each kind is under way."""
        under_way = {
            json.loads(path.read_text())["experiment"]
            for path in self.folder.glob("runs/*/status.json")
            if json.loads(path.read_text())["state"] in ("queued", "running")
        }
        for name in kinds:
            if name not in under_way:
                self.command(
                    *("run", name, "--model", "mini:bert", "--corpus", "primer", "--share"),
                    *("--detach", "--seed", str(next(self.seeds))),
                )

    def end_runs(self) -> None:
        for path in self.folder.glob("runs/*/status.json"):
            if json.loads(path.read_text())["state"] in ("queued", "running"):
                self.command("runs", "cancel", path.parent.name)

    def command(self, *arguments: str) -> None:
        subprocess.run(
            [sys.executable, "-m", "workbench", *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
        )


def there(page: Page, path: str, before: str) -> None:
    page.wait_for_function(_THERE, arg=[path, before], timeout=1000 * PATIENCE)


def clicked(page: Page, path: str) -> float:
    """Seconds from a click in the navigation to the page."""
    before = page.get_by_test_id("stMain").inner_text()
    link = page.get_by_test_id("stTopNavLink").first  # the first page
    if path:
        group, title = GROUPS[path]
        page.get_by_test_id("stTopNavSection").filter(has_text=group).click()
        link = page.get_by_role("menuitem", name=title, exact=True)
    began = time.perf_counter()
    link.click()
    there(page, path, before)
    return time.perf_counter() - began


def measured(app: App, rounds: int) -> dict[str, Any]:
    """The seconds of every page change, reload, and first picture; and the load at that time."""
    changes: dict[str, list[float]] = {}
    reloads, headings, pictures, loads = [], [], [], []
    known = [path for path in PAGES if not path or (app.root / "pages" / f"{path}.py").exists()]
    with app.served() as home, sync_playwright() as playwright:
        browser = opened(playwright)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(f"{home}/attention")  # loads the model
        page.locator("[data-painted]").wait_for()
        time.sleep(LATER)
        app.keep_busy()
        for _ in range(rounds):
            for path in known:  # an earlier checkout lacks newer pages
                app.keep_busy()
                changes.setdefault(path or "start", []).append(clicked(page, path))
                print(path or "start", round(changes[path or "start"][-1], 2), flush=True)
                loads.append(os.getloadavg()[0])
            for path in ("runs", "probing"):
                page.goto(f"{home}/{path}")
                there(page, path, "")
                began = time.perf_counter()
                page.reload()
                there(page, path, "")
                reloads.append(time.perf_counter() - began)
        app.end_runs()
        for _ in range(rounds):
            fresh = opened(playwright)
            tab = fresh.new_page(viewport={"width": 1280, "height": 900})
            tab.set_default_timeout(1000 * PATIENCE)
            began = time.perf_counter()
            tab.goto(home, wait_until="commit")
            tab.locator("h1").first.wait_for()
            headings.append(time.perf_counter() - began)
            tab.get_by_label("Attention of all heads").wait_for()
            pictures.append(time.perf_counter() - began)
            fresh.close()
        browser.close()
    return {
        "load": [round(min(loads), 1), round(max(loads), 1)],
        "page change": spread([one for each in changes.values() for one in each]),
        "first visit": spread([each[0] for each in changes.values()]),
        "reload": spread(reloads),
        "heading": spread(headings),
        "first picture": spread(pictures),
        "pages": {name: [round(one, 2) for one in each] for name, each in changes.items()},
    }


def spread(seconds: list[float]) -> dict[str, float]:
    """Median, 95th percentile and maximum of some times."""
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return {
        "n": len(seconds),
        "p50": round(statistics.median(seconds), 3),
        "p95": round(cuts[18], 3),
        "max": round(max(seconds), 3),
    }
