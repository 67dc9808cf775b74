"""A report as PDF: printed by an installed browser, or an error that says what to do."""

from pathlib import Path

import pytest

from tests.report.making import found, made
from workbench import WorkbenchError
from workbench.report import printed, write_report


def browser(folder: Path, script: str) -> str:
    path = folder / "chromium"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_without_a_browser_it_says_how_to_have_a_pdf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printed, "find_browser", lambda: None)
    with pytest.raises(WorkbenchError, match=r"apt-get install chromium.*print it"):
        write_report(made(tmp_path), tmp_path / "report.pdf")
    assert not (tmp_path / "report.pdf").exists()


@pytest.mark.parametrize(
    ("script", "said"), [("exit 3", "ended with code 3"), ("exec sleep 9", "more than 0.2 seconds")]
)
def test_a_browser_that_prints_nothing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    monkeypatch.setenv("BROWSER_PATH", browser(tmp_path, script))
    monkeypatch.setattr(printed, "SECONDS", 0.2)
    with pytest.raises(WorkbenchError, match=said):
        write_report(made(tmp_path), tmp_path / "report.pdf")


def test_it_is_the_page_without_dates_and_with_all_that_reproduces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = (
        'for one in "$@"; do case $one in --print-to-pdf=*) out=${one#*=};; file:*) page=$one;; '
        'esac; done; { echo "/CreationDate (D:20260101020304"; cat "${page#file://}"; } > "$out"'
    )
    monkeypatch.setenv("BROWSER_PATH", browser(tmp_path, copies))
    run = made(tmp_path, findings=[found("Words: 100.")])
    first, *page = write_report(run, tmp_path / "report.pdf").read_text().splitlines()
    assert first == "/CreationDate (D:19800101000000"
    assert "<details open>" in "\n".join(page) and "Words: 100." in "\n".join(page)
