"""Objects as notebooks show them: a card with the sentence, the figure and the tables of a report.

Each function returns HTML that needs no network and no kernel, and without scripts lacks only the
values of marks. Its style and its ids are its own, so cards do not disturb one another. Costs: the
first rows of each table, and some tenths of a second for a figure.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import pandas as pd
from pydantic import ValidationError

from workbench.core.errors import WorkbenchError
from workbench.core.findings import Finding, capital, plural
from workbench.core.objectives import described
from workbench.corpora.layers import chains, mentions
from workbench.drawing.hover import plain
from workbench.drawing.sanitize import harmless
from workbench.drawing.sentence import arcs, marked
from workbench.drawing.shapes import STEPS
from workbench.experiment.definition import EXPERIMENTS, unmet_requirements
from workbench.models.references import facts
from workbench.report.content import Drawing, Rows, content, words_of
from workbench.report.drawn import inline, pictured
from workbench.report.format import Grid, grid
from workbench.report.html import WIDTH, fragment
from workbench.runs.compare import LETTERS

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.corpora.corpus import Corpus
    from workbench.engine.model import Model, Stack
    from workbench.runs.compare import Comparison
    from workbench.runs.run import Run, Tables

ROWS = 20  # maximum number of rows of a table
MANY_WORDS = 400  # of a text in colours
LARGE = 400_000  # characters of a figure, above which it is shown as a picture
PEEK, LONGEST = 50, 40  # Docs among which a sentence is chosen, and its words


@dataclass(frozen=True)
class Card:
    """What a notebook shows of an object."""

    name: str
    about: str = ""
    findings: Sequence[Finding] = ()
    facts: Rows = ()
    words: Sequence[tuple[str, str, str]] = ()  # each with its colour and its value
    drawn: Sequence[str] = ()  # HTML
    figure: Drawing | None = None
    image: str = ""  # the figure as PNG in base64, if it is too large for a page
    open: Sequence[Grid] = ()  # tables that are shown
    tables: Sequence[Grid] = ()  # tables that open on a click
    notes: Sequence[str] = ()
    code: str = ""

    def html(self) -> str:
        """The card, with ids of its own."""
        return fragment("notebook", f"workbench-{token_hex(6)}", card=self)


# --- what the functions of analyses return --------------------------------------------------------


def result(item: Any) -> str:
    """A result: the first line that it prints, its figure, its notes and its table."""
    name, figure = _heading(item), _figure(item)
    table = grid("table", item.table, (), ROWS)
    return Card(
        name,
        words=_coloured(getattr(item, "words_with_scores", ())),
        figure=figure,
        image="" if figure is None else _image(figure),
        open=() if figure else (table,),
        tables=(table,) if figure else (),
        notes=_notes(item),
    ).html()


def _heading(item: Any) -> str:
    return next(iter(repr(item).splitlines()), "")


def _figure(item: Any) -> Drawing | None:
    """The figure of a result; None if it has none, or nothing to draw."""
    if not hasattr(item, "figure") or not len(item.table):
        return None
    drawn = harmless(item.figure())
    title = drawn["layout"].pop("title", None) or {}
    words = title.get("text", "") if isinstance(title, Mapping) else str(title)
    return Drawing("figure", plain(words) or _what_is_drawn(item), "", "", drawn)


def _what_is_drawn(item: Any) -> str:
    """What the method `figure` draws, as its docstring says: `The top choice of each layer`."""
    said, _ = words_of(getattr(type(item), "figure", None))
    return capital(said.removeprefix("Draw ").rstrip("."))


def _image(drawing: Drawing) -> str:
    """The figure as a picture, if it is too large for a page as it is."""
    svg = inline(drawing, WIDTH)
    if svg is not None and len(svg) <= LARGE:
        return ""
    picture = pictured(drawing, "png")
    return "" if picture is None else base64.b64encode(picture).decode()


def _notes(item: Any) -> Sequence[str]:
    """Its notes as sentences, or those of the results in it."""
    notes = getattr(item, "notes", None)
    if notes is not None:
        return tuple(notes)
    return tuple(note for part in getattr(item, "results", ()) for note in part.notes)


def _coloured(words: Sequence[tuple[str, float]]) -> Sequence[tuple[str, str, str]]:
    """Words with the colours of their scores around zero, and the scores as text."""
    largest = max((abs(score) for _, score in words), default=0.0) or 1.0
    return [
        (text, f"div-{min(STEPS - 1, int((score / largest + 1) / 2 * STEPS)):02d}", f"{score:+.3f}")
        for text, score in words[:MANY_WORDS]
    ]


# --- runs, findings and tables --------------------------------------------------------------------


def run(item: "Run") -> str:
    """A run: its first finding with its verdict, the main figure, its tables and its command."""
    now = item.status
    if now.state != "done":
        failure = now.failure
        said = f"{failure.what} {failure.remedy}" if failure else ""
        state = ("state", now.state), *((("error", said),) if said else ())
        return Card(
            item.name, facts=state, notes=("Its results are shown when it is done.",)
        ).html()
    (part,) = content([item], most=ROWS).parts
    figure = part.main
    if figure is not None and part.findings and figure.title == part.findings[0].claim:
        figure = replace(figure, title="")  # it stands above
    others = ", ".join(f"`{each.name}`" for each in part.further)
    return Card(
        part.title,
        part.about,
        findings=part.findings,
        figure=figure,
        image="" if figure is None else _image(figure),
        tables=part.tables,
        notes=(f"More figures: {others} (`run.figures[NAME]`).",) if others else (),
        code=part.command,
    ).html()


def finding(item: Finding) -> str:
    """A finding: its claim, its number and its verdict."""
    return findings((item,))


def findings(items: Sequence[Finding]) -> str:
    """Findings as a table: claim, number with its interval, and verdict."""
    rows = [
        (each.claim.replace("`", ""), each.number, each.spread, each.verdict, each.decided_by)
        for each in items
    ]
    columns = ["claim", "number", "measured", "verdict", "would decide it"]
    table = pd.DataFrame(rows, columns=columns)
    shown = table.loc[:, [name for name in columns if table[name].astype(bool).any()]]
    count = plural(len(items), "finding")
    return Card(count, open=(grid("findings", shown, (), 100),) if len(items) else ()).html()


def tables(items: "Tables") -> str:
    """All tables of a run, each with its first rows."""
    return _several(f"{len(items)} tables", items)


def comparison(items: "Comparison") -> str:
    """Runs side by side: which they are, what changed, and their tables."""
    runs = tuple((letter, run.name) for letter, run in zip(LETTERS, items.runs, strict=False))
    return _several("Comparison", items, items.findings, runs)


def _several(
    name: str,
    items: Mapping[str, pd.DataFrame],
    found: Sequence[Finding] = (),
    known: Rows = (),
) -> str:
    grids = [grid(each, items[each], most=ROWS) for each in items]
    return Card(name, findings=found, facts=known, tables=grids).html()


# --- models and corpora ---------------------------------------------------------------------------


def model(item: "Model") -> str:
    """A model: its stacks and facts, what it predicts, and the experiments that it suits."""
    known = facts(item, hashed=False)
    stacks = pd.DataFrame(
        [
            (stack.name, stack.layers, _heads(item, stack), ", ".join(stack.kinds) or "none")
            for stack in item.stacks
        ],
        columns=["stack", "layers", "heads per layer", "attention"],
    )
    predicted = "; ".join(map(described, known["objectives"]))
    longest = f"{item.max_pieces:,} pieces" if item.max_pieces else "no limit"
    return Card(
        item.name,
        facts=(
            ("family", item.family),
            ("parameters", f"{item.parameters:,}"),
            ("width", f"{item.width:,}"),
            ("longest input", longest),
            ("predicts", predicted or "nothing: it has no head with trained weights"),
            ("computes", f"in {item.precision} on {item.device}"),
            *((("limits", known["limits"]),) if known["limits"] else ()),
            ("experiments", ", ".join(_experiments(known)) or "none"),
        ),
        open=(grid("stacks", stacks, ("stack",)),),
    ).html()


def _heads(item: "Model", stack: "Stack") -> int | str:
    """The heads of a layer; of a pruned model, those of the layer that has most of them."""
    if not stack.heads:
        return "none"
    return f"at most {stack.heads}" if item.n_removed_heads else stack.heads


def _experiments(known: Mapping[str, Any]) -> list[str]:
    """The experiments on one model whose requirements this model meets."""
    names = []
    for name in EXPERIMENTS:
        try:
            experiment = EXPERIMENTS[name]
            settings = experiment.settings()
        except (WorkbenchError, ValidationError):  # of another package; or a setting has no default
            continue
        least, most = experiment.models
        takes_one = least <= 1 and (most is None or most >= 1)
        if takes_one and not unmet_requirements(experiment, settings, [known]):
            names.append(name)
    return names


def corpus(item: "Corpus") -> str:
    """A corpus: its splits and layers, and a sentence with its tree and its spans."""
    doc = _example(item)
    source = "" if item.origin is None else item.origin.ref
    return Card(
        item.name,
        facts=(
            ("splits", ", ".join(item.splits) or "none"),
            ("layers", ", ".join(sorted(item.layers())) or "none"),
            *((("source", source),) if source not in ("", item.name) else ()),
        ),
        drawn=() if doc is None else tuple(_sentence(doc)),
        notes=item.notes,
    ).html()


def _example(item: "Corpus") -> "Doc | None":
    """The first Doc of moderate length that has most kinds of annotation, if there is any."""
    docs = [doc for doc in item.docs(limit=PEEK) if len(doc)]
    short = [doc for doc in docs if len(doc) <= LONGEST] or docs[:1]
    return max(short, key=_richness, default=None)


def _richness(doc: "Doc") -> int:
    return doc.has_annotation("DEP") + len(_marks(doc)) + bool(chains(doc))


def _sentence(doc: "Doc") -> list[str]:
    """The first sentence's tree, and the text with the spans of each layer."""
    shown = []
    if doc.has_annotation("DEP"):
        shown.append(arcs(next(iter(doc.sents)), None))
    elif not _marks(doc):
        shown.append(f"<p>{marked(doc.text, [], None)}</p>")
    for layer, spans in _marks(doc).items():
        places = [(span.start_char, span.end_char) for span, _ in spans]
        text = marked(doc.text, places, None, [label for _, label in spans], len(doc.text))
        shown.append(f'<p class="words"><span class="faint">{layer}</span> {text}</p>')
    return shown


def _marks(doc: "Doc") -> dict[str, list[tuple[Any, str]]]:
    """The labelled spans of the text by layer."""
    by_layer: dict[str, list[tuple[Any, str]]] = {
        layer: [(doc[each.start : each.end], each.label) for each in mentions(doc, layer)]
        for layer in ("entities", "answers", "segments")
    }
    by_layer["coreference"] = [
        (doc[each.start : each.end], str(number))
        for number, chain in enumerate(chains(doc).values(), start=1)
        for each in chain
    ]
    return {layer: spans for layer, spans in by_layer.items() if spans}
