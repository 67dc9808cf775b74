"""The page of a result: the order of its parts, presets, the time they take, and files."""

import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from tests.app.pages import home, opened, said, titles, well  # noqa: F401
from tests.night import mostly
from workbench import Experiment, Settings
from workbench.app import tables_and_figures
from workbench.app.navigation import ANY, page_of, result_page_of
from workbench.app.runs import export, new_run, result, result_page, settings_form
from workbench.app.tables_and_figures import LARGE, _finished, _is_title, _names_beyond, figures_of
from workbench.experiment import Table
from workbench.experiment.definition import EXPERIMENTS, FULL, built_in_experiments
from workbench.runs import preset_times
from workbench.runs.builtin import builtin_run
from workbench.runs.estimate import Finished, Size, estimate, slowness

# --- the page -------------------------------------------------------------------------------------


def in_order(node: Any) -> Iterator[str]:
    """All words of a part of the page, from top to bottom."""
    for words in ("label", "value", "body"):
        for part in (node, getattr(node, "proto", None)):
            if isinstance(found := getattr(part, words, None), str):
                yield found
    for child in getattr(node, "children", {}).values():
        yield from in_order(child)


@pytest.mark.usefixtures("home")
def test_the_parts_of_a_result_are_in_this_order() -> None:
    run = builtin_run("edge-probing-mini-bert")
    app = opened("runs", run=run.name, model="mini:bert", corpus="primer", tables="true")
    assert titles(app) == ["Edge probing of mini:bert on primer"]
    page = re.sub(r"\\(.)", r"\1", "\n".join(in_order(app.main)))
    parts = [
        "Edge probing of mini:bert on primer",
        "built-in",
        "Share link",  # of the menu Export
        run.findings[0].claim,
        'class="numbers"',
        run.findings[2].claim,
        f"{len(run.findings) - result.IN_VIEW} more",
        run.findings[3].claim,
        "F1 by layer (each layer)",  # the main figure
        "3 cautions: ",
        "F1 (%) of the best layer, and of the baselines",  # the first tab
        "Settings, command and log",
        "Data tables",
        "Parquet",
    ]
    places = [page.find(part) for part in parts]
    assert -1 not in places, dict(zip(parts, places, strict=True))
    assert places == sorted(places), dict(zip(parts, places, strict=True))
    assert not app.error


@pytest.mark.usefixtures("home")
def test_an_experiment_without_a_page_shows_its_figures_as_tabs() -> None:
    run = builtin_run("describe-primer")
    app = opened("experiments", experiment="describe")
    assert titles(app) == ["Statistics of primer"]
    assert list(result_page.figure_views(run)) == [
        "Sizes", "Lengths", "Tags", "Relations", "Labels", "Words",
    ]  # fmt: skip
    assert [tab.label for tab in app.tabs] == ["Lengths", "Tags", "Relations", "Labels", "Words"]
    assert any(button.label == "New run" for button in app.button)
    assert not any(button.label == "Run" for button in app.button), "the form is closed"


@pytest.mark.usefixtures("home")
def test_the_form_is_open_where_there_is_no_result_and_any_question_can_be_chosen() -> None:
    app = opened("experiments", experiment="attention-averages")
    assert any(button.label == "Run" for button in app.button)
    box = app.selectbox(key="question attention-averages")
    assert any("What does a corpus contain" in option for option in box.options)
    well(box.set_value("describe").run())
    assert titles(app) == ["Statistics of primer"]


@pytest.mark.usefixtures("home")
def test_the_main_figure_does_not_repeat_a_finding_in_view() -> None:
    run = builtin_run("head-pruning-mini-bert")
    app = opened("pruning", run=run.name)
    claim = run.findings[0].claim
    assert said(app).count(claim) == 1
    (figure,) = [each for each in figures_of(run).values() if each.title == claim]
    assert figure.title, "reports and files have it"


@pytest.mark.usefixtures("home")
def test_in_a_presentation_large_ticks_have_room_between_narrow_panels() -> None:
    drawing = figures_of(builtin_run("edge-probing-mini-bert"))["curves"]
    figure = _finished("curves for an audience", "light", True, drawing)
    panels = sorted({axis.domain for axis in figure.select_xaxes()})
    gaps = [after[0] - before[1] for before, after in pairwise(panels)]
    assert len(panels) == 4 and min(gaps) * 700 > 2.5 * LARGE  # "100%", in a window of 1,280 px
    centres = sorted({note.x for note in figure.layout.annotations if _is_title(note)})
    assert centres == pytest.approx([sum(panel) / 2 for panel in panels])


