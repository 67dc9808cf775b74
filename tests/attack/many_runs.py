"""The app and the command line with 5,000 runs: `python -m tests.attack.many_runs`.

One run is computed and stored again and again under other questions. Costs a minute and 5,000
folders.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.attack.commands import Commands

COMMANDS = (["runs"], ["runs", "list", "--all"], ["runs", "list", "--json", "--all"])
SLOWEST = 10.0  # seconds a list or a page may take


def main() -> int:
    """Time lists and pages; 1 where one is slower than `SLOWEST`."""
    from playwright.sync_api import sync_playwright

    from tests.app.conftest import served
    from tests.attack.browsers import CHROMIUM

    parser = argparse.ArgumentParser(prog="python -m tests.attack.many_runs")
    parser.add_argument("--runs", type=int, default=5_000, help="how many (default 5,000)")
    options = parser.parse_args()
    slow = 0
    with tempfile.TemporaryDirectory(prefix="attack-runs-") as folder:
        place = Commands(Path(folder))
        code, said = place.completed(
            ["run", "describe", "--corpus", "primer:size=2000", "--set", "max_sentences=10"]
        )
        assert code == 0, said
        _stored_again(next(place.folder.glob("runs/describe-*")), options.runs)
        for arguments in COMMANDS:
            began = time.monotonic()
            code, said = place.completed(arguments)
            seconds = time.monotonic() - began
            slow += code != 0 or seconds > SLOWEST
            print(f"{seconds:5.1f} s  workbench {' '.join(arguments)}: {len(said):,} characters")
        executable = shutil.which("chromium") or shutil.which("chromium-browser")
        with served(place.folder) as home, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM)
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.set_default_timeout(300_000)
            page.goto(home)
            drawn = "[data-testid=stApp][data-test-script-state=notRunning]"
            page.locator(drawn).wait_for()  # the server has imported what it needs
            for name in ("runs", "runs", ""):
                began = time.monotonic()
                page.goto(f"{home}/{name}")
                page.get_by_text("describe-").first.wait_for(state="attached")
                page.wait_for_timeout(200)
                page.locator(drawn).wait_for()
                seconds = time.monotonic() - began
                slow += seconds > SLOWEST
                print(f"{seconds:5.1f} s  page /{name}")
            browser.close()
    return 1 if slow else 0


def _stored_again(run: Path, number: int) -> None:
    """The same run under so many other questions, whose files are shared."""
    from workbench.runs import spec

    asked = spec.read(run)
    told = json.loads((run / "status.json").read_bytes())
    for count in range(1, number):
        other = asked.model_copy(update={"seed": count})
        folder = run.with_name(other.name)
        shutil.copytree(run, folder, copy_function=os.link)
        for name in ("spec.json", "status.json", "lock"):
            (folder / name).unlink()
        spec.write(folder, other)
        created = f"2026-{1 + count % 12:02}-{1 + count % 28:02}T{count % 24:02}:00:00.000+00:00"
        (folder / "status.json").write_text(json.dumps({**told, "created": created}))


if __name__ == "__main__":
    sys.exit(main())
