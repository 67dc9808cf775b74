"""What the docs show how to add: an experiment in a package, a corpus format in a file."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest
import streamlit as st
import typer
from streamlit.testing.v1 import AppTest
from typer.testing import CliRunner

import workbench as wb
from tests.examples import add_files, blocks, write_files
from tests.models.bag_of_embeddings import BagOfEmbeddings
from tests.tiny import tiny_bert
from workbench import Run, WorkbenchError, read
from workbench.app import navigation
from workbench.app.frame import home
from workbench.app.runs.result_page import ResultPage
from workbench.cli import main
from workbench.core import analysis
from workbench.core.analysis import Card, GoesOn, Page, Recipe, Tab
from workbench.core.findings import check_findings
from workbench.core.registry import imported
from workbench.corpora import readers
from workbench.corpora.catalogue import catalogue
from workbench.corpora.formats import formats
from workbench.experiment import Caveat, Table
from workbench.report.prose import method

ROOT = Path(__file__).parents[1]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
SHOWN = ROOT / "docs" / "how-to" / "write-an-experiment.md"


def block(kind: str) -> str:
    (text,) = re.findall(rf"^```{kind}\n(.*?)^```$", SHOWN.read_text(), re.DOTALL | re.MULTILINE)
    return str(text)


def test_the_example_is_short() -> None:
    files = {each.file: each.text for each in blocks(SHOWN) if each.file}
    assert [name.removeprefix("fertility/") for name in files] == [
        "experiment.py", "__init__.py", "pyproject.toml", "views.py", "tests/test_fertility.py",
    ]  # fmt: skip
    assert sum(len(text.splitlines()) for text in files.values()) < 130


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The example as an installed package of somebody's own."""
    entry_points = tomllib.loads(block("toml"))["project"]["entry-points"]
    installed = tmp_path / "installed"
    about = installed / "fertility-1.0.dist-info"
    about.mkdir(parents=True)
    write_files(SHOWN, installed)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fertility\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {home}\n" for name, home in points.items())
        for group, points in entry_points.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    return installed


SEEN = """
import json, sys
from streamlit.testing.v1 import AppTest
from workbench.app import navigation

drawn = (
    "from workbench.app import navigation\\n"
    "from workbench.app.runs.result_page import draw_result\\n"
    "from workbench.runs.run import open_run\\n"
    f"draw_result(open_run({sys.argv[1]!r}), navigation.result_page_of('fertility'))\\n"
)
page = AppTest.from_string(drawn, default_timeout=120).run()
bar = [page.title for page in navigation.groups()["Measure"]]
wrong = [each.value for each in (*page.exception, *page.error)]
print(json.dumps([bar, [tab.label for tab in page.tabs], wrong]))
"""


@pytest.mark.slow
def test_the_example_is_an_experiment(package: Path, tmp_path: Path) -> None:
    for part in tiny_bert(token.text for doc in read("primer").docs("dev", 50) for token in doc):
        part.save_pretrained(tmp_path / "tiny")

    def python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(package), str(ROOT)]),
                "WORKBENCH_HOME": str(tmp_path / "home"),
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def workbench(*arguments: str) -> str:
        return python("-m", "workbench.cli.main", *arguments)

    inputs = ("--model", "tiny", "--corpus", "primer", "--split", "dev", "--max-sentences", "50")
    result = json.loads(workbench("run", "fertility", *inputs, "--min-words", "1", "--json"))
    assert result["status"] == "done"
    workbench("export", result["run"], "fertility", "--out", "fertility.json")
    assert '"NOUN"' in (tmp_path / "fertility.json").read_text()
    table = pd.read_parquet(Path(result["path"]) / "tables" / "fertility.parquet").set_index("tag")
    whole = table["pieces"][["NOUN", "VERB", "DET", "ADP"]]
    assert (whole == 1).all()  # the tiny vocabulary has every word of these sentences
    assert table["pieces"]["PART"] > 1  # but BERT cuts at apostrophes
    assert (Path(result["path"]) / "figures" / "pieces.json").is_file()
    workbench("report", result["run"], "--out", "fertility.html")
    assert "How many pieces a tokenizer makes" in (tmp_path / "fertility.html").read_text()

    sweep = ("--sweep", "min_words=1,2", "--json")
    swept = json.loads(workbench("run", "fertility", *inputs, *sweep))
    assert swept["status"] == "done" and "fertility" in json.dumps(swept["tables"])
    bar, tabs, wrong = json.loads(python("-c", SEEN, result["run"]))
    assert bar[0] == "Probing" and bar[-1] == "Fertility"
    assert tabs[0] == "Words" and not wrong
    python("-m", "pytest", "-q", "-c", os.devnull, str(package / "tests"))


