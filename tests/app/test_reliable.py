"""The app where its folders may only be read, and where its visitors go away."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.conftest import served
from tests.app.drive import still

PATIENCE = 20  # seconds until what a page began must be gone when the page is
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a disk, which needs root")


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    if subprocess.run(["mount", "--bind", str(folder), str(folder)], check=False).returncode:
        pytest.skip("this system does not let us mount")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow  # by day tests/runs/test_faults.py has the same folders without a browser
@needs_root
@pytest.mark.parametrize("part", ["runs", "home"])
def test_a_folder_that_becomes_read_only_is_shown_and_said(
    part: str, page: Page, tmp_path: Path
) -> None:
    question = "/experiments?experiment=describe&corpus=primer:size%3D2000"
    with served(tmp_path) as url:
        page.goto(url + question)
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.get_by_text("The text has").first).to_be_visible()
        name = next((tmp_path / "runs").glob("describe-*")).name
        before = files(tmp_path / part)
        with read_only(tmp_path / part):
            page.goto(f"{url}/runs")
            expect(page.get_by_text(name).first).to_be_attached()
            page.goto(f"{url}/experiments?experiment=describe&corpus=primer:size%3D1000")
            still(page)
            page.get_by_role("button", name="Run", exact=True).click()
            said = page.get_by_test_id("stAlert").filter(has_text="Read-only file system")
            expect(said.first).to_be_visible()
            expect(said.first).to_contain_text("folder you may write to")
            for other in ("", "models", "corpora", "heads", "settings"):
                page.goto(f"{url}/{other}")
                still(page)
                expect(page.get_by_text("Internal error")).to_have_count(0)
        assert files(tmp_path / part) == before
    assert "Traceback" not in (tmp_path / "log").read_text()
