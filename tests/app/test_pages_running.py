"""The pages that run things, without a browser: no exception, and what they say."""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests import warm
from tests.app import pages
from tests.app.pages import home, well  # noqa: F401
from tests.night import mostly
from tests.runs.conftest import forget_experiments, installed, wait_until
from workbench import Run, experiments
from workbench.app.frame import demo_report
from workbench.core import machine
from workbench.core.machine import app_file
from workbench.experiment.definition import built_in_experiments
from workbench.runs import notes, saved, status
from workbench.runs.launch import cancel, start
from workbench.runs.processes import locks
from workbench.runs.request import make_request
from workbench.runs.saved import Saved
from workbench.runs.subruns import in_process

FORMS = ("describe", "drift", "edge-probing")  # by day: of a corpus, of two models, of a probe


@pytest.fixture(autouse=True)
def place(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """An empty folder of runs, and an experiment that needs nothing."""
    site = installed(tmp_path_factory.mktemp("site"))
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(site))  # of the processes of runs
    monkeypatch.syspath_prepend(str(site))
    warm.answer(monkeypatch)
    forget_experiments()
    yield tmp_path / "runs"
    forget_experiments()


def opened(name: str, **address: str | list[str]) -> AppTest:
    app = AppTest.from_file(str(app_file()), default_timeout=60)
    for key, value in address.items():
        app.query_params[key] = value
    app.switch_page(f"pages/{name}.py")
    app.run()
    assert not app.exception
    return app


def texts(app: AppTest) -> str:
    parts = [
        *app.title,
        *app.header,
        *app.subheader,
        *app.markdown,
        *app.text,
        *app.caption,
        *app.code,
    ]
    said = "\n".join(str(part.value) for part in [*parts, *app.error, *app.warning])
    return re.sub(r"\\(.)", r"\1", said)  # what is data is escaped


def button(app: AppTest, label: str) -> Any:
    return next(each for each in app.button if each.label == label)


def made(seed: int = 0, **settings: Any) -> Run:
    spec = make_request("steps", settings=settings, seed=seed).spec
    return start(spec, compute=in_process(lambda requests, on_progress: ((), ())))


def test_the_first_page_shows_a_sentence_and_ways_on() -> None:
    app = opened("home")
    assert not app.exception
    said = texts(app)
    assert "See what a language model does with your sentence" in said and "No runs yet." in said
    (maps,) = [html for html in bodies(app) if "Attention of all heads" in html]
    assert maps.count("<img") == 16  # the heads of mini:bert
    assert "attention?model=mini%3Abert" in maps and "head=4.4" in maps
    ways = {str(link.proto.label).strip("*"): link.proto.page for link in app.get("page_link")}
    for way, page in (
        ("Browse attention", "attention"),
        ("Probe a model", "probing"),
        ("Compare fine-tuning", "transfer"),
        ("Take the tour: five steps, under two minutes", "attention"),
    ):
        assert ways[way] == page


def bodies(app: Any) -> list[str]:
    return [str(each.proto.body) for each in app.get("html")]


