"""Runs made by hand, as a run's process leaves them; and text that would harm where it can."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from workbench import Run, experiments
from workbench.core.findings import Finding, Verdict
from workbench.experiment import Caveat, Table
from workbench.runs import run, spec, status
from workbench.runs.run import PROVENANCE
from workbench.runs.spec import CorpusSpec, ModelSpec, Spec

HOSTILE = {  # each must show as text, whole, in every report
    "script": "<script>alert('s')</script>",
    "end": "</script></title></style></textarea>--><img src=x onerror=alert(1)>",
    "template": "{{7*7}} ${7*7} %{y} #{7*7}",
    "markup": "<b>bold</b> & &lt;amp&gt; <a href=\"javascript:alert('a')\">link</a>",
    "quotes": "\" onmouseover=alert(1) ' ` | \\",
    "tex": "\\input{/etc/passwd} 100% $x_1^2$ ~ #1 {",
    "lines": "one\ntwo\tthree",
    "hebrew": "\u05e9\u05dc\u05d5\u05dd and \u0645\u0631\u062d\u0628\u0627",
    "formula": '=HYPERLINK("http://evil.example","x")',
}
CONTROLS = "nul\0 bell\x07 escape\x1b override\u202e isolate\u2067 end\u2029"
LONG_WORD = "long" * 500

SPLITS = Table("How much there is of each split.", ("split",))
COUNTS = Table("How often each `word` occurs.", ("word",))


def made(
    folder: Path,
    *,
    experiment: str = "counts",
    tables: Mapping[str, tuple[pd.DataFrame, Table]] | None = None,
    figures: Mapping[str, go.Figure] | None = None,
    caveats: Sequence[Caveat] = (),
    warnings: Sequence[str] = (),
    findings: Sequence[Finding] | None = None,
    state: status.State = "done",
    failure: status.Failure | None = None,
    facts: Mapping[str, Any] | None = None,
    **request: Any,
) -> Run:
    """A run's folder; by itself of an experiment that is not installed."""
    defaults: dict[str, Any] = {
        "experiment": experiment,
        "version": 1,
        "corpora": (corpus(),),
        "split": "test",
        "settings": {"max_sentences": None, "words": 5},
    }
    question = Spec(**{**defaults, **request})
    path = folder / question.name
    path.mkdir(parents=True)
    spec.write(path, question)
    tables = words_and_sizes() if tables is None else tables
    for name, (table, about) in tables.items():
        run.write_table(path, name, table, about)
    for name, figure in (figures or {}).items():
        (path / run.FIGURES).mkdir(exist_ok=True)
        (path / run.FIGURES / f"{name}.json").write_text(figure.to_json())
    if findings is not None:
        text = json.dumps([finding.as_data() for finding in findings])
        (path / run.FINDINGS).write_text(text)
    for warning in warnings:
        status.add_event(path, "warning", text=warning)
    provenance = {
        "experiment": experiment,
        "version": question.version,
        "about": "What is counted.",
        "workbench": "0.1.0",
        "python": "3.11.7",
        "platform": "Linux-6.1",
        "packages": {"torch": "2.13.0"},
        "device": question.device,
        "threads": "1",
        "started": "2026-11-21T04:33:40.599+00:00",
        "ended": "2026-11-21T04:34:45.284+00:00",
        "seconds": 64.681,
        "peak_memory_bytes": {"cpu": 432128000},
        "tables": {name: len(table) for name, (table, _) in tables.items()},
        "figures": list(figures or {}),
        "caveats": [{"text": c.text, "beside": list(c.applies_to)} for c in caveats],
        "models": [],
        "corpora": [{"name": c.name, "hash": c.hash, "notes": []} for c in question.corpora],
        "files": run.recorded(path),
        **(facts or {}),
    }
    (path / PROVENANCE).write_text(json.dumps(provenance))
    if state == "failed" and failure is None:
        failure = status.Failure("out of memory.")
    status.write(path, status.Status(state, experiment=experiment, failure=failure))
    return Run(path)


def corpus(name: str = "primer", **facts: Any) -> CorpusSpec:
    return CorpusSpec(**{"ref": name, "name": name, "hash": f"hash-of-{name}", **facts})