def test_values_beyond_an_axis_have_names_in_a_presentation() -> None:
    """The panels have no room for them: without names, three grey numbers look alike."""
    figures = figures_of(builtin_run("structural-probe-mini-bert"))
    drawing = next(each for each in figures.values() if "↓ chain of words" in repr(each.plain))
    texts = [note.text for note in _finished("beyond", "light", True, drawing).layout.annotations]
    assert "↓ 0.57" in texts and "↓ random weights 0.57" not in texts
    assert "↓ random weights 0.57, 0.68" in _names_beyond(drawing.plain)
    assert "↓ chain of words 0.48, 0.54, 0.00, −0.07" in _names_beyond(drawing.plain)
    one = {"layout": {"annotations": [{"text": "↓ best baseline 87.0"}, {"text": "pos"}]}}
    assert not _names_beyond(one), "the caption has the only name"


def test_the_strip_has_a_number_with_its_interval_only_if_the_data_supports_it() -> None:
    """A pruned model that is no better than its baseline has no number in large type."""
    supported = opened("heads", run="built-in/heads-mini-bert")
    page = "\n".join(in_order(supported.main))
    assert "<dt>heads with a role</dt><dd>8<small>n = 16 heads</small></dd>" in page
    assert ":green-badge[supported]" in page
    with_nothing = builtin_run("geometry-mini-bert")
    assert with_nothing.findings[0].verdict == "undecided"
    page = "\n".join(in_order(opened("experiments", run=with_nothing.name).main))
    assert 'class="numbers"' not in page and ":orange-badge[undecided]" in page


def test_every_experiment_has_a_question_and_a_page() -> None:
    for name in built_in_experiments():
        subjects = new_run.SUBJECTS[:-1]
        assert EXPERIMENTS[name].subject in subjects, f"give {name} a subject of {subjects}"
        assert new_run.question_of(EXPERIMENTS[name]).endswith("?"), name
        assert page_of(name) == ANY or name in result_page_of(name).experiments.values()


def test_an_experiment_that_cannot_be_imported_is_named_and_the_others_can_be_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def drawn() -> None:
        from workbench.app.runs import new_run
        from workbench.experiment.definition import EXPERIMENTS

        new_run.question(EXPERIMENTS["profile"])

    homes = {**EXPERIMENTS.homes, "own": "no_such_package.experiment:OWN"}
    monkeypatch.setitem(vars(EXPERIMENTS), "homes", homes)
    page = AppTest.from_function(drawn, default_timeout=60).run()
    (error,) = page.error
    assert "no such package" in error.value.replace("\\_", " ")
    assert "Install what is missing" in error.value
    assert len(page.selectbox[0].options) == len(homes) - 1 and not page.exception


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", mostly([".html", ".md", ".tex", ".zip"], ".html", ".zip"))
def test_a_report_is_made_on_the_click(ending: str) -> None:
    run = builtin_run("head-importance-mini-bert")
    name, make = export._report([run], "My heads", "", ending)
    content = make()
    if ending == ".html":
        assert b"<h1>My heads</h1>" in content
    else:
        assert name.endswith(".zip")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
        assert any(file.endswith(ending if ending != ".zip" else "report.html") for file in names)


def test_a_table_and_a_figure_are_saved_as_the_engine_writes_them(tmp_path: Path) -> None:
    run = builtin_run("head-importance-mini-bert")
    name, make = export._table(run, "importance", ".csv")
    assert name == "head-importance-mini-bert-importance.csv"
    assert make().startswith(b"stack,kind,layer,head")
    assert export._figure(run, "importance", ".svg")[1]().lstrip().startswith(b"<")


# --- presets and the time they take ---------------------------------------------------------------


def experiment(default: int | None, **declared: Any) -> Experiment[Any]:
    """An experiment with a default number of sentences."""
    fields = {"max_sentences": (int | None, default)}
    from pydantic import create_model

    return Experiment(
        name="lengths",
        about="Counts words.",
        settings=create_model("Lengths", __base__=Settings, **fields),  # type: ignore[call-overload]
        run=lambda inputs, settings, progress: None,
        tables={"lengths": Table("Words.", ("sentence",))},
        **declared,
    )


