"""`workbench demo`: what is inside small language models, in eleven questions, offline.

Each stop asks one question and answers it by one finding, with a small picture and a command to go
on with. Five stops are computed here, as normal runs that begin while earlier stops are read; the
others show built-in results. At the end is one report, which reads like a short paper. `--all` runs
every experiment instead (`demo_all`). Costs: about a minute on two cores, mostly probes; the second
time some seconds.
"""

import sys
import webbrowser
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from textwrap import wrap
from typing import Any

from workbench.cli import output, pictures
from workbench.core import machine
from workbench.core.findings import percent
from workbench.runs.run import Run

REPORT = "demo.html"
TITLE = "Inside small language models"
ABSTRACT = (
    "Small models, BERT, GPT, ELMo, T5 and four others, were trained for a few minutes on "
    "`primer`, a corpus of simple English sentences. Questions about them are answered here, each "
    "by one analysis of Workbench on held-out sentences; every effect is tested against a "
    "baseline. Any other model and corpus can be examined in the same way: the commands are below "
    "each answer."
)
WIDEST = 100  # characters of a line
INDENT = "  "
MOST_CURVES = 4  # in a picture
MIN_WORDS = 9  # of a text in a picture, its special pieces included
AHEAD = 2  # runs under way at the same time


@dataclass(frozen=True)
class Computed:
    """A run that the demo computes."""

    experiment: str
    models: tuple[str, ...] = ()
    corpora: tuple[str, ...] = ("primer",)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Stop:
    """A question, the runs that answer it, and how to go on.

    Args:
        question: The heading.
        lead: What is looked at, and how; for the report.
        runs: The run to compute, or the names of built-in results.
        picture: Draws the runs as lines of text.
        go_on: What to do next with one's own model or text, as a command.
        measure: The measure of the finding that answers ("": the first decided finding).
        figure: The figure of the report ("": the one of the first finding).
    """

    question: str
    lead: str
    runs: Computed | tuple[str, ...]
    picture: Callable[[Sequence[Run]], list[str]]
    go_on: str
    measure: str = ""
    figure: str = ""


# --- pictures -------------------------------------------------------------------------------------


def _tags(runs: Sequence[Run]) -> list[str]:
    tags = runs[0].tables["tags"]
    tags = tags[tags["layer"] == "upos"]
    shares = tags["count"] / tags["count"].sum()
    rows = [(tag, share, "") for tag, share in zip(tags["tag"][:6], shares, strict=False)]
    return pictures.side_by_side(pictures.bars(rows, shares.max(), length=12), 3)


def _accuracies(runs: Sequence[Run]) -> list[str]:
    rows = []
    for run in runs:
        scores = run.tables["scores"].set_index("measure").loc["accuracy"]
        rows.append(
            (
                run.spec.models[0].name,
                scores["model"],
                f"(trigrams: {100 * scores['trigram']:.0f} %)",
            )
        )
    return pictures.side_by_side(pictures.bars(rows, length=10))


def _roles(runs: Sequence[Run]) -> list[str]:
    return pictures.head_roles(runs[0].tables["heads"])


def _pruned(runs: Sequence[Run]) -> list[str]:
    curve = runs[0].tables["curve"]
    curve = curve[(curve["metric"] == "accuracy") & (curve["seed"] == curve["seed"].min())]
    orders = {"ablation": "by ablation", "random": "at random"}
    lines = []
    for order, name in orders.items():
        is_order = (curve["method"] == order) & (curve["rescored"] == (order != "random"))
        rows = curve[is_order].sort_values("heads_removed")
        if not rows.empty:
            ends = f"{percent(rows['value'].iloc[0])} to {percent(rows['value'].iloc[-1])}"
            removed = rows["heads_removed"].iloc[-1]
            lines.append(
                f"accuracy  {pictures.sparkline(rows['value'].tolist())}  {ends}, "
                f"0 to {removed} heads removed {name}"
            )
    return lines


def _by_layer(runs: Sequence[Run]) -> list[str]:
    means = runs[0].tables["means"]
    is_curve = (means["mode"] == "layer") & (means["encoder"] == "model") & ~means["control"]
    lines = pictures.curves(means[is_curve], "task", "mean")
    return pictures.side_by_side(lines[:MOST_CURVES])


def _tuned(runs: Sequence[Run]) -> list[str]:
    rows = [
        (f"{row.task}, {way}", float(score), f"({row.metric})" if way == "frozen" else "")
        for row in runs[0].tables["delta"].itertuples()
        for way, score in (("frozen", row.frozen), ("fine-tuned", row.tuned))
    ]
    return pictures.side_by_side(pictures.bars(rows, length=10))


