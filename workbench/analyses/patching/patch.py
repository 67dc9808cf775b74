"""Activation patching: which states, heads and MLPs carry what a counterfactual text destroys.

    found = patch(model, "The girls [MASK] tall.", "The girl [MASK] tall.")
    print(found)                  # a heat map: layers by words
    found.table                   # value and effect of every restored activation

The model reads the corrupt text, and in each pass one activation is that of the clean text. The
effect is the share of the difference between the two texts that this restores: 0 is the corrupt
text's number, 1 the clean one's (Vig et al. 2020, Meng et al. 2022, Wang et al. 2023). Costs: a
pass for each text, and for each layer and word, or each head, a row of a batch through the layers
above.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from workbench.analyses.patching.alignment import By, PatchUnit, paired, word_of
from workbench.analyses.predictions.explained import prediction_of, target_of
from workbench.analyses.predictions.prediction import Prediction
from workbench.analyses.predictions.results import SHOWN, printable
from workbench.analyses.predictions.target import Measure, Target
from workbench.analyses.predictions.waiting import counted
from workbench.core.arrays import Floats
from workbench.core.display import Displayed, figure_by
from workbench.core.errors import WorkbenchError
from workbench.core.findings import decimal
from workbench.core.head_names import EMBEDDINGS, FIRST, state_number
from workbench.core.public import public, require_choice
from workbench.corpora.markers import beside_markers
from workbench.corpora.typed import readable, word_index
from workbench.engine.batch import Pieces
from workbench.engine.model import Model
from workbench.models.interventions.patching import (
    Activations,
    OnProgress,
    Passing,
    Patch,
    PatchPoints,
    Point,
    What,
    activations,
    first_order,
    patch_points,
    patched,
    recorded_base,
)

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure
    from spacy.tokens import Doc

Method = Literal["exact", "gradient"]
Metric = Callable[[Tensor], Tensor]  # [rows, choices] -> [rows]
# A smaller difference between the texts, relative to the larger number, is not divided by.
SMALLEST = 1e-3
MARGIN = 0.1  # nats between the two texts from which a model distinguishes them
WIDE = 100  # characters of a printed row
LAYER = 2 + len(EMBEDDINGS)  # characters of the names of layers
CELL = 5  # least characters of its cells


@dataclass(frozen=True)
class OwnTarget(Target):
    """The number of a function of the logits."""

    metric: Metric = lambda logits: logits[:, 0]

    def value(self, logits: Tensor) -> Tensor:
        found = self.metric(logits)
        if not isinstance(found, Tensor) or tuple(found.shape) != (len(logits),):
            shape = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise WorkbenchError(
                f"the metric returns {shape} for logits of {list(logits.shape)}.",
                code="setting-invalid",
                remedy="Return one number for each row: a tensor of [rows] from [rows, choices].",
            )
        return found


class Cell(NamedTuple):
    """What one patched pass restores: a point of the model, at the pieces of a unit."""

    point: Point
    unit: PatchUnit
    head: int = -1  # -1: not a head


@dataclass(frozen=True, eq=False)
class PatchEffects:
    """The number of the target in every patched pass, and in the two texts."""

    cells: tuple[Cell, ...]  # in the order of a pass; units without a counterpart included
    values: Floats  # [cells], NaN where nothing can be restored
    clean: float
    corrupt: float
    notes: tuple[str, ...] = ()

    @property
    def difference(self) -> float:
        """How much there is to restore."""
        return self.clean - self.corrupt

    @property
    def is_restorable(self) -> bool:
        """Whether the two texts differ enough to divide by their difference."""
        largest = max(abs(self.clean), abs(self.corrupt), 1.0)
        return abs(self.difference) > SMALLEST * largest

    @property
    def effects(self) -> Floats:
        """The restored share of the difference; NaN if the texts do not differ.  # [cells]"""
        if not self.is_restorable:
            return np.full(len(self.values), np.nan)
        return (self.values - self.corrupt) / self.difference


