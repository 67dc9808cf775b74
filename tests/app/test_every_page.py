"""What pages say at a glance of every built-in result, and of models with random weights.

Reports of the same results: tests/report/test_every_result.py. Costs: a page for each result."""

import re
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.app.pages import home, opened, said, titles  # noqa: F401
from tests.report.test_every_result import COUNTED, HASH, PATH, QUICK, TWINS
from workbench.app import navigation
from workbench.app.runs import result
from workbench.core.findings import Finding, headline
from workbench.models.references import RANDOM
from workbench.runs.builtin import builtin_runs
from workbench.runs.run import Run

pytestmark = pytest.mark.usefixtures("home")
BY_DAY = "lens-mini-bert"  # the strip without a number: tests/app/test_result.py
WITHOUT = "minimal-pairs-mini-gpt"  # a number in large type
NUMBER = re.compile(r"<dd>(.*?)(?:<small>.*?</small>)?</dd>")


def page_of(run: Run) -> AppTest:
    name = navigation.page_of(run.spec.experiment)
    more = {"experiment": run.spec.experiment} if name == navigation.ANY else {}
    return opened(name, run=run.name, **more)


def numbers(app: AppTest) -> list[str]:
    """The numbers in large type."""
    return [
        number
        for each in app.get("html")
        if 'aria-label="Key number"' in each.proto.body  # type: ignore[attr-defined]
        for number in NUMBER.findall(each.proto.body)  # type: ignore[attr-defined]
    ]


def faults(app: AppTest, run: Run) -> list[str]:
    """What is wrong with what a page says of a run."""
    first, words, claims = headline(run.findings), said(app), [f.claim for f in run.findings]
    lines = [
        line.replace(run.name, "")
        for kind in ("title", "header", "subheader", "markdown", "caption", "text", "info")
        for element in app.get(kind)
        for line in unescaped(element).splitlines()
    ]
    return [
        *(f"not its title: {each}" for each in titles(app)[:1] if each != result.title(run)),
        *(f"a count is not in words: {each}" for each in titles(app) if COUNTED.search(each)),
        *(f"a path: {line}" for line in lines if PATH.search(line)),
        *(f"a hash: {line}" for line in lines if HASH.search(line)),
        *unsupported(numbers(app), first),
        *(f"not said: {each}" for each in claims if plain(each) not in plain(words)),
        *(
            f"without its verdict: {each.claim}"
            for each in run.findings
            if each.badge and f"{plain(each.claim)} :{BADGES[each.badge]}" not in plain(words)
        ),
    ]  # fmt: skip


BADGES = {
    "supported": "green-badge[supported]",
    "not supported": "gray-badge[not supported]",
    "undecided": "orange-badge[undecided]",
}


def unescaped(element: Any) -> str:
    """The words of an element; what is data is escaped."""
    return re.sub(r"\\(.)", r"\1", str(element.value))


def plain(words: str) -> str:
    return " ".join(words.replace("`", "").split())


def unsupported(shown: list[str], first: Finding | None) -> list[str]:
    """A number in large type is that of the first finding, and is supported."""
    expected = [first.number] if first and first.verdict == "supported" and first.number else []
    return [] if shown == expected else [f"numbers {shown} and not {expected}"]


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(
            run, id=run.path.name, marks=[] if run.path.name == BY_DAY else [pytest.mark.slow]
        )
        for run in builtin_runs()
    ],
)
def test_the_page_of_a_built_in_result_shows_what_its_verdicts_support(run: Run) -> None:
    assert not faults(page_of(run), run)


@pytest.mark.slow  # by day tests/report/test_every_result.py has it of a report
@pytest.mark.parametrize("name", TWINS)
def test_the_page_of_a_model_with_random_weights_shows_no_number_that_means_nothing(
    name: str,
) -> None:
    experiment, models = TWINS[name]
    refs = [f"{each.removesuffix(RANDOM)}{RANDOM}" for each in models]
    run = wb.run(experiment, model=refs or None, **QUICK[experiment])
    assert not faults(page_of(run), run)


def test_the_sweep_finds_faults() -> None:
    (run,) = [each for each in builtin_runs() if each.path.name == BY_DAY]
    app = page_of(run)
    first = headline(run.findings)
    assert first and first.number and not unsupported(numbers(app), first)
    denied = replace(first, verdict="undecided", decided_by="more")
    assert unsupported(numbers(app), denied), "a number in large type without support"
    (other,) = [each for each in builtin_runs() if each.path.name == WITHOUT]
    assert faults(app, other), "of another result"
