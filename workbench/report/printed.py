"""A report as PDF: its HTML page, printed by an installed Chrome or Chromium.

The browser starts with an empty profile in a temporary folder and needs no network. The same runs
give the same bytes with the same browser. Costs: the start of a browser, one or two seconds.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path

from workbench.core.errors import WorkbenchError
from workbench.core.files import atomic_write
from workbench.doctor import find_browser
from workbench.report.content import Content
from workbench.report.html import html

SECONDS = 120  # that a browser may take
OR_PRINT = "Or write the report as .html, open it and print it to a file."
_DATES = re.compile(rb"(/(?:CreationDate|ModDate) \(D:)\d{14}")


def write(content: Content, path: Path) -> None:
    """Write the report as PDF."""
    pdf = print_page(html(content, printed=True))
    with atomic_write(path) as draft:
        draft.write_bytes(pdf)


def print_page(page: str) -> bytes:
    """Return a page as PDF; an error that says what to do if no browser prints it."""
    browser = find_browser()
    if browser is None:
        raise WorkbenchError(
            "a report as PDF needs Chrome or Chromium, which is not installed.",
            code="browser-missing",
            remedy=f"On Debian: apt-get install chromium. {OR_PRINT}",
        )
    with tempfile.TemporaryDirectory(prefix="workbench-", ignore_cleanup_errors=True) as folder:
        source, out = Path(folder, "report.html"), Path(folder, "report.pdf")
        source.write_text(page, encoding="utf-8", newline="\n")
        command = [
            browser,
            "--headless",
            "--disable-gpu",
            "--disable-extensions",
            "--disable-background-networking",
            "--no-first-run",
            "--no-pdf-header-footer",
            f"--user-data-dir={folder}/profile",
            *(["--no-sandbox"] if _is_root() else []),
            f"--print-to-pdf={out}",
            source.as_uri(),
        ]
        why = "it wrote no file"
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
            )
            if done.returncode:
                why = f"it ended with code {done.returncode}"
        except subprocess.TimeoutExpired:
            why = f"it took more than {SECONDS} seconds"
        except OSError as error:
            why = str(error.strerror or error)
        if not out.is_file():
            raise WorkbenchError(
                f"the browser printed no PDF: {why}.",
                code="print-failed",
                where=browser,
                remedy=f"Set BROWSER_PATH to another Chrome or Chromium. {OR_PRINT}",
            )
        return _DATES.sub(rb"\g<1>19800101000000", out.read_bytes())


def _is_root() -> bool:
    """Return whether this is the user for whom Chromium has no sandbox."""
    return hasattr(os, "geteuid") and os.geteuid() == 0
