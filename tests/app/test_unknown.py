"""What an address names and is not there: a sentence with the nearest names."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.testing.v1 import AppTest, element_tree, local_script_runner
from streamlit.util import calc_hash

from tests.app.pages import home, said  # noqa: F401
from workbench.app import unknown
from workbench.core import machine, names


def app_at(page: str = "", **query: str) -> AppTest:
    app = AppTest.from_file(str(machine.app_file()), default_timeout=120)
    for key, value in query.items():
        app.query_params[key] = value
    if page:
        app.switch_page(f"pages/{page}.py")
    return app.run()


@pytest.mark.usefixtures("home")
def test_the_same_unknown_name_for_both_is_said_once_for_each() -> None:
    app = app_at(model="X", corpus="X")
    assert not app.exception
    assert [error.value.count("There is no") for error in app.error] == [1, 1]
    assert "no model 'X'" in said(app) and "no corpus 'X'" in said(app)
    assert not app.title  # the page is not drawn


@pytest.mark.parametrize(
    ("kind", "ref", "near"),
    [
        ("models", "mini:brt", "Did you mean mini:bert"),
        ("models", "bert-of-nobody", "There are mini:bert"),
        ("models", "train-0123", "There are mini:bert"),
        ("models", "/srv/no/mini:bert", "Did you mean mini:bert"),
        ("corpora", "my treebnk", "Did you mean My treebank?"),
        ("corpora", "local:my treebnk", "Did you mean My treebank?"),
        ("corpora", "/srv/no/such", "There are primer"),
    ],
)
def test_the_nearest_names_are_said_and_no_folder(
    kind: names.Kind,
    ref: str,
    near: str,
    home: Path,  # noqa: F811
) -> None:
    mine = home / "somewhere"
    mine.mkdir()
    names.give("corpora", str(mine), "My treebank")
    error = unknown.problem(kind, ref)
    assert error is not None and near.lower() in str(error).lower()
    assert str(home) not in str(error) and "/srv" not in str(error)


@pytest.mark.parametrize(
    ("kind", "ref"),
    [
        ("models", "mini:bert"),
        ("models", "mini:gpt@random"),
        ("corpora", "primer:size=40"),
        ("corpora", "hub:owner/name"),
        ("corpora", "FILE"),
    ],
)
def test_what_is_there_is_no_problem(kind: names.Kind, ref: str, home: Path) -> None:  # noqa: F811
    (home / "dev.conllu").write_text("1\ta\ta\tNOUN\t_\t_\t0\troot\t_\t_\n\n")
    assert unknown.problem(kind, ref.replace("FILE", str(home / "dev.conllu"))) is None


@pytest.mark.usefixtures("home")
def test_an_unknown_run_is_said_without_folders() -> None:
    from workbench.app.runs import run_list
    from workbench.core.errors import WorkbenchError

    with pytest.raises(WorkbenchError, match="There is no run 'foo'") as raised:
        run_list.open_named("foo")
    assert str(machine.runs()) not in str(raised.value)
    with pytest.raises(WorkbenchError, match="Did you mean 'built-in/heads-mini-bert'"):
        run_list.open_named("built-in/heads-mini-brt")


@pytest.mark.usefixtures("home")
def test_a_run_of_an_experiment_that_was_removed_is_said_and_no_other_question_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workbench.app.runs.any_experiment._of_opened", lambda: "removed")
    app = AppTest.from_file(str(machine.app_file()), default_timeout=120)
    app.switch_page("pages/experiments.py").run()
    assert not app.exception and not app.title
    assert [each.value for each in app.warning if "experiment removed" in each.value]


@pytest.fixture
def tabs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that the tab of the browser gets, in order."""
    named: list[str] = []
    parse = element_tree.parse_tree_from_messages

    def parsed(messages: list[ForwardMsg]) -> element_tree.ElementTree:
        named.extend(filter(None, (each.page_config_changed.title for each in messages)))
        return parse(messages)

    monkeypatch.setattr(local_script_runner, "parse_tree_from_messages", parsed)
    return named


@pytest.mark.usefixtures("home")
def test_a_page_that_is_not_there_is_said_and_leads_on(tabs: list[str]) -> None:
    app = AppTest.from_file(str(machine.app_file()), default_timeout=120)
    app.context = {"url": "http://localhost:8501/probng"}
    app._page_hash = calc_hash("probng")  # as the browser asks for it
    app.run()
    assert not app.exception and [each.value for each in app.title] == ["Page not found"]
    assert tabs[-1] == "Page not found · Workbench"
    links: Any = app.main.get("page_link")
    assert links[-2].proto.page == "probing"


@pytest.mark.usefixtures("home")
def test_the_tab_has_the_name_of_the_page(tabs: list[str]) -> None:
    def named() -> None:
        import streamlit as st

        from workbench.app.frame import shell

        st.session_state.setdefault("corpus", "primer:size=200")
        st.session_state.setdefault("model", "mini:bert")
        for page in ("corpora", "heads", "runs"):
            shell.name_tab(page)

    assert not AppTest.from_function(named).run().exception
    assert tabs == [
        f"{name} · Workbench"
        for name in ("Corpora · primer:size=200", "Heads · mini:bert", "Runs")
    ]  # fmt: skip
    assert not app_at("probing").exception
    assert tabs[-1] == "Edge probing of mini:bert on primer · Workbench"


@pytest.mark.slow  # by day the two tests above have it
@pytest.mark.browser
def test_an_unknown_page_is_said_and_tabs_have_names(page: Page, app_url: str) -> None:
    page.goto(f"{app_url}/probng")
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    expect(page).to_have_title("Page not found · Workbench")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_test_id("stMain").get_by_role("link", name="Probing").first.click()
    expect(page).to_have_title("Edge probing of mini:bert on primer · Workbench")
    page.goto(f"{app_url}/corpora?corpus=primer:size=200")
    expect(page).to_have_title("Corpora · primer:size=200 · Workbench")
    page.goto(f"{app_url}/runs?run=foo")
    expect(page).to_have_title("Runs · Workbench")
    page.goto(f"{app_url}/home?text=Dogs+bark.")
    expect(page.get_by_label("Your sentence", exact=True)).to_have_value("Dogs bark.")
