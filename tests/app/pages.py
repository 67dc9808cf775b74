"""The app without a browser: a page as AppTest runs it, whatever the address says."""

import re
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests import warm
from workbench.app.runs import result_page
from workbench.core import machine

SECONDS = 120  # a model is opened in a process of its own
NAMES = (
    "home",
    "questions",
    "models",
    "corpora",
    "attention",
    "predict",
    "ask",
    "words",
    "heads",
    "head",
    "layer",
    "word",
    "pruning",
    "cut",
    "probing",
    "transfer",
    "experiments",
    "runs",
    "lessons",
    "settings",
)
APP = """
import streamlit as st
from workbench.app import choice
from workbench.app.library import picker

pages = [st.Page(f"pages/{name}.py", default=name == "PAGE") for name in NAMES]
page = st.navigation(pages, position="top")
choice.choose(picker.draw)
page.run()
"""  # as streamlit_app.py, but it starts with the page that is tested


@pytest.fixture
def home(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Nobody's uploads; and AppTest begins every run with the app, not with the page alone."""
    known = tmp_path_factory.getbasetemp() / "known"  # of models' bytes, so it may be shared
    known.mkdir(exist_ok=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "known").symlink_to(known)
    never = property(lambda app: "", lambda app, page: None)
    monkeypatch.setattr(AppTest, "_finished_page_script_hash", never, raising=False)
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    warm.answer(monkeypatch)
    return tmp_path


@pytest.fixture
def all_tabs(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every tab of a result is drawn in one run of the page, and raises what is wrong with it.

    But for those in the set that this is: tabs with one and the same box cannot be drawn at once.
    """
    left_out: set[str] = set()

    def drawn(views: Mapping[str, result_page.View], selection: Any) -> None:
        for name, view in views.items():
            if name not in left_out:
                view(selection)

    monkeypatch.setattr(result_page, "_tabs", drawn)
    return left_out


def opened(page: str, **query: str | list[str]) -> AppTest:
    return well(drawn(page, **query))


def drawn(page: str, **query: str | list[str]) -> AppTest:
    """A page with these choices in its address, whether or not it failed."""
    app = AppTest.from_file(f"{_app().name}/app_{page}.py", default_timeout=SECONDS)
    for key, value in query.items():
        app.query_params[key] = value
    return app.run()


@cache
def _app() -> tempfile.TemporaryDirectory[str]:
    """An app for each page, in one folder: each that Streamlit adds is searched for analyses."""
    folder = tempfile.TemporaryDirectory()
    shutil.copytree(machine.app_file().parent / "pages", Path(folder.name, "pages"))
    for page in NAMES:
        app = APP.replace("PAGE", page).replace("NAMES", repr(NAMES))
        Path(folder.name, f"app_{page}.py").write_text(app)
    return folder


def well(app: AppTest) -> AppTest:
    assert not app.exception, app.exception
    return app


def said(app: AppTest) -> str:
    """All that the page says in words."""
    kinds = ("markdown", "caption", "error", "warning", "info", "success", "code", "text")
    words = "\n".join(str(element.value) for kind in kinds for element in app.get(kind))
    return re.sub(r"\\(.)", r"\1", words)  # what is data is escaped


def titles(app: AppTest) -> list[str]:
    """What is shown, in words: the title of the opened result."""
    return [re.sub(r"\\(.)", r"\1", str(each.value)) for each in app.title]