def _scored_text(runs: Sequence[Run]) -> list[str]:
    """Return the surest right prediction in a text of some words."""
    examples = runs[0].tables["examples"]
    texts = examples[examples["method"] == "integrated-gradients"].groupby("text")
    long = texts.filter(lambda text: len(text) >= MIN_WORDS)
    right = long[long["predicted"] == long["gold"]]
    text = right[right["text"] == right.loc[right["probability"].idxmax(), "text"]]
    shown = text[~text["fixed"] | (text["word"] == "[MASK]")]
    words, scores = shown["word"].replace("[MASK]", "____").tolist(), shown["score"].tolist()
    predicted, probability = text["predicted"].iloc[0], text["probability"].iloc[0]
    best = words[scores.index(max(scores))]
    return [
        *pictures.scored_words(words, scores),
        f"____ is “{predicted}” (probability {probability:.2f}), most of all because of “{best}”, "
        "by integrated gradients",
    ]


def _prompts(runs: Sequence[Run]) -> list[str]:
    scores = runs[0].tables["scores"]
    scores = scores[scores["calibration"] == "contextual"]
    rows = [(row.prompt, float(row.accuracy), "") for row in scores.itertuples()]
    return pictures.side_by_side(pictures.bars(rows, length=10))


def _smaller(runs: Sequence[Run]) -> list[str]:
    points = runs[0].tables["points"]
    points = points[(points["order"] == "best") & (points["metric"] == "loss")]
    rows = [
        (f"{row.method}, {row.amount}", row.disk / points["disk"].max(), f"loss {row.value:.2f}")
        for row in points.itertuples()
    ]
    return pictures.side_by_side(pictures.bars(rows, length=10))


def _bits(runs: Sequence[Run]) -> list[str]:
    text = runs[0].tables["text"].sort_values("bits_per_character")
    found = []
    for kind, part in text.groupby("kind", sort=False):
        best = [f"{row.model} {row.bits_per_character:.2f}" for row in [*part.itertuples()][:3]]
        which = f", the best {len(best)} of {len(part)}" if len(part) > len(best) else ""
        found.append(f"{kind}{which}: {', '.join(best)}")
    return found


