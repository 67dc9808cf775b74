"""Uploads that are broken off: `python -m tests.attack.upload_cancelled`.

A page begins to send a file of 60 MB and is closed at a random moment; and a corpus is being
received while the app is killed. No draft is left, nothing half-made is listed, the server goes on
and does not keep the bytes. Costs a minute.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
import zipfile
from pathlib import Path

GROWTH = 400 << 20  # bytes the server may hold more when all uploads have been broken off


def main() -> int:
    """1 where a draft is left, the server dies, or its memory stays."""
    from playwright.sync_api import Error, sync_playwright

    from tests.app.conftest import served
    from tests.attack.browsers import CHROMIUM, _server, held

    parser = argparse.ArgumentParser(prog="python -m tests.attack.upload_cancelled")
    parser.add_argument("--times", type=int, default=10, help="uploads (default 10)")
    options = parser.parse_args()
    draw = random.Random(0)
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="attack-upload-") as temporary:
        folder = Path(temporary)
        big = folder / "big.zip"
        with zipfile.ZipFile(big, "w") as archive:
            archive.writestr("config.json", b"{}")
            archive.writestr("model.safetensors", random.Random(1).randbytes(60 << 20))
        with served(folder) as home, sync_playwright() as playwright:
            server = _server(folder)
            browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM)

            def page_open() -> object:
                page = browser.new_page()
                page.set_default_timeout(120_000)
                page.goto(f"{home}/models")
                page.locator("input[type=file]").first.wait_for(state="attached")
                return page

            page_open().close()  # type: ignore[attr-defined]
            before = held(server)
            begun = 0
            for _ in range(options.times):
                page = page_open()
                try:
                    files = page.locator("input[type=file]").first  # type: ignore[attr-defined]
                    files.set_input_files(big, no_wait_after=True)
                    begun += 1
                    time.sleep(draw.uniform(0, 1.5))
                except Error as error:
                    print(f"(not begun: {str(error).splitlines()[0]})")
                page.close()  # type: ignore[attr-defined]
            end = time.monotonic() + 120
            while held(server) - before > GROWTH and time.monotonic() < end:
                time.sleep(1)
            grown = held(server) - before
            left = [path.name for path in folder.glob("home/uploads/*/*")]
            page_open().close()  # type: ignore[attr-defined]
            browser.close()
        log = (folder / "log").read_text(errors="replace")
        wrong += bool(left) + (grown > GROWTH) + ("Traceback" in log)
        if "Traceback" in log:
            print(log[log.index("Traceback") :][:4_000])
        print(
            f"{begun} uploads of 60 MB broken off: {len(left)} left on disk, server "
            f"{grown / 2**20:+.0f} MiB, {log.count('Traceback')} tracebacks in its log"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
