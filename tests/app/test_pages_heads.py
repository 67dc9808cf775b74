"""The page Heads without a browser: its form, every view of a run, and bad addresses."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from tests.analyses.heads.test_figures import ALL, EVIL, SELF, tables_of
from tests.app.pages import all_tabs, home  # noqa: F401
from tests.night import mostly
from tests.report.making import corpus, made, model
from workbench import Run, experiments
from workbench.analyses.heads.views.all_heads import OpenHead
from workbench.analyses.heads.views.one_head import address
from workbench.analyses.heads.views.page import VIEWS
from workbench.core.machine import app_file
from workbench.experiment import Caveat

pytestmark = pytest.mark.usefixtures("home")

SEEN = {  # words that only this view has
    "Heads": "Colour: the main role of each head",
    "Open head": "All scores of this head",
    "Find heads": "Name what a head should do",
    "Relations": "Accuracy as in Clark et al. (2019)",
    "Similar heads": "projected to two dimensions",
    "Offsets": "a column an offset",
    "Cross-attention": "How the cross-attention heads of a decoder follow",
}
MAIN = "Heads"  # always in view


def opened(**query: str) -> AppTest:
    app = AppTest.from_file(str(app_file()), default_timeout=120)
    for key, value in query.items():
        app.query_params[key] = value
    app.switch_page("pages/heads.py")
    app.run()
    assert not app.exception, app.exception
    return app


def said(app: AppTest) -> str:
    kinds = ("title", "header", "subheader", "markdown", "text", "caption", "error", "info", "code")
    found = [str(element.value) for kind in kinds for element in app.get(kind)]
    words = "\n".join([*found, *(each.label for each in app.expander)])
    return re.sub(r"\\(.)", r"\1", words)


def html(app: AppTest) -> str:
    return "".join(str(element.proto.body) for element in app.get("html"))


def run_of(
    folder: Path, tables: dict[str, pd.DataFrame] | None = None, name: str = "mini:bert", **how: Any
) -> Run:
    """A run as the experiment leaves it."""
    kind = experiments()["heads"]
    tables = tables_of() if tables is None else tables
    return made(
        folder / "runs",
        experiment="heads",
        tables={key: (table, kind.tables[key]) for key, table in tables.items()},
        models=(model(name),),
        corpora=(corpus(),),
        settings=kind.settings().model_dump(mode="json"),
        **how,
    )


@pytest.mark.slow  # by day test_pages_running has it, as what does not fit
def test_settings_reach_the_request() -> None:
    app = opened(new="1")
    assert "Ready to run" in said(app)
    app.number_input(key="set heads max_sentences").set_value(30)
    app.run()
    assert not app.exception
    assert "--set=max_sentences=30" in said(app)
    assert [button.label for button in app.button if button.label == "Run"] == ["Run"]


@pytest.mark.slow
def test_a_model_without_heads_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text("cats 1 2\nsee 2 1\n")
    app = opened()
    app.session_state["model"] = f"vectors:{tmp_path / 'few.txt'}"
    app.run()
    assert "attention heads" in said(app)
    assert [button.disabled for button in app.button if button.label == "Run"] == [True]


@pytest.mark.usefixtures("all_tabs")
def test_every_view_is_drawn(tmp_path: Path) -> None:
    app = opened(run=run_of(tmp_path, tables_of(ALL, EVIL)).name)
    assert list(SEEN) == list(VIEWS)
    assert not [view for view, words in SEEN.items() if words not in said(app)]
    assert not app.error and EVIL not in html(app)


@pytest.mark.parametrize(
    ("view", "groups"),
    mostly(
        product(SEEN, (SELF, ALL)), ("Cross-attention", SELF)
    ),  # others by day: test_what_is_lost
)
def test_every_view_of_a_run(tmp_path: Path, view: str, groups: Any) -> None:
    run = run_of(tmp_path, tables_of(groups, EVIL))
    app = opened(run=run.name, view=view)
    assert not app.error, app.error
    is_missing = view == MAIN or (view == "Cross-attention" and groups == SELF)
    wanted = [MAIN, "Open head" if is_missing else view]
    assert [other for other, words in SEEN.items() if words in said(app)] == wanted
    assert EVIL not in html(app)


def test_heads_are_found_by_plain_words(tmp_path: Path) -> None:
    run = run_of(tmp_path, tables_of(ALL))
    app = opened(run=run.name, view="Find heads", find="follows subjects")
    assert "nsubj: accuracy of the head" in said(app) and not app.error
    for words in ("quarks", "<b>*x*</b>"):
        app = opened(run=run.name, view="Find heads", find=words)
        assert f"No score of heads is called “{words}”" in said(app) and not app.error


def test_the_first_head_with_a_role_is_shown_and_another_by_the_address(tmp_path: Path) -> None:
    run = run_of(tmp_path, tables_of(ALL))
    assert "Head encoder self 1.2" in said(opened(run=run.name))
    app = opened(run=run.name, head="decoder cross 2.1")
    assert "Head decoder cross 2.1" in said(app)
    words = said(app).replace("*", "")
    assert "nsubj: accuracy 90.0 % over 50 dependents (95 % interval 80.0 to 95.0)" in words
    assert "Baselines: offset +2 40.0 %" in words
    assert "%; its difference to the best baseline: " in words
    scores = app.dataframe[0].value.set_index("score")
    assert scores.loc["offset -1", "value"] == "10.0 %"
    row = scores.loc["nsubj, dependent to governor"]
    assert (row["value"], row["95 % CI"], row["baseline"]) == ("90.0 %", "20.0–30.0", "40.0 %")
    assert scores.loc["own sentence", "value"] == "not computed"


def test_the_box_chooses_a_head_and_the_address_keeps_it(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    app = opened(run=run.name)
    box = next(box for box in app.selectbox if box.label == "Head")
    box.set_value("2.1").run()
    assert not app.exception
    assert "Head 2.1" in said(app) and app.query_params["head"] == "2.1"


def test_sentences_of_a_relation_are_right_or_wrong(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    app = opened(run=run.name, head="2.1", relation="nsubj")
    assert "The 2 stored sentences have 2 words with nsubj: 1 is right" in said(app)
    assert "<b>Dogs</b> attends to <b>see</b>, weight 0.50" in html(app)
    app = opened(run=run.name, head="2.1", relation="obj", direction="a dependent", arcs="true")
    assert "have 2 words with obj" in said(app) and "data:image/svg" in html(app)
    box = next(box for box in app.selectbox if box.label == "Relation")
    box.set_value("nsubj").run()
    assert app.query_params["relation"] == "nsubj" and "with nsubj" in said(app)


def test_filters_leave_heads_out_and_say_where_none_is_left(tmp_path: Path) -> None:
    run = run_of(tmp_path, tables_of(ALL))
    app = opened(run=run.name, view="Find heads")  # the view that costs least
    app.multiselect(key="roles").set_value(["rare"]).run()
    assert not app.exception and "No head matches" not in said(app)
    app.selectbox(key="part").set_value("decoder cross").run()
    assert not app.exception and "No head matches" not in said(app)
    tables = tables_of()
    tables["heads"].loc[:, ["role", "roles"]] = ""
    app = opened(run=run_of(tmp_path, tables, "mini:gpt").name, view="Find heads")
    assert app.multiselect(key="roles").options == ["none"]


def test_the_way_to_the_page_attention_names_the_head(tmp_path: Path) -> None:
    tables = tables_of(ALL)
    run = run_of(tmp_path, tables)
    query = address(OpenHead(run, 6))
    assert query["head"] == "2.1" and query["attention"] == "decoder causal attention"
    assert query["badges"] == f"{run.name}: heads" and query["model"] == model("mini:bert").ref


def test_caveats_are_shown(tmp_path: Path) -> None:
    caveats = [{"text": f"Caveat {n}.", "beside": []} for n in range(2)]
    run = run_of(tmp_path, facts={"caveats": caveats})
    assert "Caveat 0." in said(opened(run=run.name, view="Find heads"))
    assert Caveat("Caveat 0.") in run.caveats


def test_what_is_lost_of_a_run_spoils_one_view_only(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    (run.path / "tables" / "best.parquet").unlink()
    assert "the table 'best' of this run is missing" in said(opened(run=run.name, view="Relations"))
    app = opened(run=run.name, view="Similar heads")
    assert not app.error
    assert [view for view, words in SEEN.items() if words in said(app)] == [MAIN, "Similar heads"]


def test_a_run_without_trees_or_sentences_says_so(tmp_path: Path) -> None:
    tables = tables_of()
    for name in ("relations", "best"):
        tables[name] = tables[name].iloc[:0]
    for name in ("looks", "words", "clusters", "dendrogram"):
        del tables[name]
    run = run_of(tmp_path, tables)
    assert "no dependencies" in said(opened(run=run.name))
    assert "too few of each relation" in said(opened(run=run.name, view="Relations"))
    assert "max examples" in said(opened(run=run.name, view="Similar heads"))


def test_kin_in_another_model_are_named(tmp_path: Path) -> None:
    tables = tables_of()
    own = tables["heads"][["stack", "kind", "layer", "head"]]
    kin = own.assign(model=EVIL, **{f"kin_{name}": own[name] for name in own}, distance=0.25)
    run = run_of(tmp_path, {**tables, "kin": kin})
    assert f"In {EVIL}: encoder self 1.2 (distance 0.25)." in said(opened(run=run.name))
    app = opened(run=run.name, view="Similar heads")
    assert not app.error and "Most similar heads of the other model" in said(app)


def test_a_run_of_another_version_says_what_it_lacks(tmp_path: Path) -> None:
    tables = tables_of()
    tables["heads"] = tables["heads"].drop(columns="entropy")
    assert "no column 'entropy'" in said(opened(run=run_of(tmp_path, tables).name))


@pytest.mark.parametrize(
    ("query", "words"),
    [  # of runs that are not there: test_pages_running
        pytest.param({"run": "../../etc"}, "cannot be the name of a run", marks=pytest.mark.slow),
        pytest.param({"run": "heads-zzz"}, "There is no run", marks=pytest.mark.slow),
        (
            {"run": "RUN", "head": EVIL, "relation": EVIL, "direction": "7", "view": "zzz",
             "colour": "zzz", "roles": "zzz", "part": "z"},
            "Head 1.2",
        ),
    ],
)  # fmt: skip
def test_a_bad_address_is_explained(tmp_path: Path, query: dict[str, str], words: str) -> None:
    run = run_of(tmp_path)
    app = opened(**{key: value.replace("RUN", run.name) for key, value in query.items()})
    assert words in said(app)