def patch_effects(
    clean: Prediction,
    corrupt: Prediction,
    target: Target,
    what: What = "states",
    *,
    by: By | None = None,
    method: Method = "exact",
    on_progress: OnProgress | None = None,
) -> PatchEffects:
    """Restore every activation of one kind in a corrupt text, one at a time.

    Both predictions are of one model and of one kind, such as two of `prediction.of_word`. The
    result has a cell for each point of the model (a layer of a stack, its attention or MLP) and
    each unit of this stack; of heads also for each head. Cells of units without a counterpart have
    the value NaN. `effects` is NaN if the texts do not differ (`is_restorable`): this function does
    not raise then.

    Args:
        clean: The prediction whose activations are restored, and whose number is an effect of 1.
        corrupt: The prediction that is patched; its number is an effect of 0.
        target: The number, from the logits of either prediction.
        what: `states` (layer 0 is before the first block), `heads`, `mlps` or `attentions` (layers
            are blocks, from 0).
        by: `word`, `piece`, or `all` pieces of a stack together (default: `all` for heads, else
            `word`).
        method: `exact`, or to first order by one `gradient` for all cells.
        on_progress: Called with the number of patched texts that are computed.

    Raises:
        WorkbenchError: The texts cannot be aligned, or the model has no such activations.
    """
    _require_alike(clean, corrupt)
    opened = open_points(corrupt, what)
    require_choice("method", method, Method)
    by = by or ("all" if what == "heads" else "word")
    units, notes = paired(clean, corrupt, by, opened.is_recurrent)
    recorded: Activations = activations(opened, lambda: _pass(opened, clean))
    cells = list(_cells(opened, units))
    patches = {
        n: Patch(
            cell.point,
            cell.unit.positions,
            cell.unit.sources,
            None if cell.head < 0 else cell.head,
        )
        for n, cell in enumerate(cells)
        if cell.unit.is_paired
    }
    chosen, keeps = list(patches.values()), corrupt.head is not None

    def run(n_rows: int, here: Passing | None) -> Tensor:
        return _numbers(corrupt, target, n_rows, here)

    values = np.full(len(cells), np.nan)
    numbers = _number(clean, target), _number(corrupt, target)
    if method == "gradient":
        found = first_order(opened, recorded, chosen, run, keeps=keeps)
        values[list(patches)] = found.numpy()
    else:
        there = activations(opened, lambda: _pass(opened, corrupt))
        values[list(patches)] = numbers[1]
        # what both texts share restores nothing: a causal model's states before the first change
        patches = {n: p for n, p in patches.items() if _changes(opened, recorded, there, p)}
        n_shared = len(chosen) - len(patches)
        base = recorded_base(opened, lambda: _pass(opened, corrupt))
        found = patched(
            opened, base, recorded, list(patches.values()), run, _longest(corrupt), keeps=keeps,
            on_progress=None if on_progress is None else lambda n: on_progress(n_shared + n),
        )  # fmt: skip
        values[list(patches)] = found.numpy()
    return PatchEffects(tuple(cells), values, *numbers, tuple(notes))


def open_points(prediction: Prediction, what: What = "states") -> PatchPoints:
    """Where a model's activations are restored, for predictions like this one."""
    require_choice("what", what, What)
    return patch_points(prediction.model, what, prediction.text.unseen is not None)


def _cells(points: PatchPoints, units: Sequence[PatchUnit]) -> Iterator[Cell]:
    for point in points.points:
        own = [unit for unit in units if unit.stack == point.stack]
        for head in range(points.heads[point]) if point in points.heads else [-1]:
            for unit in own:
                yield Cell(point, unit, head)


def _changes(points: PatchPoints, source: Activations, there: Activations, patch: Patch) -> bool:
    """Whether a patch changes any number of the text."""
    first = 1 if points.is_recurrent else 0  # ELMo's layers begin with the text's start
    at, of = ([n + first for n in each] for each in (patch.positions, patch.sources))
    for (point, stream), states in there.items():
        if point == patch.point:
            old, new = states[0, at], source[point, stream][0, of]
            if patch.head is not None:
                old, new = old[:, patch.head], new[:, patch.head]
            if not torch.equal(old, new):
                return True
    return False


def _number(prediction: Prediction, target: Target) -> float:
    """The number of a prediction without a patch."""
    with torch.no_grad():
        return float(target.value(prediction.logits())[0])


def _pass(points: PatchPoints, prediction: Prediction) -> object:
    """One pass over the text of a prediction; of ELMo its layers."""
    if points.is_recurrent:
        return prediction.model.states_with_ends(prediction.text)
    return prediction.logits()