def test_presets_are_few_the_default_and_all_sentences() -> None:
    few = {"max_sentences": 200}
    every = {"max_sentences": None}
    assert experiment(1000).settings_of_presets() == {"Quick": few, "Standard": {}, "Full": every}
    assert experiment(None).settings_of_presets() == {"Quick": few, "Standard": {}}
    assert experiment(100).settings_of_presets() == {"Quick": {}, "Full": every}
    declared = experiment(None, presets={"Quick": {"max_sentences": 5}, "Standard": {}})
    assert declared.settings_of_presets() == {"Quick": {"max_sentences": 5}, "Standard": {}}


@pytest.mark.parametrize("name", built_in_experiments())
def test_presets_are_settings_of_the_experiment(name: str) -> None:
    kind = EXPERIMENTS[name]
    for changes in kind.settings_of_presets().values():
        kind.settings(**changes)  # raises if one is no setting, or out of bounds


def done(seconds: float, models: str, words: int, size: int = 1, shipped: bool = False) -> Any:
    origin: Any = "built-in" if shipped else "own"
    return Finished(Size((models,), ("ewt",), words, size, {}), seconds, origin)


def test_the_time_is_that_of_an_earlier_run_scaled_by_size() -> None:
    request = Size(("bert",), ("ewt",), 400, 100, {})
    same = done(22.0, "bert", 400, 100)
    assert estimate(request, [same]).in_words == "about 20 s"  # type: ignore[union-attr]
    tenth = done(12.0, "bert", 40, 100)
    assert estimate(request, [tenth]).seconds == 2 + 10 * 10  # type: ignore[union-attr]
    shipped = done(12.0, "mini:bert", 400, 1, shipped=True)
    bound = estimate(request, [shipped])
    assert bound is not None and bound.in_words == "up to about 15 min"
    assert estimate(request, [shipped, same]).seconds == 22.0  # type: ignore[union-attr]


def test_a_slow_machine_is_known_by_its_own_runs() -> None:
    elsewhere = [done(20.0, "mini:bert", 400, 1, shipped=True)]
    own = [done(seconds, "mini:bert", 400, 1) for seconds in (60.0, 10.0, 50.0)]
    slower = slowness((run, elsewhere) for run in own)
    assert slower == 2.5
    other = Size(("mini:bert",), ("ewt",), 400, 1, {})
    assert estimate(other, elsewhere, slower).seconds == 50.0  # type: ignore[union-attr]
    assert estimate(other, own, slower).seconds == 50.0, "its own are as they are"  # type: ignore[union-attr]
    unlike = done(600.0, "bert", 400, 9), done(600.0, "mini:bert", 0, 1)
    assert slowness((run, elsewhere) for run in unlike) == 1.0, "sizes that are only a bound"


def test_two_models_tell_how_the_time_grows_with_size() -> None:
    request = Size(("bert",), ("ewt",), 800, 100_000, {})
    small, large = (done(4.0, "mini:bert", 400, 100), done(40.0, "other", 400, 10_000))
    found = estimate(request, [small, large])
    assert found is not None and not found.is_bound
    assert found.seconds == pytest.approx(2 * 40 * 10**0.5, abs=0.1)
    slower = [done(4.0, "mini:bert", 400, 100, True), done(40.0, "other", 400, 10_000, True)]
    assert estimate(request, slower, 3.0).seconds == pytest.approx(3 * found.seconds, abs=0.3)  # type: ignore[union-attr]
    near = done(9.0, "mini:gpt", 400, 120)
    request = replace(request, parameters=10_000)
    assert estimate(request, [small, near]).is_bound, "of one size"  # type: ignore[union-attr]


@pytest.mark.usefixtures("home")
def test_a_sample_that_grows_takes_as_long_as_its_first_step_up_to_its_limit() -> None:
    inputs = (("mini:bert",), ("primer",))
    lens = new_run.estimated(EXPERIMENTS["lens"], {}, *inputs)  # its first step decides
    assert lens is not None and not lens.is_bound
    trees = new_run.estimated(EXPERIMENTS["structural-probe"], {}, *inputs)
    assert trees is not None and trees.in_words.endswith(" to 10 min")
    seconds = builtin_run("structural-probe-mini-bert").status.seconds
    assert trees.first == pytest.approx(seconds, abs=0.1)
    short = new_run.estimated(EXPERIMENTS["structural-probe"], {"time": "0s"}, *inputs)
    assert short is not None and (short.seconds, short.first) == (trees.first, 0)


