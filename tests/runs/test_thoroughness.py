"""Of several runs of one question the most thorough counts, and where they disagree is said."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.report.making import corpus, found, made, model
from workbench import Run, experiments
from workbench.core.findings import Finding
from workbench.runs import spec, status
from workbench.runs.builtin import builtin_run
from workbench.runs.thoroughness import disagreements, thoroughness


def probing(folder: Path, created: str = "2026-11-28", **settings: Any) -> Run:
    """A finished run of edge probing with these settings."""
    kind = experiments()["edge-probing"]
    run = made(
        folder,
        experiment="edge-probing",
        version=kind.version,
        models=(model("mini:bert", ref="mini:bert"),),
        corpora=(corpus(),),
        settings=kind.settings(**settings).model_dump(mode="json"),
        facts=settings.pop("facts", None),
        findings=[],
    )
    status.write(run.path, replace(run.status, experiment="edge-probing", created=created))
    return run


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"effort": "quick"}, {"effort": "standard"}),
        ({"preview": True}, {"effort": "quick"}),
        ({"preview": True, "effort": "full"}, {"tasks": ("pos",)}),
        ({"effort": "quick", "seeds": (0, 1, 2)}, {"effort": "standard", "seeds": (0,)}),
        ({"max_sentences": 100}, {}),
        ({"max_sentences": 5000}, {"max_sentences": None}),
        ({"tasks": ("pos",), "effort": "full"}, {"effort": "standard"}),  # less of the question
        ({"seeds": (0,)}, {"seeds": (0, 1)}),
    ],
)
def test_the_more_thorough_run_is_larger(
    less: dict[str, Any], more: dict[str, Any], tmp_path: Path
) -> None:
    worse = probing(tmp_path, created="2026-11-28", **less)
    better = probing(tmp_path, created="2026-11-27", **more)
    assert thoroughness(worse) < thoroughness(better)
    assert max([worse, better], key=thoroughness) is better


def test_a_sweep_has_the_seeds_of_all_its_runs(tmp_path: Path) -> None:
    run = probing(tmp_path)
    assert str(thoroughness(run)) == "standard, 1 seed"
    spec.write(run.path, run.spec.model_copy(update={"sweep": {"seed": [0, 1, 2]}}))
    assert str(thoroughness(Run(run.path))) == "standard, 3 seeds"


def test_of_equal_runs_the_later_one(tmp_path: Path) -> None:
    first = probing(tmp_path / "a", created="2026-11-27T10:00:00")
    later = probing(tmp_path / "b", created="2026-11-28T10:00:00")
    assert thoroughness(first) < thoroughness(later)


def test_a_sample_that_grew_counts_with_its_last_size(tmp_path: Path) -> None:
    kind = experiments()["edge-probing"]
    sizes = {name: 4 * size for name, size in kind.growth.start.items()}  # type: ignore[union-attr]
    small = probing(tmp_path / "a", created="2026-11-28")
    large = probing(tmp_path / "b", created="2026-11-27")
    provenance = large.path / "provenance.json"
    text = provenance.read_text()
    provenance.write_text(json.dumps({**json.loads(text), "growth": {"sizes": sizes}}))
    assert thoroughness(small) < thoroughness(Run(large.path))


def test_it_is_said_in_words(tmp_path: Path) -> None:
    assert str(thoroughness(probing(tmp_path, effort="full"))) == "full, 3 seeds"
    assert str(thoroughness(probing(tmp_path, preview=True))) == "preview, 1 seed"
    assert (
        str(thoroughness(probing(tmp_path, tasks=("pos",)))) == "standard, 1 seed, other settings"
    )
    assert str(thoroughness(builtin_run("structural-probe-mini-bert"))) == "standard, 3 seeds"
    heads = experiments()["heads"]
    few = heads.settings(max_sentences=100).model_dump(mode="json")
    own = made(tmp_path, experiment="heads", version=heads.version, settings=few)
    assert str(thoroughness(own)) == "100 sentences", "what is other, and not that something is"


def finding(value: float, interval: tuple[float, float] | None, measure: str = "F1") -> Finding:
    return found("It is so.", value=value, interval=interval, measure=measure, unit="F1")


def test_runs_disagree_only_beyond_their_intervals(tmp_path: Path) -> None:
    def run(name: str, *findings: Finding) -> Run:
        return made(tmp_path / name, findings=findings)

    ours = run("a", finding(0.992, (0.985, 0.997)), finding(0.5, (0.4, 0.6), "selectivity"))
    near = run("b", finding(0.99, (0.98, 0.995)), finding(0.7, None, "selectivity"))
    far = run("c", finding(0.931, (0.91, 0.95)))
    assert disagreements(ours, [near]) == []
    (sentence,) = disagreements(ours, [near, far])
    assert "disagrees on F1: 93.1 (91.0 to 95.0) there, 99.2 (98.5 to 99.7) here." in sentence


def test_what_is_undecided_does_not_disagree(tmp_path: Path) -> None:
    ours = made(tmp_path / "a", findings=(replace(finding(0.9, (0.8, 1.0)), verdict="supported"),))
    few = replace(finding(0.3, (0.2, 0.4)), verdict="undecided", decided_by="more texts")
    assert disagreements(ours, [made(tmp_path / "b", findings=(few,))]) == []