def test_the_tour_outlives_the_page_and_can_be_ended(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho '1 of 9: What there is'\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    # it inherits whether interrupts are ignored, as they are by what a shell runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
    button(opened("home"), "Make the report").click().run()
    wait_until(lambda: "1 of 9: What there is" in texts(opened("home")))
    app = opened("home")  # another visit sees the same
    button(app, "Cancel").click().run()
    assert not app.exception and not demo_report.is_under_way()
    app = opened("home")
    assert button(app, "Make the report")
    assert "The last one was not finished" in texts(app)
    assert not (place / "demo.html").exists()


def test_runs_of_which_there_are_none() -> None:
    assert "There are no runs yet." in texts(opened("runs"))


def test_doctor() -> None:
    app = opened("settings")
    said = texts(app)
    assert "localhost" in said and "WORKBENCH_RUNS" in said and "[auth]" in said
    assert "Missing packages and tools" in said and "server_metadata_url" in said
    assert "Workbench cache" in "".join(str(each.proto.body) for each in app.get("html"))


@pytest.mark.parametrize("name", mostly(built_in_experiments(), *FORMS))
def test_the_form_of_every_experiment(name: str) -> None:
    """Each has its form; whether it fits is said, and nothing is run."""
    app = opened("experiments", experiment=name, new="1")
    assert app.selectbox(key=f"question {name}").value == name
    assert experiments()[name].about in texts(app)
    assert any(button.label == "Run" for button in app.button)


@pytest.mark.usefixtures("home")
def test_what_does_not_fit_is_said_before_it_is_run() -> None:
    app = pages.opened("experiments", experiment="attention-averages", new="1")
    assert "Ready to run" in texts(app)
    app = pages.opened("experiments", experiment="attention-averages", model="mini:elmo")
    assert "attention-averages needs attention heads" in texts(app)
    assert next(button for button in app.button if button.label == "Run").disabled


def test_every_kind_of_setting_reaches_the_request() -> None:
    app = opened("experiments", experiment="steps")
    app.number_input(key="set steps steps").set_value(7)
    app.number_input(key="set steps pause").set_value(0.25)
    app.selectbox(key="set steps mood").set_value("warns")
    app.text_input(key="set steps layers").set_value("1, 2")
    app.text_input(key="set steps pattern").set_value("a b'c")
    app.checkbox(key="set steps loud").set_value(True)
    app.text_input(key="set steps depth").set_value("all")
    app.run()
    assert not app.exception
    said = texts(app)
    for setting in ("steps=7", "pause=0.25", "mood=warns", "layers=1,2", "loud=true", "depth=all"):
        assert f"--set={setting}" in said
    assert "'--set=pattern=a b'\"'\"'c'" in said, "quoted for a shell"


@pytest.mark.parametrize("repeats_a_part", [False, True])
def test_a_run_under_way_shows_its_stages_and_the_curves_of_its_loss(
    place: Path, repeats_a_part: bool
) -> None:
    run, part = made(9), made(8)
    held = []
    for seed, (each, part_of) in enumerate(((run, ""), (part, run.name))[: 1 + repeats_a_part]):
        now = status.settled(each.path)
        now = replace(now, state="running", ended="", seconds=0.0, part_of=part_of)
        status.write(each.path, now)
        status.add_event(each.path, "state", state="queued", text="")
        status.add_event(each.path, "log", text="Waiting for cpu: starts after another")
        status.add_event(each.path, "state", state="running", text="")
        for done, doing in (
            (0, "reading the corpus"),
            (1, f"training: seed {seed}, loss 2.5"),
            (2, f"training: seed {seed}, loss 1.5"),
        ):
            status.add_event(each.path, "progress", done=done, total=9, doing=doing, left=None)
        held.append(locks.take(each.path / status.LOCK))
    try:
        app = opened("runs", run=run.name)
    finally:
        for lock in held:
            assert lock is not None
            os.close(lock)
    assert "reading the corpus → **training**" in texts(app)
    assert "training: seed 0, loss 1.5" in texts(app)
    assert texts(app).count("Waiting for cpu") == 1, "only in the whole log: it has its turn"
    (chart,) = app.get("plotly_chart")
    assert [each["name"] for each in json.loads(chart.proto.spec)["data"]] == ["loss"]
    assert button(app, "Cancel")


def test_a_setting_that_is_wrong_is_explained() -> None:
    app = opened("experiments", experiment="steps")
    app.text_input(key="set steps layers").set_value("one, two")
    app.run()
    assert not app.exception
    assert "layers.0 is 'one'" in texts(app)
    assert next(button for button in app.button if button.label == "Run").disabled


def test_a_run_that_went_wrong_says_why_and_can_be_resumed() -> None:
    run, other = made(mood="raises"), made()
    assert (run.status.state, other.status.state) == ("failed", "done")
    app = opened("runs", run=run.name)
    assert "the third drawer is empty" in texts(app)
    assert any(button.label == "Resume" for button in app.button)
    assert "2 runs begin with" in texts(opened("runs", run="steps-"))


def test_where_a_run_is_removed_its_experiment_stays() -> None:
    app = opened("experiments", run=made().name)
    button(app, "Remove").click().run()
    assert not app.exception and "run" not in app.query_params
    assert "Draws numbers, step by step." in texts(app)


@pytest.mark.usefixtures("warm_workers")
def test_a_run_is_started_seen_by_two_cancelled_and_resumed() -> None:
    app = opened("experiments", experiment="steps")
    app.number_input(key="set steps steps").set_value(12)
    app.number_input(key="set steps halt").set_value(8)  # it is under way until it is cancelled
    app.run()
    button(app, "Run").click().run()
    assert not app.exception
    name = str(app.query_params["run"])
    run = Run(machine.runs() / name)

    def shown(**address: str) -> AppTest:
        return opened("experiments", experiment="steps", run=name, **address)

    try:
        wait_until(lambda: status.last(run.path)[-1].get("text") == "computed 7")
        assert re.search("steps: [0-9]+ of 12", texts(shown()))
        app = shown(new="1")
        (box,) = (each for each in app.number_input if each.label.startswith("The step at which"))
        assert box.value == 8, "the form is as that of the run"
        app, other = shown(), shown()
        button(app, "Cancel").click().run()
        assert button(app, "Resume") and button(well(other.run()), "Resume")
        button(other, "Resume").click().run()
        wait_until(lambda: run.status.state == "done")
    finally:
        if run.status.under_way:
            cancel(run)
    said = texts(app := shown())
    assert "Numbers are drawn." in said and run.tables["values"]["step"].nunique() == 12
    app = shown(new="1")
    button(app, "Show result").click().run()
    assert "its stored result is shown" in "".join(each.value for each in app.info)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("address", "said"),
    [
        ({"experiment": "steps", "run": "../../etc"}, "cannot be the name of a run"),
        ({"experiment": "profile", "model": "**x**:red[y]"}, "**x**:red[y]"),
        ({"experiment": "zzz"}, "an experiment that does not exist"),
        ({"experiment": "steps", "run": "steps-zzz"}, "There is no run"),
        ({"experiment": "profile", "model": "nonsense/x/y"}, "neither a folder nor a hub id"),
        ({"experiment": "describe", "corpus": "../../etc/zzz"}, "zzz"),
        ({"experiment": "profile", "model": "\0"}, "["),
    ],
)
def test_a_bad_address_of_an_experiment_is_explained(address: dict[str, str], said: str) -> None:
    app = pages.opened("experiments", **address)
    assert said in texts(app)
    raw = "".join(str(each.value) for each in [*app.markdown, *app.error])
    assert "**x**" not in raw, "what is data is escaped"