@pytest.mark.usefixtures("home")
def test_a_training_takes_the_time_that_it_is_given() -> None:
    train = EXPERIMENTS["train"]
    given = [
        new_run.estimated(train, changes, (), ("primer",))
        for changes in ({}, {"time_budget": "1m"}, {"steps": 40})
    ]
    assert [each and each.seconds for each in given] == [300.0, 60.0, None]


@pytest.mark.usefixtures("home")
def test_what_a_model_needs_is_no_condition_where_none_is_needed() -> None:
    form = said(opened("experiments", experiment="train", corpus="primer:size=40"))
    assert "With a model, it requires a model of the family" in form


def test_nothing_is_claimed_of_what_is_not_known() -> None:
    request = Size(("bert",), ("ewt",), 0, 0, {})
    assert estimate(request, []) is None
    assert estimate(request, [done(9.0, "mini:bert", 40)]) is None, "sizes are not known"
    other = Size(("bert",), ("ewt",), 40, 1, {"max_epochs": 9})
    assert estimate(other, [done(9.0, "bert", 40)]) is None, "the settings differ"
    large = Size(("bert",), ("ewt",), 40, 10_000, {})
    assert estimate(large, [done(9.0, "mini:bert", 40, 1, True)]) is None, "too far away"


@pytest.mark.usefixtures("home")
def test_a_built_in_result_tells_the_time_of_its_experiment() -> None:
    for run in map(builtin_run, ("edge-probing-mini-bert", "heads-mini-gpt", "describe-primer")):
        kind = EXPERIMENTS[run.spec.experiment]
        models = tuple(str(model.ref) for model in run.spec.models)
        corpora = tuple(str(corpus.ref) for corpus in run.spec.corpora)
        time = new_run.estimated(kind, {}, models, corpora)
        assert time is not None and time.seconds > 0, run.name


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", preset_times.MODELS)
def test_each_preset_without_a_built_in_result_has_a_time(name: str) -> None:
    kind = EXPERIMENTS[name]
    for preset, changes in kind.settings_of_presets().items():
        if kind.growth is not None and preset == FULL:  # as long as its corpus
            continue
        time = new_run.estimated(kind, changes, preset_times.MODELS[name], preset_times.CORPUS)
        assert time is not None and time.seconds > 0, preset


def test_settings_are_sentences() -> None:
    assert settings_form.sentence_of("Maximum number of sentences (default: all).") == (
        "Maximum number of sentences"
    )
    assert settings_form.sentence_of("Training budget: targets, seeds.") == "Training budget"
    for name in built_in_experiments():
        for field, info in EXPERIMENTS[name].settings.model_fields.items():
            sentence = settings_form.sentence_of(info.description or "")
            assert 4 <= len(sentence) <= 140, (name, field, sentence)


def test_what_the_data_do_not_support_is_no_title_of_a_figure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, shown = builtin_run("heads-mini-bert"), dict[str, str]()
    found = [replace(each, verdict="not supported") for each in run.findings]
    monkeypatch.setattr(
        tables_and_figures, "draw_view", lambda run, name, *_, title: shown.update({name: title})
    )
    named = next(each for each in run.findings if each.figure and each.verdict == "supported")
    tables_and_figures.view_of(run, named.figure, lambda tables: go.Figure())
    assert shown.pop(named.figure) == named.claim
    monkeypatch.setattr(type(run), "findings", property(lambda self: found))
    tables_and_figures.view_of(run, named.figure, lambda tables: go.Figure())
    assert shown == {named.figure: ""}


def test_a_view_that_raises_is_an_error_with_its_line_and_what_follows_stays() -> None:
    """A view is code of a package: its mistake leaves the settings and the tables of the run."""

    def script() -> None:
        import streamlit as st

        from workbench.app.runs.result_page import View, _tabs

        def fails(run: object) -> None:
            raise KeyError("leyer")

        _tabs({"Layers": View(fails)}, None)
        st.text("Data tables")

    app = AppTest.from_function(script).run(timeout=30)
    assert not app.exception
    (error,) = app.error
    assert "KeyError" in error.value and [text.value for text in app.text] == ["Data tables"]