def _numbers(prediction: Prediction, target: Target, n_rows: int, here: Passing | None) -> Tensor:
    """The number of each row of a patched pass.  # [rows]"""
    rows = [0] * n_rows
    text = prediction.text.take(rows)
    if not prediction.mixes_layers or here is None:
        written = None if prediction.target is None else prediction.target.take(rows)
        return target.value(prediction.logits(text, written))
    patching = here

    def states(text: Pieces) -> Sequence[Tensor]:
        """What the task head reads: all layers as they were passed on."""
        prediction.model.states(text)
        layers = patching.states[prediction.model.stacks[0].name]
        return [layer[:, : text.ids.shape[1]].expand(n_rows, -1, -1) for layer in layers]

    return target.value(prediction.head_logits(states, text))


def _longest(prediction: Prediction) -> int:
    written = 0 if prediction.target is None else prediction.target.ids.shape[1]
    return max(prediction.text.ids.shape[1], written)


def _require_alike(clean: Prediction, corrupt: Prediction) -> None:
    if clean.model is not corrupt.model:
        raise WorkbenchError(
            f"the texts are read by two models, {clean.model.name} and {corrupt.model.name}.",
            code="setting-invalid",
            remedy="Make both predictions with one model.",
        )
    if clean.kind != corrupt.kind:
        raise WorkbenchError(
            f"the texts have predictions of two kinds, {clean.kind} and {corrupt.kind}.",
            code="texts-not-aligned",
            remedy="Hide a word in both texts or in neither.",
        )