@pytest.mark.parametrize(
    "bad",
    mostly(
        ["../../etc", "\0", "zzz", "<b>x</b>", "-" * 300, "steps-"],
        "../../etc",
        "<b>x</b>",
        "steps-",
    ),
)
def test_a_bad_address_of_a_run_shows_an_error(bad: str) -> None:
    made(5), made(6)
    said = texts(opened("runs", run=bad))
    assert "[" in said and "Click one to open it" in said


def test_a_list_is_filtered(place: Path) -> None:
    ticked, *_ = [f"tick {made(seed).name}" for seed in range(3)]
    app = opened("runs")
    assert "3 runs." in texts(app)
    app.checkbox(key=ticked).check()
    app.text_input(key="find runs").set_value("no such words")
    app.run()
    assert any("None of the 3 runs" in info.value for info in app.info)
    app.text_input(key="find runs").set_value("STEPS done")
    app.run()
    assert "3 runs." in texts(app) and not app.exception
    assert app.checkbox(key=ticked).value, "a search that left it out"


def test_runs_are_found_by_their_tags_and_notes(place: Path) -> None:
    runs = [made(seed) for seed in range(3)]
    notes.write(runs[1], ["talk"], "Of *May*.")
    app = opened("runs")
    app.multiselect(key="tags of runs").set_value(["talk"])
    app.run()
    assert "1 run of 3" in texts(app)
    app.multiselect(key="tags of runs").set_value([])
    app.text_input(key="find runs").set_value("may")
    app.run()
    assert "1 run of 3" in texts(app) and not app.exception


def test_ticked_runs_get_a_tag_together(place: Path) -> None:
    runs = [made(seed) for seed in range(2)]
    app = opened("runs")
    for run in runs:
        app.checkbox(key=f"tick {run.name}").check()
    app.run()
    app.text_input(key="tag of ticked").set_value("two words")
    app.button(key="FormSubmitter:tag ticked-Add the tag").click()
    app.run()
    assert "is not a tag" in texts(app) or any("not a tag" in str(e.value) for e in app.error)
    app.text_input(key="tag of ticked").set_value("talk")
    app.button(key="FormSubmitter:tag ticked-Add the tag").click()
    app.run()
    assert [notes.read(run.path).tags for run in runs] == [("talk",)] * 2 and not app.exception


def test_a_filter_and_a_group_are_saved_and_opened_by_their_links(place: Path) -> None:
    runs = [made(seed) for seed in range(3)]
    notes.write(runs[1], ["talk"], "")
    app = opened("runs")
    app.multiselect(key="tags of runs").set_value(["talk"]).run()
    app.text_input(key="name of filter").set_value("for the talk")
    app.button(key="FormSubmitter:save filter-Save").click().run()
    assert saved.read() == {"for the talk": Saved(tags=("talk",))}
    app = opened("runs", saved="for the talk")
    assert "1 run of 3" in texts(app)
    app.multiselect(key="tags of runs").set_value([]).run()
    assert "saved" not in app.query_params and "3 runs." in texts(app)
    for run in runs[:2]:
        app.checkbox(key=f"tick {run.name}").check()
    app.run()
    app.text_input(key="name of group").set_value("pair")
    app.button(key="FormSubmitter:save group-Save").click().run()
    app = opened("runs", saved="pair")
    assert "2 runs of 3" in texts(app) and app.button(key="compare ticked").label[-6:] == "2 runs"
    app.button(key="remove saved").click().run()
    assert [*saved.read()] == ["for the talk"] and not app.exception
    (error,) = opened("runs", saved="pair").error
    assert "pair" in error.value and "saved-not-found" in error.value.replace("\\", "")


def test_of_several_runs_differences_have_signs() -> None:
    names = [made(seed, rows=2).name for seed in (0, 1)]
    app = opened("runs", run=names)
    assert "Comparison of 2 runs" in texts(app)
    columns = [list(frame.value.columns) for frame in app.dataframe]
    assert any("B − A value" in found for found in columns)


def test_ten_thousand_runs_are_listed_a_page_at_a_time(place: Path) -> None:
    for number in range(2_000):  # as many as a test may make; the time does not grow by the page
        folder = place / f"steps-{number:016x}"
        folder.mkdir(parents=True)
        (folder / "status.json").write_text('{"state": "done", "experiment": "steps"}')
    app = opened("runs")
    assert "1 to 25 of 2,000 runs" in texts(app)
    own = [box for box in app.checkbox if "steps-" in str(box.key)]
    assert len(own) == 25