def _loss(runs: Sequence[Run]) -> list[str]:
    loss = runs[0].tables["curves"]["loss"].dropna().tolist()
    every = max(1, len(loss) // 40)
    return [
        f"training loss  {pictures.sparkline(loss[::every])}  {loss[0]:.2f} to {loss[-1]:.2f} nats"
    ]


# --- the stops ------------------------------------------------------------------------------------

STOPS = (
    Stop(
        "What does the corpus hold?",
        "The models are trained and examined on `primer`, a corpus of simple English sentences "
        "that is built in, with nine layers of annotation.",
        Computed("describe"),
        _tags,
        "workbench run describe --corpus FILE",
        figure="tags",
    ),
    Stop(
        "How well do BERT, GPT, ELMo and T5 predict?",
        "Each model predicts the pieces of held-out sentences, as in its training. The baseline is "
        "a trigram model of the same training text, which knows at most the two pieces on each "
        "side, and for GPT only the two before.",
        tuple(f"trigram-mini-{name}" for name in ("bert", "gpt", "elmo", "t5")),
        _accuracies,
        "workbench run trigram --model FOLDER --corpus FOLDER",
    ),
    Stop(
        "What do the attention heads of BERT do?",
        "Each head is tested for roles: whether it attends to a fixed offset, follows a syntactic "
        "relation beyond every fixed offset, or attends to rare words, to separators or to the "
        "first position.",
        ("heads-mini-bert",),
        _roles,
        "workbench run heads --model FOLDER --corpus FILE",
    ),
    Stop(
        "Which heads can go?",
        "Heads are removed one after another, the least important first, and the model is scored "
        "on other texts after each step.",
        ("head-pruning-mini-bert",),
        _pruned,
        "workbench run head-pruning --model FOLDER --corpus FILE",
    ),
    Stop(
        "What do the layers of BERT know?",
        "Probes, small classifiers, read linguistic labels from the states of each layer. What "
        "they read counts where it is more than the most frequent label, static vectors and a "
        "model with random weights give.",
        Computed(
            "edge-probing",
            ("mini:bert",),
            settings={
                "tasks": ("pos", "constituents", "dependencies", "coreference"),
                "modes": ("lexical", "layer"),
                "effort": "quick",
                "max_sentences": 600,
                "control_tasks": False,
                "half_data_check": False,
            },
        ),
        _by_layer,
        "workbench run edge-probing --model FOLDER --corpus FILE",
        figure="curves",
    ),
    Stop(
        "Frozen or fine-tuned?",
        "The same tasks are learned twice: by a classifier on the frozen model, and by fine-tuning "
        "all of its weights.",
        ("frozen-vs-finetuned-mini-bert",),
        _tuned,
        "workbench run frozen-vs-finetuned --model FOLDER --corpus primer",
    ),
    Stop(
        "Why this prediction?",
        "Attribution methods score each word by its part in a prediction. A method is faithful if "
        "the prediction falls without the words that it scores highest, and stays with them alone.",
        Computed(
            "attribution", ("mini:bert",), settings={"max_predictions": 15, "random_models": 1}
        ),
        _scored_text,
        "workbench run attribution --model FOLDER --corpus FILE",
        "methods faithful beyond random orders",
        "examples",
    ),
    Stop(
        "What does a prompt teach GPT?",
        "Texts are labelled by the word that GPT finds more probable, without and with labelled "
        "texts in front of them. Random labels, other texts and other words say what is format.",
        Computed(
            "few-shot",
            ("mini:gpt",),
            ("primer/sentiment",),
            {
                "max_sentences": 60,
                "seeds": (0, 1),
                "shots": (2,),
                "templates": ("{text} It was {label}.",),
                "label_words": ("negative=sad; positive=happy",),
                "orders": 2,
                "heads": 0,
                "attributed": 0,
            },
        ),
        _prompts,
        "workbench run few-shot --model FOLDER --corpus FILE",
    ),
    Stop(
        "What can be cut from BERT?",
        "Neurons of the feed-forward layers are removed, those with the smallest weights first. "
        "The smaller models are saved, opened and measured next to the original.",
        Computed(
            "compress",
            ("mini:bert",),
            settings={
                "max_sentences": 60,
                "methods": ("neurons",),
                "amounts": (0.25, 0.5),
                "combined": False,
                "random_orders": 0,
                "rounds": 5,
                "max_pairs": 0,
                "inside": False,
                "keep": 0.9,
            },
        ),
        _smaller,
        "workbench compress --model FOLDER --corpus FILE --keep 90%",
        "loss on masked pieces of the smallest model",
    ),
    Stop(
        "Which of eight models predicts one text best?",
        "Bits per character of the same sentences, which models with different pieces can be "
        "compared by; apart by what a model sees: the left, both directions, or both sides.",
        ("family-mini",),
        _bits,
        "workbench run family --model FOLDER --model FOLDER --corpus FILE",
    ),
    Stop(
        "Does a small model of your own learn?",
        "A small GPT is trained from random weights.",
        ("train-primer",),
        _loss,
        "workbench train gpt --corpus FILE --time-budget 5m",
    ),
)


# --- the tour -------------------------------------------------------------------------------------


def stops() -> tuple[Stop, ...]:
    """Return the stops whose experiments are installed; a note names each of the others."""
    from workbench.experiment.definition import EXPERIMENTS
    from workbench.runs.run import builtin_names

    there = builtin_names()
    found = []
    for stop in STOPS:
        is_there = (
            stop.runs.experiment in EXPERIMENTS
            if isinstance(stop.runs, Computed)
            else all(name in there for name in stop.runs)
        )
        if is_there:
            found.append(stop)
        else:
            output.note(f"Left out, since its analysis is not installed: {stop.question}")
    return tuple(found)


def tour(json: bool = False, open_report: bool = False) -> None:
    """Answer the questions one after another, and write the report.

    Args:
        json: Print one JSON object instead of the story.
        open_report: Open the report in a browser.
    """
    from workbench.runs.processes import starter

    starter.begin()
    planned = stops()
    if not json:
        print(f"{TITLE}: {len(planned)} stops, about a minute. Nothing leaves this machine.")
    found: list[Sequence[Run]] = []
    for number, (stop, runs) in enumerate(_answered(planned), start=1):
        if not json:
            before = "" if number == 1 else "\n"
            output.out.print(f"{before}{number} of {len(planned)}: {stop.question}", style="bold")
            sys.stdout.flush()
        found.append(list(runs))
        if not json:
            _tell(stop, found[-1])
    path = _report(planned, found)
    if json:
        output.print_json(_as_data(planned, found, path))
    else:
        opened = "" if open_report else " (workbench demo --open opens it)"
        print(f"\nThe report: {path}{opened}. To go on in a browser: workbench app")
    if open_report:
        webbrowser.open(path.resolve().as_uri())


def _answered(planned: Sequence[Stop]) -> Iterator[tuple[Stop, Iterator[Run]]]:
    """Yield each stop with its runs, which are awaited when they are read.

    The next computed runs begin ahead; those under way are cancelled after an error.
    """
    from workbench.runs.builtin import builtin_run

    waiting = iter([stop.runs for stop in planned if isinstance(stop.runs, Computed)])
    ahead: deque[Run] = deque()

    def computed() -> Iterator[Run]:
        if not ahead:  # the first one has the cores for itself, so that it is there soon
            ahead.append(_begun(next(waiting)))
        _await(ahead[0])
        yield ahead.popleft()
        ahead.extend(map(_begun, islice(waiting, AHEAD - len(ahead))))

    try:
        for stop in planned:
            runs = stop.runs
            yield stop, computed() if isinstance(runs, Computed) else map(builtin_run, runs)
    finally:
        cancel(ahead, "workbench demo")


def begin(
    experiment: str,
    models: Sequence[str],
    corpora: Sequence[str],
    settings: Mapping[str, Any],
    *,
    share: bool = False,
) -> Run:
    """Start a run, or return the one on disk."""
    with output.progress("preparing the run"):
        from workbench.runs.api import begun
        from workbench.runs.request import make_request

        return begun(make_request(experiment, models, corpora, dict(settings)), share=share)


def cancel(runs: Iterable[Run], command: str) -> None:
    """Cancel the runs under way after a stop failed or was cancelled; say how to go on."""
    if under_way := [run for run in runs if run.status.under_way]:
        from workbench.runs.launch import end

        end(under_way)
        output.note(f"Continue the demo with: {command}")


def _begun(run: Computed) -> Run:
    return begin(run.experiment, run.models, run.corpora, run.settings, share=True)


def _await(run: Run) -> None:
    """Wait for a run; its progress is shown in a terminal only."""
    from workbench.runs.launch import follow
    from workbench.runs.run import require_finished
    from workbench.runs.time_left import progress_line

    with output.err.status("starting") as shown:
        for event in follow(run):
            if event["kind"] == "progress":
                shown.update(progress_line(event))
    require_finished(run)


def _tell(stop: Stop, runs: Sequence[Run]) -> None:
    """Print the finding of a stop, its picture, and how to go on."""
    from workbench.drawing.sanitize import visible
    from workbench.report.paper import answers

    finding = answers(runs, stop.measure)[0]
    claim = f"{finding.claim} [{finding.badge}]" if finding.badge else finding.claim
    width = min(output.out.width, WIDEST) - len(INDENT)
    lines = [
        *wrap(visible(claim), width),
        *(visible(line, marks=True) for line in stop.picture(runs)),
        _way_on(stop, runs),
    ]
    print("\n".join(f"{INDENT}{line}" for line in lines), flush=True)


def _way_on(stop: Stop, runs: Sequence[Run]) -> str:
    """Return the command to go on with; of a built-in result, the one that computes it again."""
    if isinstance(stop.runs, Computed):
        return f"> {stop.go_on}"
    facts = runs[0].provenance
    return f"built-in result, computed in {facts['seconds']:.0f} s by: {facts['command']}"


def _report(planned: Sequence[Stop], found: Sequence[Sequence[Run]]) -> Path:
    with output.err.status("writing the report"):
        from workbench.report.paper import Chapter, write_paper

        chapters = [
            Chapter(stop.question, stop.lead, runs, stop.go_on, stop.measure, stop.figure)
            for stop, runs in zip(planned, found, strict=True)
        ]
        return write_paper(chapters, machine.runs() / REPORT, TITLE, ABSTRACT)


def _as_data(planned: Sequence[Stop], found: Sequence[Sequence[Run]], path: Path) -> dict[str, Any]:
    from workbench.report.paper import answers

    return {
        "stops": [
            {
                "question": stop.question,
                "finding": answers(runs, stop.measure)[0].claim,
                "runs": [run.name for run in runs],
                "built_in": runs[0].is_builtin,
            }
            for stop, runs in zip(planned, found, strict=True)
        ],
        "runs": [run.as_data() for runs in found for run in runs],
        "report": str(path),
    }