# --- two texts ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Patching(Displayed):
    """The effect of every restored activation of a model on one prediction.

    `table` has a row for each: `stack`, `kind` of attention (of heads and attentions), `layer` and
    `head`; unless all pieces are restored together, `position` (the first piece in the corrupt
    text; -1: only in the clean text), `word` (index in the corrupt text; -1: none), and `corrupt`
    and `clean`, the texts there; then `value`, the number of the patched pass, and `effect`, the
    restored share of the difference of the two texts. Both are NaN for words without a counterpart.

    Layers of states count from 0 before the first block; layers of heads, MLPs and attentions are
    blocks from 0.

    Example:
        >>> model = wb.load("mini:bert", device="cpu")
        >>> found = wb.patch(model, "The girls [MASK] tall.", "The girl [MASK] tall.")
        >>> found.effects["encoder"].shape  # embeddings and 4 layers, by words and special pieces
        (5, 7)
    """

    model: str
    clean: str
    corrupt: str
    what: What
    target: str  # as it is shown
    against: str  # "": none
    measure: Measure
    found: PatchEffects
    notes: tuple[str, ...] = ()
    is_distinguished: bool = True  # whether the texts differ enough for shares to say something

    @property
    def clean_value(self) -> float:
        """The number of the clean text: an effect of 1."""
        return self.found.clean

    @property
    def corrupt_value(self) -> float:
        """The number of the corrupt text: an effect of 0."""
        return self.found.corrupt

    @cached_property
    def table(self) -> "pd.DataFrame":
        """One row for each restored activation."""
        import pandas as pd

        rows = [_row(cell) for cell in self.found.cells]
        return pd.DataFrame(rows).assign(value=self.found.values, effect=self.found.effects)

    @property
    def effects(self) -> Mapping[str, Floats]:
        """The effects as arrays by stack, or by stack and kind of attention (`decoder.cross`).

        # [layers, units]; of heads [layers, heads], and of heads by unit [layers, heads, units]
        """
        grids: dict[str, list[Floats]] = {}
        effects, at = self.found.effects, 0
        for point, n_heads, n_units in _shapes(self.found.cells):
            shape = [n for n, of in ((n_heads, "heads"), (n_units, "units")) if n]
            size = int(np.prod(shape))
            name = f"{point.stack}.{point.kind}" if point.kind else point.stack
            grids.setdefault(name, []).append(effects[at : at + size].reshape(shape))
            at += size
        return {name: np.stack(layers) for name, layers in grids.items()}

    @property
    def label(self) -> str:
        """The explained choice, or the two choices, in quotes."""
        rather = f" rather than {self.against!r}" if self.against else ""
        return f"{self.target!r}{rather}"

    def figure(self) -> "Figure":
        """Draw the effects: layers by words, or layers by heads.

        Returns:
            A Plotly figure; its title names the largest effect.

        Example:
            >>> model = wb.load("mini:bert", device="cpu")
            >>> found = wb.patch(model, "The girls [MASK] tall.", "The girl [MASK] tall.")
            >>> found.figure().layout.title.text
            "The state of “girls” (for “girl”) in layer 1 restores 99 % of 'were' rather than 'was'"
        """
        return figure_by(
            "workbench.analyses.patching.figures.patching:effects",
            self.table,
            self.what,
            self.label,
            self.is_distinguished,
        )

    def as_dict(self) -> dict[str, Any]:
        """Texts, target, numbers, the rows of the table, and notes, as JSON has them."""
        rows = [
            {key: None if value != value else value for key, value in row.items()}
            for row in self.table.to_dict("records")
        ]
        return {
            "model": self.model,
            "clean": self.clean,
            "corrupt": self.corrupt,
            "what": self.what,
            "target": self.target,
            "against": self.against,
            "measure": self.measure,
            "clean_value": self.clean_value,
            "corrupt_value": self.corrupt_value,
            "is_distinguished": self.is_distinguished,
            "rows": rows,
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        """The numbers of both texts, and the effects: layers by words, or by heads."""
        said = [
            f"{self.model}: {printable(self.label)}, effects of restored {self.what}",
            f"  clean   {self.clean_value:+.3f}  {printable(self.clean[:SHOWN])}",
            f"  corrupt {self.corrupt_value:+.3f}  {printable(self.corrupt[:SHOWN])}",
        ]
        return "\n".join(
            [*said, *_grid_lines(self.table, self.what), *(f"  Note: {n}" for n in self.notes)]
        )


@public
def patch(
    model: Model,
    clean: "str | Doc",
    corrupt: "str | Doc",
    target: str | int | None = None,
    against: str | int | None = None,
    *,
    what: What = "states",
    by: By | None = None,
    word: str | int | None = None,
    position: int | str | None = None,
    second: "str | Doc | None" = None,
    corrupt_second: "str | Doc | None" = None,
    measure: Measure | None = None,
    metric: Metric | None = None,
    method: Method = "exact",
    on_progress: OnProgress | None = None,
) -> Patching:
    """Restore activations of a clean text in a corrupt one, one at a time (activation patching).

    The prediction is that of `wb.attribute`: a hidden word (`[MASK]`, `<mask>`, `___`, or `word`),
    a label, the next piece, or a piece that an encoder-decoder writes.

    Args:
        model: A `Model` that predicts.
        clean: A text, or a Doc: the one whose prediction is explained.
        corrupt: Its counterfactual, such as the same text with one word exchanged.
        target: The explained choice: a word, a class, or its index (default: the most probable one
            for the clean text).
        against: A second choice, whose number is subtracted (default: the most probable one for the
            corrupt text; if it is the target, none).
        what: The activations: `states` of layers, outputs of `heads`, `mlps` or `attentions`.
        by: `word`, `piece`, or `all` pieces together (default: `all` for heads, else `word`).
        word: A word of the clean text to hide and predict, or its index; in the corrupt text its
            counterpart is hidden. For a head that tags words: the word whose tag is explained.
        position: Which of several predictions, as in `wb.attribute`. What a model has written
            before is that of the clean text, in both.
        second: The second text of a pair, for tasks of two texts.
        corrupt_second: The second text of the corrupt pair (default: `second`).
        measure: `logit`, `log-probability` or `probability` (default: `logit` for two choices, else
            `log-probability`, because a logit alone has no scale that two texts share).
        metric: A function of your own instead of a target: from logits, [rows, choices], to a
            number for each row.
        method: `exact` (default), or `gradient`: to first order, by one pass forward and backward
            for all activations (attribution patching). It is wrong where a softmax saturates, so
            compute the largest effects again exactly.
        on_progress: Function that is called with the number of patched texts that are computed
            (default: a bar after two seconds).

    Returns:
        A `Patching`: its `table`, `effects` as arrays, `clean_value` and `corrupt_value`;
        `figure()` draws the effects. Where the two texts differ by less than 0.1 nats, shares say
        little: a note says so, and `is_distinguished` is False.

    Raises:
        WorkbenchError: The texts cannot be aligned, the target has (nearly) the same number for
            both, or the model has no such activations.

    Example:
        >>> model = wb.load("mini:gpt", device="cpu")
        >>> found = wb.patch(model, "The girls", "The girl", "were", "was", what="heads")
        >>> found.effects["decoder.causal"].shape
        (4, 4)
    """
    docs = readable(clean, "clean text"), readable(corrupt, "corrupt text")
    if word is not None:
        docs = beside_markers(model, docs[0]), beside_markers(model, docs[1])
    one, notes = prediction_of(model, docs[0], word=word, second=second, position=position)
    hidden = word
    if word is not None:
        hidden = word_of(*docs, word_index(docs[0], word))
    other, more = prediction_of(
        model,
        docs[1],
        word=hidden,
        second=second if corrupt_second is None else corrupt_second,
        position=position,
        so_far=one.so_far,
    )
    with counted(on_progress, "patching") as done:
        return patch_predictions(
            one, other, target, against, what=what, by=by, measure=measure, metric=metric,
            method=method, notes=[*notes, *more], on_progress=done,
        )  # fmt: skip


def patch_predictions(
    clean: Prediction,
    corrupt: Prediction,
    target: str | int | None = None,
    against: str | int | None = None,
    *,
    what: What = "states",
    by: By | None = None,
    measure: Measure | None = None,
    metric: Metric | None = None,
    method: Method = "exact",
    notes: Sequence[str] = (),
    on_progress: OnProgress | None = None,
) -> Patching:
    """`patch` for two predictions that are already made."""
    _require_different(clean, corrupt, notes)
    if metric is None:
        chosen, more = _target(clean, corrupt, target, against, measure)
    else:
        chosen, more = _own_target(metric, (target, against, measure)), []
    if method == "gradient":
        more.append("Effects are to first order: compute the largest ones again exactly.")
    found = patch_effects(
        clean, corrupt, chosen, what, by=by, method=method, on_progress=on_progress
    )
    is_own = isinstance(chosen, OwnTarget)
    if not found.is_restorable:
        raise _nothing_to_restore(
            clean,
            f"the {'metric' if is_own else chosen.measure} is (nearly) the same for both texts: "
            f"{found.clean:.4f} and {found.corrupt:.4f}",
            notes,
            "take another metric"
            if is_own
            else "name a target and another choice with against (Rather than, in the app)",
        )
    in_nats = chosen.measure != "probability" and clean.kind != "score" and not is_own
    is_distinguished = not in_nats or abs(found.difference) > MARGIN
    if not is_distinguished:
        more.append(
            f"The two texts differ by only {decimal(abs(found.difference))} nats, so shares say "
            "little: read the effects in nats (value, minus that of the corrupt text)."
        )
    elif found.difference < 0:
        more.append("The clean text has the lower number, so a positive effect lowers it.")
    names: tuple[str, ...] = (getattr(metric, "__name__", "metric"),)
    if not is_own:
        names = clean.names([chosen.choice, *([] if chosen.against is None else [chosen.against])])
    return Patching(
        clean.model.name,
        clean.doc.text,
        corrupt.doc.text,
        what,
        names[0],
        names[1] if len(names) > 1 else "",
        chosen.measure,
        replace(found, notes=()),
        tuple(dict.fromkeys([*notes, *more, *found.notes])),
        is_distinguished,
    )


def _own_target(metric: Metric, named: tuple[object, ...]) -> OwnTarget:
    if any(each is not None for each in named):
        raise WorkbenchError(
            "a metric of your own is given, and a target, against or measure, too.",
            code="option-conflict",
            remedy="Leave out one of them.",
        )
    return OwnTarget(0, metric=metric)


def _require_different(clean: Prediction, corrupt: Prediction, notes: Sequence[str]) -> None:
    """An error if the model reads the same of both texts."""
    both = [*zip(clean.inputs.values(), corrupt.inputs.values(), strict=False)]
    if not all(torch.equal(one.ids, other.ids) for one, other in both):
        return
    if clean.doc.text == corrupt.doc.text and not notes:  # a note: a part of the texts is read
        raise _nothing_to_restore(clean, "the texts are equal", notes)
    raise _nothing_to_restore(clean, "the model reads the same pieces of both texts", notes)


def _nothing_to_restore(
    clean: Prediction, what: str, notes: Sequence[str], other: str = ""
) -> WorkbenchError:
    return WorkbenchError(
        " ".join([f"{what}, so there is nothing to restore.", *dict.fromkeys(notes)]),
        code="texts-not-different",
        where=clean.model.name,
        remedy=f"Exchange a word on which the prediction depends{other and f', or {other}'}.",
    )


def _target(
    clean: Prediction,
    corrupt: Prediction,
    target: str | int | None,
    against: str | int | None,
    measure: Measure | None,
) -> tuple[Target, list[str]]:
    """The explained number, and a note if it is not that of two choices."""
    chosen = target_of(clean, target, against)
    with torch.no_grad():
        logits = corrupt.logits()[0]  # [choices]
    if clean.kind == "score":
        return Target(chosen.choice, None, measure or "logit"), []
    if len(logits) <= max(chosen.choice, chosen.against or 0):
        raise WorkbenchError(
            f"the corrupt text has {len(logits)} choices, and the target is number "
            f"{chosen.choice}.",
            code="texts-not-aligned",
            remedy="Use texts of the same number of words for an answer.",
        )
    top = int(logits.argmax())
    if chosen.against is None and top != chosen.choice:
        chosen = replace(chosen, against=top)
    notes = []
    if chosen.against is None and measure is None:
        name = corrupt.names([top])[0]
        notes.append(
            f"{printable(name)!r} is the top choice for both texts, so its "
            "log-probability is restored, not a difference of two choices."
        )
    kind: Measure = measure or ("log-probability" if chosen.against is None else "logit")
    return replace(chosen, measure=kind), notes


def _row(cell: Cell) -> dict[str, object]:
    """The columns that identify a cell."""
    point, unit = cell.point, cell.unit
    row: dict[str, object] = {"stack": point.stack}
    if point.kind:
        row["kind"] = point.kind
    row["layer"] = point.layer
    if cell.head >= 0:
        row["head"] = cell.head
    if not unit.is_whole:
        row["position"] = unit.positions[0] if unit.positions else -1
        row |= {"word": unit.word, "corrupt": unit.corrupt, "clean": unit.clean}
    return row


def _shapes(cells: Sequence[Cell]) -> Iterator[tuple[Point, int, int]]:
    """The number of heads and of units of each point; 0: not by heads, or not by units."""
    for point in dict.fromkeys(cell.point for cell in cells):
        own = [cell for cell in cells if cell.point == point]
        n_heads = len({cell.head for cell in own}) if own[0].head >= 0 else 0
        n_units = 0 if own[0].unit.is_whole else len(own) // max(n_heads, 1)
        yield point, n_heads, n_units


# --- printing -------------------------------------------------------------------------------------


def _grid_lines(table: "pd.DataFrame", what: What) -> Iterator[str]:
    """A grid for each stack and kind of attention, the last layer on top."""
    keys = [name for name in ("stack", "kind") if name in table]
    for names, own in table.groupby(keys, sort=False):
        columns, cells = _columns(own)
        layers = list(dict.fromkeys(own["layer"]))
        kept = _kept([len(name) for name in columns], cells)
        sizes = [max(len(columns[n]), CELL) for n in kept]
        yield f"  {' '.join(map(str, names))}"
        yield "  ".join(
            [
                f"{'layer':>{LAYER}}",
                *(columns[n].rjust(z) for n, z in zip(kept, sizes, strict=True)),
            ]
        )
        for layer, row in reversed(list(zip(layers, cells, strict=True))):
            shown = [_percent(row[n]).rjust(z) for n, z in zip(kept, sizes, strict=True)]
            number = state_number(layer if what == "states" else layer + FIRST)
            yield "  ".join([f"{number:>{LAYER}}", *shown])
        if len(kept) < len(columns):
            yield f"  … and {len(columns) - len(kept)} more, of smaller effects"


def _columns(table: "pd.DataFrame") -> tuple[list[str], Floats]:
    """The names of the columns of one grid, and its effects.  # [layers, columns]"""
    n_layers = table["layer"].nunique()
    first = table[table["layer"] == table["layer"].iloc[0]]
    texts = ["all pieces"] * len(first)
    if "corrupt" in table:
        texts = [
            printable(corrupt or f"({clean})")
            for corrupt, clean in zip(first["corrupt"], first["clean"], strict=True)
        ]
    if "head" in table:
        heads = [f"head {head + FIRST}" for head in first["head"]]
        by_unit = "corrupt" in table
        texts = [f"{h} {t}" if by_unit else h for h, t in zip(heads, texts, strict=True)]
    return texts, table["effect"].to_numpy().reshape(n_layers, -1)


def _kept(widths: Sequence[int], cells: Floats) -> list[int]:
    """The columns that fit into a line: those with the largest effects, in their order."""
    largest = np.nanmax(np.abs(np.nan_to_num(cells)), axis=0)  # [columns]
    kept: list[int] = []
    room = WIDE
    for n in np.argsort(-largest, kind="stable").tolist():
        room -= max(widths[n], CELL) + 2
        if room < 0:
            break
        kept.append(n)
    return sorted(kept)


def _percent(effect: float) -> str:
    return "·" if np.isnan(effect) else f"{round(100 * effect)} %"