# --- mistakes in code of somebody's own -----------------------------------------------------------


def counted(run: Any, **parts: Any) -> Run:
    """A run of an experiment that no package announces."""
    experiment = wb.Experiment(
        name="counted",
        about="Counts words.",
        settings=wb.Settings,
        run=run,
        tables={"counts": Table("Words.", ("words",))},
        models=(0, 0),
        **parts,
    )
    return wb.run(experiment, corpus=["Ben walks home."])


def a_table(*given: Any) -> wb.Result:
    return wb.Result({"counts": pd.DataFrame({"words": [3]})})


@pytest.fixture
def own_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))


@pytest.mark.usefixtures("own_runs")
def test_a_function_that_returns_no_result_is_an_error_of_the_user() -> None:
    with pytest.raises(WorkbenchError, match="returned a dict, not"):
        counted(lambda *given: {"counts": 3})


@pytest.mark.usefixtures("own_runs")
@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        (pd.DataFrame({"words": [3.5, "none"]}), "column words"),
        (pd.DataFrame({"words": pd.arrays.SparseArray([3])}), "column words"),
        (pd.DataFrame({"words": [2**70]}), "too large"),
        (pd.DataFrame([[3, 4]], columns=["words", "words"]), "name of its own: words, words"),
        (pd.DataFrame({("words", "mean"): [3.5]}), r"name of its own: \('words', 'mean'\)"),
    ],
)
def test_a_column_that_cannot_be_written_is_named_with_its_table(
    table: pd.DataFrame, wrong: str
) -> None:
    with pytest.raises(WorkbenchError, match=rf"table 'counts' .*{wrong}") as caught:
        counted(lambda *given: wb.Result({"counts": table}))
    assert caught.value.code == "wrong-type"


@pytest.mark.usefixtures("own_runs")
@pytest.mark.parametrize(
    ("parts", "wrong"),
    [
        ({"arrays": {"a": [1]}}, "array 'a' is a list"),
        ({"caveats": ("Short.",)}, "caveats must be a list of Caveats"),
    ],
)
def test_an_array_or_a_caveat_of_a_wrong_type_is_named(parts: Any, wrong: str) -> None:
    with pytest.raises(WorkbenchError, match=wrong) as caught:
        counted(lambda *given: replace(a_table(), **parts))
    assert caught.value.code == "wrong-type"


def test_a_caveat_that_names_one_figure_takes_a_tuple() -> None:
    with pytest.raises(WorkbenchError, match="applies_to must be a tuple of strings"):
        Caveat("Short.", "bars")  # type: ignore[arg-type]


@pytest.mark.usefixtures("own_runs")
def test_a_figure_of_a_column_that_is_not_there_is_a_warning_and_of_a_table_it_is_left_out() -> (
    None
):
    run = counted(
        a_table,
        figures={
            "misspelt": lambda tables: tables["counts"]["wrods"],
            "absent": lambda tables: tables["others"],
        },
    )
    (warning,) = run.warnings
    assert "'misspelt'" in warning and warning.endswith("there is no 'wrods'.")
    assert "test_contributing.py:" in warning, "it names the line"


@pytest.mark.parametrize(
    ("keys", "figure", "wrong"),
    [
        ({"wrods": 3}, "", "no column 'wrods', a key of 'n'"),
        ({"words": 4}, "", "no row of the table 'counts' has words=4, of 'n'"),
        ({"words": 3}, "bras", "no figure 'bras', of 'n'"),
    ],
)
def test_a_finding_names_a_row_and_a_figure(keys: Any, figure: str, wrong: str) -> None:
    tables = a_table().tables
    found = wb.Finding("3 words.", 3, None, None, "supported", "counts", keys, figure, measure="n")
    with pytest.raises(WorkbenchError, match=wrong):
        check_findings([found], tables, {"bars"})


