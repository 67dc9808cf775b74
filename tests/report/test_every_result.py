"""What results say at a glance: key numbers, titles and words of every built-in result, and of
models with random weights. A number in large type is one that the data supports, and no title says
what its verdict denies. Reports are read as Markdown, without their pictures."""

import re
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.night import mostly
from workbench.core.findings import Finding, headline
from workbench.models.references import RANDOM
from workbench.report import text_formats
from workbench.report.content import content
from workbench.runs.builtin import builtin_run, builtin_runs
from workbench.runs.run import Run

RUNS = builtin_runs()
SEEN_BY_DAY = [  # with a number, with several, and with one that the data do not support
    run
    for run in RUNS
    if run.path.name in ("lens-mini-bert", "heads-mini-bert", "geometry-mini-bert")
]
SMALL = {"corpus": "primer:size=400"}
QUICK: dict[str, dict[str, Any]] = {  # settings of an experiment on models that know nothing
    "tokenization": SMALL,
    "profile": SMALL,
    "trigram": {"corpus": "primer", "max_sentences": 200},
    "minimal-pairs": {"corpus": "primer/acceptability", "max_sentences": 100},
    "heads": {"corpus": "primer", "max_sentences": 100},
    "head-importance": {"corpus": "primer", "max_sentences": 40},
    "head-ablation": {"corpus": "primer", "max_sentences": 40},
    "head-pruning": {
        "corpus": "primer", "max_sentences": 40, "random_orders": 2, "steps": 4,
        "recovery_steps": 0, "methods": ("importance", "random"),
    },
    "edge-probing": {"corpus": "primer:size=1500", "tasks": ("pos", "entities"), "preview": True},
    "description-length": {**SMALL, "tasks": ("pos",), "time": "0s"},
    "structural-probe": {**SMALL, "time": "0s"},
    "lens": {"corpus": "primer", "max_predictions": 60, "time": "0s"},
    "tuned-lens": {**SMALL, "steps": 25},
    "geometry": {**SMALL, "random_models": 2, "time": "0s"},
    "neighbours": {**SMALL, "max_queries": 60, "random_models": 1, "n_permutations": 19},
    "similarity": {**SMALL, "time": "0s"},
    "frozen-vs-finetuned": {
        **SMALL, "tasks": ("sentiment",), "seeds": (0, 1), "max_epochs": 1, "max_test": 60,
        "learning_rates": (0.001,), "save_models": False, "time": "0s",
    },
    "drift": SMALL,
    "attribution": {**SMALL, "max_predictions": 6, "random_models": 1, "time": "0s"},
    "contributions": {**SMALL, "max_words": 20, "n_permutations": 19, "time": "0s"},
    "patching": {"corpus": "primer/counterfactuals:size=300", "max_pairs": 12},
    "steering": {
        "corpus": "primer/counterfactuals", "max_words": 1, "max_texts": 24,
        "random_directions": 20,
    },
    "erasure": {
        "corpus": "primer:size=200", "max_words": 120, "max_predictions": 20,
        "random_directions": 20,
    },
    "train": {"corpus": SMALL["corpus"], "family": "gpt", "size": "tiny", "steps": 3},
}  # fmt: skip
TWINS = {  # of each built-in result that has a model or trains one
    run.path.name: (run.spec.experiment, [each.name for each in run.spec.models])
    for run in RUNS
    if run.spec.models or run.spec.experiment == "train"
}
BY_DAY = "head-importance-mini-bert"
OF_ANY_NET = {  # what they find is there in any net: its null is no effect, not no knowledge
    "attribution", "contributions", "drift", "erasure", "patching", "similarity", "steering",
    "tokenization", "train",
}  # fmt: skip
COUNTED = re.compile(
    r"(?<!layer )\b(\d[\d,]*) of (?:the )?\1\b|(?<!layer )\b0 of \d"
    r"|\b(?:all|none of) [12](?![\d,])",
    re.I,
)
TWICE = re.compile(r"95 % [\d.]+ % to")
AGREES = re.compile(r"\b1 \w+ (?:have|are)\b")
PATH = re.compile(r"(?<![\w.:/])/(?:home|tmp|root|work|Users|usr|var|mnt)/")
HASH = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{12,}\b")
DENIED = re.compile(r"not shown to|not significant|does not beat|no better than its baseline")
DENIES = re.compile(r"\b(?:no|not|none|neither|nothing|hardest|hurts)\b", re.I)


