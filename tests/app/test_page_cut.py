"""The page "What can I cut?" without a browser: its bound, its stages, and a result with files."""

from pathlib import Path

import pytest

from tests.analyses.smaller_model.tables import tables
from tests.app import pages
from tests.app.pages import all_tabs, home, said, titles  # noqa: F401
from tests.findings import findings_of
from tests.report.making import corpus, made, model
from workbench.analyses.smaller_model.experiments import TABLES, SmallerModel

pytestmark = pytest.mark.usefixtures("home")
CORPUS = "primer/sentiment:size=120"


def test_the_bound_and_the_stages_are_in_view() -> None:
    app = pages.opened("cut", model="mini:bert", corpus=CORPUS)
    assert titles(app) == ["What can I cut?"]
    assert app.text_input(key="keep").value == "99%"
    assert "Fine-tune: all weights" in said(app) and "report of one page" in said(app)
    app.text_input(key="keep").set_value("0.9").run()
    assert not app.exception and not app.error
    assert "keep=0.9" in said(app)  # in the command
    app.radio(key="preset smaller-model ").set_value("Quick").run()
    assert "neurons of the feed-forward layers (25 %, 50 %)" in said(app)
    app.text_input(key="keep").set_value("all of it").run()
    assert not app.exception and "99%" in said(app)
    assert any("keep" in str(error.value) for error in app.error)


@pytest.mark.usefixtures("all_tabs")
def test_a_result_has_its_files_and_what_was_lost(tmp_path: Path) -> None:
    found = tables()
    run = made(
        tmp_path / "runs", experiment="smaller-model",
        tables={name: (table, TABLES[name]) for name, table in found.items()},
        models=(model("mini:bert", ref="mini:bert"),), corpora=(corpus(),),
        settings=SmallerModel().model_dump(mode="json"),
        findings=list(findings_of("smaller-model", found).values()),
    )  # fmt: skip
    app = pages.opened("cut", run=run.name)
    assert titles(app) == ["What can be cut from mini:bert on primer"]
    assert "75 % of its size" in said(app) and not app.error
    assert any(each.label == "Report of one page" for each in app.get("download_button"))