@pytest.mark.usefixtures("own_runs")
def test_a_table_that_is_a_list_is_an_error_of_the_user() -> None:
    rows: Any = [3]
    with pytest.raises(WorkbenchError, match="'counts' is a list, not a data frame"):
        counted(lambda *given: wb.Result({"counts": rows}))


@pytest.mark.parametrize("returned", [None, ["3 words."]])
def test_what_is_no_finding_is_named(returned: Any) -> None:
    with pytest.raises(WorkbenchError, match=r"(NoneType|str), not findings"):
        check_findings(returned, a_table().tables)


@pytest.mark.usefixtures("own_runs")
def test_findings_that_are_mended_are_stated_and_no_longer_missed() -> None:
    keys = {"words": 4}
    run = counted(
        a_table,
        findings=lambda tables: [
            wb.Finding("3 words.", 3, None, None, "supported", "counts", keys, measure="n")
        ],
    )
    assert not run.findings and "cannot be stated" in run.warnings[0]
    keys["wrods"] = 3
    assert "no column 'wrods'" in Run(run.path).warnings[0], "the error of today, not the first"
    del keys["wrods"]
    keys["words"] = 3
    again = Run(run.path)
    assert [each.claim for each in again.findings] == ["3 words."] and not again.warnings


@pytest.mark.usefixtures("own_runs")
def test_a_figure_that_is_mended_is_drawn_and_no_longer_missed() -> None:
    column = ["wrods"]
    bars = {"bars": lambda tables: go.Figure(go.Bar(y=tables["counts"][column[0]]))}
    run = counted(a_table, figures=bars)
    assert not list(run.figures) and "'bars'" in run.warnings[0]
    assert run.warnings == Run(run.path).warnings, "it is not mended yet"
    column[0] = "words"
    again = Run(run.path)
    assert list(again.figures) == ["bars"] and len(again.figures["bars"].data) == 1
    assert not again.warnings


@pytest.mark.usefixtures("own_runs")
def test_an_error_of_ones_own_function_names_its_line_and_the_command_of_its_log() -> None:
    with pytest.raises(WorkbenchError, match="ZeroDivisionError") as caught:
        counted(lambda *given: 1 / 0)
    assert "test_contributing.py:" in caught.value.where
    assert "workbench runs show counted-" in caught.value.remedy


@pytest.mark.usefixtures("own_runs")
def test_an_error_of_ones_own_model_names_its_line_and_not_that_of_the_analysis() -> None:
    class Broken(BagOfEmbeddings):
        def forward(self, *given: Any, **more: Any) -> Any:
            raise ValueError("not written")

    with pytest.raises(WorkbenchError, match="not written") as caught:
        wb.run("geometry", model=Broken(), corpus="primer:size=20", random_models=0)
    assert caught.value.where.startswith("tests/test_contributing.py:")


@pytest.mark.usefixtures("own_runs")
def test_a_model_that_returns_too_few_layers_is_told_how_many() -> None:
    class Short(BagOfEmbeddings):
        def forward(self, *given: Any, **more: Any) -> Any:
            output = super().forward(*given, **more)
            return replace(output, hidden={"encoder": output.hidden["encoder"][:1]})

    with pytest.raises(WorkbenchError, match="returned 1 states of the encoder") as caught:
        wb.run("geometry", model=Short(), corpus="primer:size=20", random_models=0)
    assert "has 2 tensors" in caught.value.remedy


@pytest.mark.usefixtures("own_runs")
def test_a_model_whose_states_are_no_tensors_is_told_what_they_are() -> None:
    class Arrays(BagOfEmbeddings):
        def forward(self, *given: Any, **more: Any) -> Any:
            output = super().forward(*given, **more)
            return replace(
                output, hidden={"encoder": [each.numpy() for each in output.hidden["encoder"]]}
            )

    with pytest.raises(WorkbenchError, match=r"2 states of the encoder: ndarray \[") as caught:
        wb.run("geometry", model=Arrays(), corpus="primer:size=20", random_models=0)
    assert "has 2 tensors" in caught.value.remedy


@pytest.mark.usefixtures("own_runs")
def test_a_model_that_returns_its_states_alone_is_told_what_to_return() -> None:
    class Bare(BagOfEmbeddings):
        def forward(self, *given: Any, **more: Any) -> Any:
            return super().forward(*given, **more).hidden

    with pytest.raises(WorkbenchError, match="returned a dict, not an Output"):
        wb.run("geometry", model=Bare(), corpus="primer:size=20", random_models=0)


