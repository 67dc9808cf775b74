"""The page of a question shows its most thorough run, names it, and links to the others."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.app.pages import home, opened, said, titles  # noqa: F401
from tests.night import mostly
from tests.report.making import made
from workbench import Run, experiments
from workbench.app import choice, navigation
from workbench.app.runs import context, result
from workbench.core.findings import Finding, Verdict
from workbench.experiment.definition import PRESETS
from workbench.runs import status
from workbench.runs.builtin import builtin_run, builtin_runs
from workbench.runs.model_facts import known
from workbench.runs.thoroughness import disagreements, thoroughness

pytestmark = pytest.mark.usefixtures("home")
SHIPPED = "edge-probing-mini-bert"
BY_DAY = "heads-mini-bert"
FEW = {"max_sentences": 20, "max_pairs": 20}  # where an experiment has no preset that is quick


def own_run(
    folder: Path,
    shift: float = 0.0,
    created: str = "2099-01-01",
    name: str = SHIPPED,
    models: Sequence[Any] = (),
    corpora: Sequence[Any] = (),
    verdict: Verdict | None = None,
    **how: Any,
) -> Run:
    """A run of the user's own with the tables of a built-in result."""
    shipped = builtin_run(name)
    kind = experiments()[shipped.spec.experiment]

    def moved(each: Finding) -> Finding:
        low, high = each.interval or (None, None)
        interval = None if low is None or high is None else (low + shift, high + shift)
        value = None if each.value is None else each.value + shift
        return replace(each, value=value, interval=interval, verdict=verdict or each.verdict)

    run = made(
        folder / "runs",
        experiment=kind.name,
        version=kind.version,
        tables={key: (shipped.tables[key], kind.tables[key]) for key in shipped.tables},
        models=tuple(models or shipped.spec.models),
        corpora=tuple(corpora or shipped.spec.corpora),
        split=shipped.spec.split,
        settings=kind.settings(**how).model_dump(mode="json"),
        findings=[moved(each) for each in shipped.findings],
    )
    models = tuple(each.name for each in run.spec.models)
    corpora = tuple(each.name for each in run.spec.corpora)
    now = replace(run.status, models=models, corpora=corpora, created=created)
    status.write(run.path, now)
    return run


def test_a_later_quick_run_does_not_take_the_place_of_a_fuller_one(
    home: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice, "model", lambda: "mini:bert")
    monkeypatch.setattr(choice, "corpus", lambda: "primer")
    kind, shipped = experiments()["edge-probing"], builtin_run(SHIPPED)
    preview = own_run(home, preview=True)
    quick = own_run(home, effort="quick")
    assert context.result_of(kind) == shipped
    full = own_run(home, effort="full")
    assert context.result_of(kind) == full
    assert context.others_of(full) == [shipped, quick, preview]
    assert context.others_of(quick) == [full, shipped, preview]


@pytest.mark.parametrize("kind", ["models", "corpora"])
def test_a_run_of_an_object_answers_for_no_model_or_corpus_that_has_a_name(
    kind: str,
    home: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice, "model", lambda: "mini:bert")
    monkeypatch.setattr(choice, "corpus", lambda: "primer")
    shipped = builtin_run(SHIPPED)
    (named,) = getattr(shipped.spec, kind)

    def of_object(content: str, **how: Any) -> Run:
        part = named.model_copy(update={"ref": None, "name": "mine", "hash": content})
        given: dict[str, Any] = {kind: (part,), **how}
        return own_run(home, **given)

    one, other = of_object("a" * 32), of_object("b" * 32)
    assert context.result_of(experiments()["edge-probing"]) == shipped
    quick = of_object("a" * 32, effort="quick")
    assert context.others_of(quick) == [one] and context.others_of(other) == []


def test_a_run_of_a_loaded_model_is_one_of_the_model_that_was_loaded(
    home: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice, "model", lambda: "mini:bert")
    monkeypatch.setattr(choice, "corpus", lambda: "primer")
    (named,) = builtin_run(SHIPPED).spec.models
    same = named.model_copy(update={"ref": None, "hash": known("mini:bert").hash})
    run = own_run(home, models=(same,))
    assert context.result_of(experiments()["edge-probing"]) == run
    assert context.inputs_of(run)[0] == ("mini:bert",)


def test_claims_that_neither_run_supports_do_not_disagree(home: Path) -> None:  # noqa: F811
    nothing: dict[str, Any] = {"verdict": "not supported"}
    assert disagreements(own_run(home), [own_run(home, -0.3, effort="quick")])
    assert not disagreements(
        own_run(home, effort="full", **nothing), [own_run(home, -0.3, preview=True, **nothing)]
    )


def test_the_page_names_the_run_and_says_where_another_one_disagrees(
    home: Path,  # noqa: F811
) -> None:
    own_run(home, shift=-0.3, effort="quick")
    app = opened("probing")
    assert "standard, 1 seed" in said(app), "how thorough the shown run is"
    assert "Another run (quick" in said(app) and "disagrees on" in said(app)


@pytest.mark.parametrize(
    "name",
    mostly((run.path.name for run in builtin_runs() if run.path.name != SHIPPED), BY_DAY),
)
def test_every_page_of_results_has_the_menu_of_other_runs(
    name: str,
    home: Path,  # noqa: F811
) -> None:
    shipped = builtin_run(name)
    kind = experiments()[shipped.spec.experiment]
    presets = kind.settings_of_presets()
    few = {key: value for key, value in FEW.items() if key in kind.settings.model_fields}
    rough = presets.get(PRESETS[0], few)
    quick = own_run(home, shift=-1e3, created="2020-02-02T00:00:00+00:00", name=name, **rough)
    page = navigation.page_of(kind.name)
    address = {"experiment": kind.name} if page == navigation.ANY else {}
    app = opened(page, run=shipped.name, **address)
    assert titles(app)[0] == result.title(shipped)
    links = {each.proto.label for each in app.get("page_link")}  # type: ignore[attr-defined]
    words = str(thoroughness(quick))
    label = f"{words[:1].upper()}{words[1:]}, " if words else ""
    assert any(each.startswith(label) and "built-in" not in each for each in links), links
    may_differ = any(each.interval and each.verdict == "supported" for each in shipped.findings)
    says = f"Another run ({words + ', ' if words else ''}2020-02-02) disagrees on" in said(app)
    assert says == may_differ
    other = opened(page, run=quick.name, **address)
    back = {each.proto.label for each in other.get("page_link")}  # type: ignore[attr-defined]
    assert any(each.endswith("built-in") for each in back), back


def test_the_first_page_calls_a_run_as_its_page_does(home: Path) -> None:  # noqa: F811
    run = own_run(home, effort="quick")
    links = opened("home").get("page_link")
    names = {re.sub(r"\\(.)", r"\1", each.proto.label) for each in links}  # type: ignore[attr-defined]
    assert result.title(run) in names


def test_the_age_of_a_finished_run_is_from_its_end(home: Path) -> None:  # noqa: F811
    run = own_run(home, created="2020-02-02T00:00:00+00:00")
    status.write(run.path, replace(run.status, ended=status.utc_now()))
    for app in (opened("runs"), opened("runs", run=run.name), opened("home")):
        assert "just now" in said(app)