def check(run: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check all findings, titles and the report of a run."""
    for finding in run.findings:
        assert not faults_of(finding), f"{finding.claim}: {', '.join(faults_of(finding))}"
    for caveat in run.caveats:
        assert not COUNTED.search(caveat.text) and not AGREES.search(caveat.text), caveat.text
    supported = {each.claim for each in run.findings if each.verdict == "supported"}
    told = content([run])
    (part,) = told.parts
    for drawing in part.drawings.values():
        assert not drawing.title or drawing.title in supported, drawing.title
    shown = {row[0].lower() for row in part.key_numbers.rows}
    numbered = {
        each.measure.lower() for each in run.findings
        if each.verdict == "supported" and each.value is not None
    }  # fmt: skip
    assert shown == numbered, "the table of key numbers has what the data supports"
    monkeypatch.setattr(text_formats, "pictured", lambda drawing, kind: None)
    text_formats.write_markdown(told, path)
    report = path.read_text("utf-8")
    said = report[: report.index("## Tables")]
    first = headline(run.findings)
    assert first and f"**({first.verdict})**" in said.partition("\n2. ")[0]
    for line in said.splitlines():
        if "`workbench " in line:
            continue  # a command names its run
        assert not PATH.search(line) and not HASH.search(line), line
        if line.startswith("#"):
            assert not COUNTED.search(line), line


def faults_of(finding: Finding) -> list[str]:
    """What is wrong with the words of a finding, its number or its verdict."""
    claim, supported = finding.claim, finding.verdict == "supported"
    return list(
        filter(
            None,
            (
                "a key number without support" if finding.key_number and not supported else "",
                "a number with an interval has no n"
                if supported and finding.interval and finding.null is not None and not finding.n
                and finding.measure in LEADING
                else "",
                "its verdict contradicts it" if supported and DENIED.search(claim) else "",
                "nothing in it says that it is not supported"
                if finding.badge == "not supported" and not DENIES.search(claim)
                else "",
                "a count is not in words" if COUNTED.search(claim) else "",
                "the verb does not agree" if AGREES.search(claim) else "",
                "an interval names its unit twice" if TWICE.search(claim) else "",
                "a path" if PATH.search(claim) else "",
                "a hash" if HASH.search(claim) else "",
            ),
        )
    )  # fmt: skip


LEADING = {run.findings[0].measure for run in RUNS}


def test_the_words_of_all_built_in_findings_are_as_their_verdicts() -> None:
    found = [finding for run in RUNS for finding in run.findings]
    assert len(found) > len(RUNS)
    assert not [(each.claim, faults) for each in found if (faults := faults_of(each))]


@pytest.mark.parametrize("run", mostly(RUNS, *SEEN_BY_DAY), ids=lambda run: run.path.name)
def test_a_built_in_result_shows_what_its_verdicts_support(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(run, tmp_path / "report.md", monkeypatch)


@pytest.fixture(scope="module")
def seen() -> dict[Any, Any]:
    """Models that are open, by name: several results are of one."""
    return {}


@pytest.mark.parametrize("name", mostly(TWINS, BY_DAY))
def test_a_model_with_random_weights_shows_no_number_that_means_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: dict[Any, Any]
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    experiment, models = TWINS[name]
    refs = [f"{each.removesuffix(RANDOM)}{RANDOM}" for each in models]
    for ref in refs:
        seen[ref] = seen.get(ref) or wb.load(ref, device="cpu")
    run = wb.run(experiment, model=[seen[ref] for ref in refs] or None, **QUICK[experiment])
    check(run, tmp_path / "report.md", monkeypatch)
    known = [each.claim for each in run.findings if each.null is not None and each.number]
    assert not known or experiment in OF_ANY_NET


def test_the_sweep_finds_faults() -> None:
    def said(claim: str, verdict: Any = "supported") -> list[str]:
        return faults_of(Finding(claim, 1, None, 0, verdict, "t", measure="m"))

    assert said("2 of 2 tasks are above the baseline.")
    assert said("All 2 tasks are above the baseline.") and said("1 word have a piece.")
    assert said("Fine-tuning beats the frozen model (not significantly).")
    assert said("Fine-tuning beats the frozen model.", "not supported")
    assert said("The model is worse than trigrams.", "not supported")
    assert not said("The model does not beat trigrams, and is worse.", "not supported")
    assert said("The model in /home/me/model is good.") and said("It is feee4e79c0f9a6e7 of all.")
    assert said("It is right (95 % 64 % to 74 %).") and not said("It is right (95 % 64 to 74 %).")
    assert not said("3 of 16 heads can be removed.")
    assert builtin_run("geometry-mini-bert").findings[0].key_number == ""