@pytest.mark.usefixtures("own_runs")
@pytest.mark.parametrize("part", ["name", "family", "content_hash", "width"])
def test_a_model_without_a_part_that_announces_it_is_told_which(part: str) -> None:
    model = type("Bare", (BagOfEmbeddings,), {part: property(lambda self: None, lambda *_: None)})()
    with pytest.raises(WorkbenchError, match=f"its {part} is None") as caught:
        wb.run("geometry", model=model, corpus="primer:size=20", random_models=0)
    assert caught.value.where == "Bare"


def test_a_class_of_model_without_its_methods_makes_no_model() -> None:
    class Half(wb.Model):
        name = family = "half"

    with pytest.raises(TypeError, match=r"content_hash.*device.*encode.*forward.*parameters"):
        Half()


def test_a_module_that_cannot_be_imported_is_named_whatever_it_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_module.py").write_text("\ndef run(:\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(WorkbenchError, match="SyntaxError") as caught:
        imported("broken_module:run", "the experiment")
    assert caught.value.code == "import-failed"
    assert "broken_module.py:2" in caught.value.remedy, "a syntax error has no frame of its line"


def test_a_place_without_a_colon_says_how_one_is_written() -> None:
    with pytest.raises(WorkbenchError, match=r"'own\.run' is not 'module:attribute'"):
        imported("own.run", "the experiment")


def test_a_method_that_cannot_be_stated_is_told_to_its_author(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Counting(wb.Settings):
        def in_prose(self) -> str:
            raise KeyError("words")

    counting = wb.Experiment(
        name="counting", about="Counts words.", settings=Counting, run=a_table, tables={}
    )
    assert method(counting, {"renamed_since": 1}) == "" and not caplog.text
    assert method(counting, {}) == ""
    assert "The method of counting cannot be stated (tests/test_contributing.py:" in caplog.text


def test_a_declaration_of_a_wrong_type_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mistyped.py").write_text(
        'from workbench.experiment import Table\n\nKEYS = Table("Words.", "tag")\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(WorkbenchError, match=r"cannot be imported: wb\.Table: keys") as caught:
        imported("mistyped:KEYS", "the table")
    assert "mistyped.py:3" in caught.value.remedy


@pytest.mark.parametrize(
    ("announced", "wrong"),
    [
        ({"page": Page("heads", "Heads")}, "the page 'heads' .* workbench.analyses.heads"),
        ({"pages": (Page("runs", "Mine"),)}, "the page 'runs' .* workbench"),
        ({"commands": {"run": "own:run"}}, "the command 'run' .* workbench"),
        ({"functions": {"load": "own"}}, "the function 'load' .* workbench"),
        ({"recipes": (Recipe("grammar", "", "", "own"),)}, "the question 'grammar' .*basics"),
    ],
)
def test_what_has_a_taken_name_is_refused(
    announced: Any, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("second")
    module.ANALYSIS = wb.Analysis("second", **announced)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "second", module)
    with pytest.raises(WorkbenchError, match=wrong):
        analysis._declared("second", analysis.analyses())


@pytest.mark.parametrize(
    ("announced", "wrong"),
    [
        ({"results": {"edge-probin": "own:PAGE"}}, "experiment 'edge-probin'.*'edge-probing'"),
        ({"recipes": (Recipe("long", "", "", "fertilty"),)}, "experiment 'fertilty'"),
        ({"goes_on": (GoesOn("train", "fertilty", "", ""),)}, "experiment 'fertilty'"),
        ({"tabs": (Tab("attention", "Own", "own:tab"),)}, "page with tabs 'attention'.* predict"),
        ({"recipes": (Recipe("long", "", "", "heads", page="prob"),)}, "page 'prob'.*'probing'"),
        ({"page": Page("own", "Own", "Measure")}, "does not say what draws its page 'own'.*draw="),
    ],
)
def test_what_names_an_experiment_or_a_page_that_is_not_there_is_refused(
    announced: Any, wrong: str
) -> None:
    own = wb.Analysis("second", **announced)
    known = [*analysis.analyses().values(), own]
    (error,) = analysis._strange(known)
    assert re.search(wrong, str(error), re.DOTALL), error
    assert not [*analysis._strange(known[:-1])]


@pytest.mark.parametrize("what", ["experiments", "functions", "commands", "results"])
@pytest.mark.parametrize("announced", [{"own": print}, {1: "own:OWN"}])
def test_a_name_or_a_place_that_is_no_string_is_refused(what: str, announced: Any) -> None:
    with pytest.raises(WorkbenchError, match=f"{what} has a .*both must be strings"):
        wb.Analysis("own", **{what: announced})


def test_what_is_announced_by_a_wrong_type_is_refused() -> None:
    with pytest.raises(WorkbenchError, match="draw must be a string, not a function"):
        Tab("predict", "Own", lambda sides: None)  # type: ignore[arg-type]
    with pytest.raises(WorkbenchError, match="models must be a whole number"):
        Recipe("long", "", "", "heads", models=("mini:bert",))  # type: ignore[arg-type]
    with pytest.raises(WorkbenchError, match="order must be a whole number"):
        Card("Own", "About.", order="first")  # type: ignore[arg-type]
    with pytest.raises(WorkbenchError, match="icon must be a string"):
        GoesOn("train", "heads", "Own", None)  # type: ignore[arg-type]


def test_a_view_that_is_a_plain_function_is_refused_by_its_name() -> None:
    with pytest.raises(WorkbenchError, match="the view 'Words' of 'own' is a function") as raised:
        ResultPage("Own", "", {"Own": "own"}, {"own": {"Words": block}})  # type: ignore[dict-item]
    assert "View(function)" in raised.value.remedy


def test_several_cards_of_one_package_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = (Card("One", "The first."), Card("Two", "The second."))
    own = wb.Analysis("own", page=Page("words", "Words", draw="views:OWN"), cards=cards)
    monkeypatch.setattr(home, "analyses", lambda: {"own": own})

    def page() -> None:
        from workbench.app.frame import home

        home._cards()

    monkeypatch.setattr(navigation, "link", lambda page, label, **look: st.write(label))
    drawn = AppTest.from_function(page).run()
    assert not drawn.exception
    assert [each.value for each in drawn.markdown[:2]] == ["**One**", "**Two**"]


def test_the_names_of_pages_commands_and_functions_of_no_analysis_are_taken() -> None:
    pages = {each.name for each in (*navigation.STARTS, *navigation.LIBRARY, *navigation.HIDDEN)}
    assert pages == set(analysis.OURS["page"])
    known = set(typer.main.get_command(main.commands()).commands)  # type: ignore[attr-defined]
    assert known - set(analysis.announced("commands")) == set(analysis.OURS["command"])
    functions = set(wb._HOMES) - set(analysis.announced("functions"))  # type: ignore[attr-defined]
    assert functions == {name for what, name in analysis._ours() if what == "function"}


@pytest.mark.parametrize("home", ["tests.tiny", "tests.tiny:tiny_bert"])
def test_a_function_is_announced_by_its_module_or_by_its_place(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wb, "home_of", lambda name: home)
    assert wb.__getattr__("tiny_bert") is tiny_bert


@pytest.mark.parametrize("name", ["", "a/b", "two words"])
def test_a_page_whose_name_is_no_part_of_an_address_is_refused(name: str) -> None:
    with pytest.raises(WorkbenchError, match="the name of a page is letters"):
        Page(name, "Spread")


def test_a_command_that_cannot_be_imported_is_an_error_of_that_command_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(main, "announced", lambda what: {"absent": "no_such_module:absent"})
    monkeypatch.setattr(main.app, "registered_commands", [*main.app.registered_commands])
    app = main.commands.__wrapped__()
    assert CliRunner().invoke(app, ["--version"]).exit_code == 0
    with pytest.raises(WorkbenchError, match="the command absent cannot be imported"):
        app(["absent", "--model", "mini:bert"], standalone_mode=False)


@pytest.mark.parametrize("package", ["absent", "workbench.analyses.absent"])
def test_a_page_that_cannot_be_imported_is_an_error_of_that_page_alone(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another package, or of the house, where its file in `pages/` is not there yet."""
    page = Page("absent", "Absent", draw="views:ABSENT")
    monkeypatch.setattr(analysis, "pages", lambda: [(wb.Analysis(package, page=page), page)])
    monkeypatch.setattr("streamlit.Page", lambda draw, **look: draw)
    draw = navigation.streamlit_page(page)  # as for the bar of every page
    with pytest.raises(WorkbenchError, match=rf"views:ABSENT of {package}"):
        draw()


def test_a_look_at_a_sentence_that_cannot_be_imported_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = wb.Analysis("absent", first_look="views:LOOK")
    own = wb.Analysis(__name__, first_look=":LOOK")
    drawn: list[str] = []
    monkeypatch.setattr(
        sys.modules[__name__], "LOOK", home.Look(lambda *of: drawn.append(of[3])), False
    )
    monkeypatch.setattr(home, "analyses", lambda: {"absent": broken, __name__: own})
    monkeypatch.setattr(home.cache, "model", str)
    monkeypatch.setattr(home.cache, "typed", str)
    monkeypatch.setattr("workbench.app.text.show_error", lambda error: drawn.append(error.code))
    home._look("Ben walks.")
    assert drawn == ["import-failed", "Ben walks."]


def test_a_look_that_fails_is_named_by_its_line_and_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[str] = []

    def fails(*of: Any) -> None:
        raise KeyError("an author's mistake")

    looks = {"one": home.Look(fails), "two": home.Look(lambda *of: drawn.append(of[3]))}
    for name, look in looks.items():
        monkeypatch.setattr(sys.modules[__name__], name, look, False)
    own = {name: wb.Analysis(__name__, first_look=f":{name}") for name in looks}
    monkeypatch.setattr(home, "analyses", lambda: own)
    monkeypatch.setattr(home.cache, "model", str)
    monkeypatch.setattr(home.cache, "typed", str)
    monkeypatch.setattr("workbench.app.text.show_error", lambda error: drawn.append(str(error)))
    home._look("Ben walks.")
    assert "tests/test_contributing.py:" in drawn[0] and "KeyError" in drawn[0]
    assert drawn[1:] == ["Ben walks."]


def test_a_card_of_a_figure_that_is_not_there_has_no_picture() -> None:
    assert home._picture.__wrapped__("heads-mini-bert", "no such figure", "light") == ""
    assert home._picture.__wrapped__("no such result", "roles", "light") == ""


@pytest.mark.parametrize("icon", ["", "no_such_icon"])
def test_a_page_without_a_known_icon_has_none(icon: str) -> None:
    assert navigation.icon_of(Page("spread", "Spread", icon=icon)) is None
    assert navigation.icon_of(navigation.HOME) == ":material/home:"


@pytest.mark.parametrize("module", ["head-spread", "two words", ""])
def test_an_entry_point_that_names_no_module_is_a_fault_of_its_package(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "misnamed-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: misnamed\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[workbench.analyses]\nmisnamed = {module}\n")
    before = list(analysis.analyses())
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(analysis.analyses()) == before
    assert f"the analysis {module} cannot be imported" in analysis.faults()[-1].what


# --- a corpus format ------------------------------------------------------------------------------


@pytest.fixture
def with_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    add_files(CONTRIBUTING, readers, tmp_path, monkeypatch)
    formats.cache_clear()
    yield
    formats.cache_clear()


def test_a_corpus_format_is_one_file(with_format: None, tmp_path: Path) -> None:
    (tmp_path / "dogs.words").write_text("The\ndog\nbarks\n.\n\n\nIt\nrains\n")
    assert [[token.text for token in doc] for doc in read(tmp_path / "dogs.words")] == [
        ["The", "dog", "barks", "."],
        ["It", "rains"],
    ]
    listed = catalogue().formats
    assert listed[-1].endings == (".words",)
    assert listed[-1].about == "One word per line, and an empty line after each sentence."
    assert listed[0].endings == (".conllu",), "the others keep their places"
    (tmp_path / "dogs.wrds").touch()
    with pytest.raises(WorkbenchError) as caught:
        read(tmp_path / "dogs.wrds")
    assert ".words" in caught.value.remedy


@pytest.mark.parametrize("line", ["READ = ('.words',)", "READS = ('words',)", "READS = '.words'"])
def test_a_reader_without_extensions_is_named(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.py").write_text(f'"""Words."""\n\n{line}\n\n\ndef reader(): ...\n')
    monkeypatch.setattr(readers, "__path__", [str(tmp_path)])
    with pytest.raises(WorkbenchError, match=r"own\.py.*READS"):
        formats.__wrapped__()


def test_the_added_format_is_gone() -> None:
    assert ".words" not in formats()
