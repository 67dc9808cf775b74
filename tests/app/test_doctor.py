"""The doctor's page in a real browser, and what the app's own settings promise."""

import os
import tomllib
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from workbench.cli.serve import LOCAL
from workbench.core import machine
from workbench.drawing import theme

CONFIG = tomllib.loads((machine.app_file().parent / ".streamlit" / "config.toml").read_text())


@pytest.mark.slow  # by day test_pages_running has it without a browser
@pytest.mark.browser
def test_the_doctor_tells_the_machine_the_folders_and_how_to_share(
    page: Page, app_url: str, app_folder: Path
) -> None:
    page.goto(f"{app_url}/settings")
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    expect(page.get_by_role("heading", name="Missing packages and tools")).to_be_visible()
    expect(page.get_by_text(str(app_folder / "home"))).to_be_visible()
    page.get_by_text("Sharing with a group: login").click()
    expect(page.get_by_text("server_metadata_url")).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / "doctor.png", full_page=True)


def test_the_app_is_closed_and_shows_no_traceback() -> None:
    server, client = CONFIG["server"], CONFIG["client"]
    assert server["address"] == "localhost" and not CONFIG["browser"]["gatherUsageStats"]
    assert server["allowedHosts"] == list(LOCAL)
    assert server["enableXsrfProtection"] and server["enableCORS"]
    assert server["maxUploadSize"] <= 200
    assert client["showErrorDetails"] == "none" and client["showErrorLinks"] is False


@pytest.mark.parametrize("kind", ["light", "dark"])
def test_pages_have_the_colours_of_figures(kind: theme.Kind) -> None:
    own = CONFIG["theme"][kind]
    assert own["backgroundColor"] == theme.PAPER[kind] and own["textColor"] == theme.INK[kind]
    assert "http" not in CONFIG["theme"]["font"], "fonts are the system's"
