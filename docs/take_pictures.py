"""Take the pictures of the README and the guides from real runs: python docs/take_pictures.py

Each is one figure of one run of `mini:bert` on `primer`, exported as HTML, opened in Chromium, and
saved in a palette of 64 colours. Costs: about five minutes, or seconds where the runs are on disk.
"""

import io
import shutil
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

import workbench as wb

FOLDER = Path(__file__).parent / "pictures"
PICTURES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "layers": ("edge-probing", "curves", {"tasks": ("pos", "dependencies", "roles", "relations")}),
    "heads": ("heads", "roles", {}),
    "pruning": ("head-pruning", "curve", {}),
    "fine-tuning": ("drift", "drift", {}),
    "senses": ("neighbours", "separation", {}),
}
CHROMIUM = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=CHROMIUM)
        page = browser.new_page(viewport={"width": 800, "height": 700}, color_scheme="light")
        for name, (experiment, figure, settings) in PICTURES.items():
            models = ["mini:bert"]
            if experiment == "drift":
                models = ["mini:bert@random", "mini:bert"]
            run = wb.run(experiment, model=models, corpus="primer", **settings)
            path = Path(folder) / f"{name}.html"
            wb.export(run, figure, path)
            page.goto(path.as_uri())
            page.wait_for_timeout(1500)
            shot = page.locator(".js-plotly-plot").first.screenshot()
            colours = Image.open(io.BytesIO(shot)).convert("RGB").quantize(64)
            colours.save(FOLDER / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
