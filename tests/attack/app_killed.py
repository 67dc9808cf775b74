"""The app killed with three runs under way: `python -m tests.attack.app_killed`.

Three runs are started by clicks in a browser, the app is killed with SIGKILL, and the runs must end
by themselves; an app that is started afterwards shows them. Costs a minute.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

SECONDS = 300.0  # in which the runs must have ended
RUNS = 3


def main() -> int:
    """1 where a run was lost."""
    from playwright.sync_api import sync_playwright

    from tests.app.conftest import served
    from tests.attack.browsers import CHROMIUM, _server
    from workbench.runs.run import all_runs

    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory(prefix="attack-app-") as temporary:
        folder = Path(temporary)
        with (
            patch.dict("os.environ", WORKBENCH_RUNS=str(folder / "runs")),
            sync_playwright() as playwright,
        ):
            browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM)
            with served(folder) as home:
                for number in range(RUNS):
                    page = browser.new_page(viewport={"width": 1280, "height": 1200})
                    page.set_default_timeout(120_000)
                    page.goto(f"{home}/experiments?experiment=attention-averages&new=1")
                    page.get_by_text("Advanced").click()
                    limit = page.get_by_label(
                        "Maximum number of sentences of the split", exact=True
                    )
                    limit.first.fill(str(600 + number))
                    page.keyboard.press("Enter")
                    page.wait_for_timeout(500)
                    page.get_by_role("button", name="Run", exact=True).first.click()
                    end = time.monotonic() + 60
                    while _begun() <= number and time.monotonic() < end:
                        time.sleep(0.02)
                before = [(run.name, now.state) for run, now in all_runs()]
                os.kill(_server(folder), signal.SIGKILL)
                killed = time.monotonic()
            print(f"killed with {before}")
            while any(now.under_way for _, now in all_runs()):
                if time.monotonic() - killed > SECONDS:
                    break
                time.sleep(0.2)
            after = [(run.name, now.state) for run, now in all_runs()]
            print(f"{time.monotonic() - killed:.1f} s later: {after}")
            for run, now in all_runs():
                if now.failure:
                    print(f"{run.name}: {now.failure}")
            with served(folder) as home:
                page = browser.new_page()
                page.set_default_timeout(120_000)
                page.goto(f"{home}/runs")
                page.get_by_text("attention-averages-").first.wait_for(state="attached")
                print("an app started anew shows them")
            browser.close()
    done = sum(state == "done" for _, state in after)
    print(f"{done} of {RUNS} runs done")
    return 0 if done == RUNS else 1


def _begun() -> int:
    """Runs that have a process; a folder alone is one that was not started yet."""
    from workbench.runs.run import all_runs

    return sum(bool(now.pid) for _, now in all_runs())


if __name__ == "__main__":
    sys.exit(main())
