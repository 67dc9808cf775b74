"""Take the pictures of the README and the guides from real runs: python docs/take_pictures.py

Each is one figure of one built-in result of `mini:bert` on `primer`, exported as HTML, opened in
Chromium, and saved in a palette of 64 colours. Costs: some seconds.
"""

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

import workbench as wb
from workbench.runs.builtin import builtin_run

FOLDER = Path(__file__).parent / "pictures"
PICTURES = {  # the result, and its figure
    "layers": ("edge-probing-mini-bert", "curves"),
    "heads": ("heads-mini-bert", "roles"),
    "pruning": ("head-pruning-mini-bert", "curve"),
    "fine-tuning": ("drift-mini-bert", "drift"),
    "senses": ("neighbours-mini-bert", "separation"),
}
CHROMIUM = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=CHROMIUM)
        page = browser.new_page(viewport={"width": 800, "height": 700}, color_scheme="light")
        for name, (result, figure) in PICTURES.items():
            path = Path(folder) / f"{name}.html"
            wb.export(builtin_run(result), figure, path)
            page.goto(path.as_uri())
            page.wait_for_timeout(1500)
            shot = page.locator(".js-plotly-plot").first.screenshot()
            colours = Image.open(io.BytesIO(shot)).convert("RGB").quantize(64)
            colours.save(FOLDER / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