def model(name: str = "tiny-bert", **facts: Any) -> ModelSpec:
    given = {"ref": f"/models/{name}", "name": name, "hash": f"hash-of-{name}", "precision": "fp32"}
    return ModelSpec(**{**given, **facts})


def words_and_sizes(
    words: Sequence[str] = ("the", "dog"), more: int = 0
) -> dict[str, tuple[pd.DataFrame, Table]]:
    """Two tables."""
    counts = pd.DataFrame(
        {
            "word": list(words),
            "count": [100 - place + more for place in range(len(words))],
            "share": [1 / (place + 3) for place in range(len(words))],
        }
    )
    sizes = pd.DataFrame({"split": ["train", "test"], "docs": [12_000 + more, 10]})
    return {"sizes": (sizes, SPLITS), "words": (counts, COUNTS)}


def found(claim: str, verdict: Verdict = "supported", figure: str = "", **more: Any) -> Finding:
    """A finding about the first word of `words_and_sizes`."""
    given: dict[str, Any] = {
        "value": 100.0,
        "interval": (90.0, 110.0),
        "null": 50.0,
        "table": "words",
        "keys": {"word": "the"},
        "measure": claim.partition(" ")[0],
        "decided_by": "more words",
        **more,
    }
    return Finding(claim, verdict=verdict, figure=figure, **given)


def bars(names: Sequence[str], title: str = "") -> go.Figure:
    """A figure whose data has these names everywhere that data has names."""
    places = list(range(1, len(names) + 1))
    bar = go.Bar(y=list(names), x=places, text=list(names), orientation="h", name=title or "bars")
    figure = go.Figure([bar, go.Bar(y=list(names), x=places, orientation="h", customdata=names)])
    figure.update_layout(title=title, height=120 + 40 * len(names))
    return figure


def described(folder: Path) -> Run:
    """A run of the experiment `describe`, with all its tables: its figures are drawn again."""
    about = experiments()["describe"].tables

    tables = description(["the", "dog", *HOSTILE.values(), LONG_WORD])
    return made(
        folder,
        experiment="describe",
        split=None,
        settings={"max_sentences": 100, "max_words": 100},
        tables={name: (table, about[name]) for name, table in tables.items()},
        caveats=[
            Caveat("Only the first 100 Docs were counted.", ("sizes",)),
            Caveat("Tokens are split on white space."),
        ],
        warnings=["Two Docs were empty."],
    )


def description(words: Sequence[str]) -> dict[str, pd.DataFrame]:
    """The tables of `describe`, of which `words` is a label wherever there are labels."""
    labels = list(words)
    falling = [1000 // (place + 1) for place in range(len(labels))]
    sizes = [("train", 100, 10, 100, 5000, 900), ("test", 10, 1, 10, 500, 200)]
    lengths = [(first, first + 4, 120 - 5 * first) for first in range(1, 21, 5)]
    columns = "split docs documents sentences words types".split()
    return {
        "sizes": pd.DataFrame(sizes, columns=columns),
        "lengths": pd.DataFrame(lengths, columns=["first", "last", "count"]),
        "tags": pd.DataFrame({"layer": ["upos"] * len(labels), "tag": labels, "count": falling}),
        "relations": pd.DataFrame(
            {
                "relation": labels,
                "count": falling,
                "offset": [(-1) ** place * (place + 1) for place in range(len(labels))],
                "share": [1 / (place + 1) for place in range(len(labels))],
            }
        ),
        "labels": pd.DataFrame(
            {
                "layer": ["entities"] * len(labels) + [HOSTILE["script"]],
                "label": [*labels, "one"],
                "count": [*falling, 3],
            }
        ),
        "coreference": pd.DataFrame({"what": ["chains", "mentions"], "count": [3, 9]}),
        "classes": pd.DataFrame(
            {"label": ["topic"] * len(labels), "value": labels, "count": falling}
        ),
        "scores": pd.DataFrame(
            [("stars", 9, 1.0, 3.5, 5.0)], columns=["label", "count", "min", "mean", "max"]
        ),
        "words": pd.DataFrame(
            {"word": labels, "count": falling, "rank": range(1, len(labels) + 1)}
        ),
    }
