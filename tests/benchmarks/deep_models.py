"""Deep and wide models in the app: seconds to the picture, processor time, and bytes that are sent.

    python -m tests.benchmarks.deep_models --out tests/benchmarks/results/deep_models.json

Random decoders of 48 layers of 25 heads (50,257 pieces) and of 80 layers of 64 heads (150,000
pieces), as narrow as they can be: what is measured is how many heads, pieces and layers there are,
not the products of large matrices. Each page is opened by its address in Chromium, the first one to
load the model; then with a sentence and with a text of 1,000 tokens. Measured: seconds to the end
of the page, processor time of the app, and bytes received through its socket. Costs: five minutes
on two cores.
"""

import argparse
import json
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

import psutil
from playwright.sync_api import Page, expect, sync_playwright

from tests.app.drive import still
from tests.benchmarks.app_pages import App
from tests.benchmarks.browser import opened
from tests.models import real_shapes
from workbench.core.files import atomic_write

HERE = Path(__file__).parents[2]
SHAPES = {"48x25": (48, 25, 25, 8, 50_257), "80x64": (80, 64, 8, 4, 150_000)}
WORDS = "The girls did not visit it because they were tall and the old man walked along a river ."
TEXTS = {"sentence": 10, "1,000 tokens": 490}  # words; the small tokenizer makes two pieces of most
PAGES = ("attention", "", "head", "heads", "predict", "words", "models")
BOUNDS = {"first picture, seconds": 3.0, "bytes": 30e6}
PATIENCE = 120_000  # milliseconds for a page


def processor_time() -> float:
    """Seconds that the app and its processes have computed."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            if "workbench" in " ".join(process.cmdline()):
                total += sum(process.cpu_times()[:2])
        except psutil.Error:
            continue
    return total


def measured(page: Page, address: str, shot: Path | None) -> dict[str, Any]:
    """What it takes to open an address."""
    received: list[int] = []
    page.on(
        "websocket", lambda own: own.on("framereceived", lambda data: received.append(len(data)))
    )
    began, before = time.perf_counter(), processor_time()
    page.goto(address, wait_until="commit")
    if "/attention" in address:
        page.locator("[data-painted]").wait_for()
    picture = time.perf_counter() - began, processor_time() - before
    page.locator("h1, h2, h3, [data-painted]").first.wait_for()
    still(page)
    found = {
        "picture": round(picture[0], 2),
        "processor to the picture": round(picture[1], 2),
        "end": round(time.perf_counter() - began, 2),
        "processor": round(processor_time() - before, 2),
        "bytes": sum(received),
        "errors": page.get_by_test_id("stException").count()
        + page.locator('[data-testid="stAlertContentError"]').count(),
        "buttons": page.locator("button").count(),
    }
    if shot is not None:
        page.screenshot(path=shot)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--shots", type=Path, help="folder for pictures")
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES))
    parser.add_argument("--pages", nargs="*", default=list(PAGES))
    given = parser.parse_args()
    found: dict[str, Any] = {}
    expect.set_options(timeout=PATIENCE)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        app = App(HERE, folder)
        with app.served() as home, sync_playwright() as playwright:
            browser = opened(playwright)
            for name in given.shapes:
                model = str(real_shapes.decoder(folder / name, *SHAPES[name]))
                for text, words in {"loading": 3, **TEXTS}.items():
                    for path in given.pages if text != "loading" else ("attention",):
                        typed = " ".join((WORDS.split() * words)[:words])
                        query = {"model": model, "from": "Your own text", "text": typed}
                        page = browser.new_page(viewport={"width": 1280, "height": 800})
                        page.set_default_timeout(PATIENCE)
                        row = f"{name}, {path or 'home'}, {text}"
                        shot = given.shots and given.shots / f"{row.replace(', ', '-')}.png"
                        try:
                            found[row] = measured(page, f"{home}/{path}?{urlencode(query)}", shot)
                        except Exception as error:  # the others are measured all the same
                            found[row] = {"error": str(error)[:200]}
                        print(row, found[row], flush=True)
                        page.close()
            browser.close()
    loads = [round(load, 1) for load in (os.getloadavg()[2], os.getloadavg()[0])]
    text = json.dumps({"bounds": BOUNDS, "load": loads, "pages": found}, indent=1) + "\n"
    if given.out is not None:
        with atomic_write(given.out) as path_of:
            path_of.write_text(text)


if __name__ == "__main__":
    main()
