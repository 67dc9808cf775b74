"""The tab Why? of the page Predict & explain: the words coloured by attribution, and the check.

Costs: an attribution for each change of the choices; its faithfulness, some hundred forward passes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import streamlit as st

from workbench.analyses.predictions.views import results as predict_results
from workbench.analyses.predictions.views.results import (
    ENTRIES,
    Explained,
    Side,
    prediction_at,
    target_of,
)
from workbench.analyses.predictions.views.target import named_for, shown, target_boxes
from workbench.app import glossary, selection
from workbench.app.downloads import downloads
from workbench.app.tables_and_figures import Column, draw_columns, segment, select
from workbench.app.text import errors_shown, plain
from workbench.app.text_boxes import row
from workbench.app.token_views.component import token_views
from workbench.app.token_views.views import Token, View, grid, index_in, strip
from workbench.core.findings import decimal, percent
from workbench.core.head_names import FIRST
from workbench.report.format import number

if TYPE_CHECKING:
    from workbench.analyses.attribution.agreement import Compared
    from workbench.analyses.attribution.faithfulness import Faithfulness, Randomised
    from workbench.analyses.attribution.methods import Attribution, Method
    from workbench.analyses.predictions.target import Baseline, By, Measure
    from workbench.engine.model import Model

DEFAULT = "the model's default"
STEPS = ("1024", "64", "4096")  # maximum; the first is the default, and a mini needs fewer
MEASURES = ("probability", "logit", "log-probability")
AUTO = "most faithful"  # method: the one that `agreement` chooses for the prediction
CHECKED = {
    "order": Column("order of words"),
    "comprehensiveness": Column(
        "comprehensiveness", "%+.3f", help="Probability lost without the top words. High is good."
    ),
    "sufficiency": Column(
        "sufficiency", "%+.3f", help="Probability lost with only the top words. Low is good."
    ),
    "gain": Column("gain", "%+.3f", help="Comprehensiveness minus sufficiency. High is good."),
}
_CHECK = "faithful, comprehensiveness, sufficiency"  # terms of the check
SMALL = 20_000_000  # parameters of a model that is repeated with random weights


# --- what is computed, once for each text ---------------------------------------------------------


@dataclass(frozen=True)
class Explanation(Explained):
    """What is explained, and how: the choices of the tab Why?"""

    measure: "Measure" = "probability"
    method: str = AUTO
    by: "By" = "word"
    baseline: "Baseline | None" = None  # None: the model's default
    options: tuple[tuple[str, Any], ...] = ()  # of the method


def attribution(side: Side, explained: Explanation) -> "Attribution":
    """The attribution of the target to what the model reads."""
    from workbench.analyses.attribution.methods import Attribution

    fields = _attribution(side.key, explained, side)
    return Attribution(prediction=prediction_at(side), **fields)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _attribution(
    key: tuple[str, str, tuple[int, ...]], explained: Explanation, _side: Side
) -> dict[str, Any]:
    """The fields of an `Attribution`, but not the model."""
    from workbench.analyses.attribution.methods import attribute_prediction
    from workbench.engine.forward_pass import ALONE

    prediction = prediction_at(_side)
    target = target_of(_side, explained)
    with ALONE:
        found = attribute_prediction(
            prediction,
            target,
            cast("Method", explained.method),
            baseline=explained.baseline,
            **_options(explained),
        )
    return _fields(found)


def _fields(found: "Attribution") -> dict[str, Any]:
    return {
        each.name: getattr(found, each.name) for each in fields(found) if each.name != "prediction"
    }


def faithfulness(side: Side, explained: Explanation, randomise: bool) -> "Faithfulness":
    """How faithful the map is, next to random orders, attention and, if set, random weights."""
    return _faithfulness(side.key, explained, randomise, side)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _faithfulness(
    key: tuple[str, str, tuple[int, ...]], explained: Explanation, randomise: bool, _side: Side
) -> "Faithfulness":
    from workbench.analyses.attribution.faithfulness import faithfulness
    from workbench.engine.forward_pass import ALONE

    found = attribution(_side, explained)
    twins = [_twin(_side.model.content_hash, _side.model)] if randomise else []
    with ALONE:
        return faithfulness(
            found.prediction,
            found.target,
            found,
            absence="removed",
            twins=twins,
            **_options(explained),
        )


def compared(side: Side, explained: Explanation) -> "Compared":
    """The maps of several methods, and which of them is shown at first."""
    from workbench.analyses.attribution.agreement import Compared
    from workbench.analyses.attribution.methods import Attribution

    maps, checks = _compared(side.key, replace(explained, method=AUTO, options=()), side)
    prediction = prediction_at(side)
    return Compared(tuple(Attribution(prediction=prediction, **each) for each in maps), checks)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _compared(
    key: tuple[str, str, tuple[int, ...]], explained: Explanation, _side: Side
) -> "tuple[list[dict[str, Any]], tuple[Faithfulness, ...]]":
    from workbench.analyses.attribution.agreement import compared
    from workbench.engine.forward_pass import ALONE

    prediction, target = prediction_at(_side), target_of(_side, explained)  # each waits for ALONE
    with ALONE:
        found = compared(prediction, target, explained.by, explained.baseline)
    return [_fields(each) for each in found.maps], found.checks


@st.cache_resource(max_entries=2, show_spinner=False)
def _twin(content: str, _model: "Model") -> "Model":
    """The same architecture with random weights."""
    return _model.reinitialised(0)


def _options(explained: Explanation) -> dict[str, Any]:
    """The options of a method by name."""
    return {"by": explained.by, **dict(explained.options)}


USUAL = Explanation("", "")  # what is explained at first


# --- choices --------------------------------------------------------------------------------------


def choices(side: Side) -> Explanation:
    """Draw the choices of the tab in one row."""
    from typing import get_args

    from workbench.analyses.attribution.methods import LAYER_METHODS, METHODS
    from workbench.analyses.predictions.target import Baseline

    with row("why"):
        method = select(
            "Method",
            [AUTO, *METHODS],
            "method",
            width=190,
            help="Most faithful: leave-one-out, which hides each word as What if? does; another "
            "method where it names the same word first and is faithful for several words at once, "
            "by a p-value corrected for the number of methods. Integrated gradients, occlusion and "
            "Shapley values explain what the prediction depends on. Attention methods show what "
            "the model looks at. `random` is a control.",
        )
        target, against = target_boxes(side)
        more = st.popover("More", icon=":material/tune:")
    with more:
        by = segment(
            "By",
            ["word", "piece", "segment"],
            "by",
            help="Words, the pieces that the "
            "model reads, or segments: the two texts of a pair, or sentences.",
        )
        measure = MEASURES[0]  # of a regression, the score
        if not predict_results.is_score(side):
            measure = select(
                "Measure",
                MEASURES,
                "measure",
                help="The number that is explained (default: probability). Log-probability and "
                "probability also depend on all other choices.",
            )
        baseline = select(
            "Baseline",
            [DEFAULT, *get_args(Baseline)],
            "baseline",
            help="What "
            "stands for a word that is absent: the mask piece, the mean of the "
            "embeddings, zero, or the padding piece.",
        )
        steps = select(
            "Steps",
            STEPS,
            "steps",
            help="Maximum number of steps of integrated gradients (default 1,024 here, 4,096 "
            "in Python; 64 for layer methods). Fewer are taken where fewer are enough.",
        )
    # layer methods have their own default
    is_usual = method == AUTO or (method in LAYER_METHODS and steps == STEPS[0])
    return Explanation(
        target,
        against,
        cast("Measure", measure),
        method,
        cast("By", by),
        None if baseline == DEFAULT else cast("Baseline", baseline),
        () if is_usual else (("max_steps", int(steps)),),
    )


# --- the map --------------------------------------------------------------------------------------


def show_ahead(ref: str, corpus: str) -> None:
    """Explain the example of the page before a visitor sees it."""
    from workbench.analyses.predictions.views.choices import EXAMPLE
    from workbench.analyses.predictions.views.page import usual_side

    side = usual_side(ref, EXAMPLE)
    found = compared(side, USUAL)
    faithfulness(side, _by(found.chosen.method, USUAL), randomise=True)


def why(sides: Sequence[Side]) -> None:
    """Draw the tab Why?: a map for each model, with its check."""
    explained = choices(sides[0])
    for column, side in zip(st.columns(len(sides)), sides, strict=True):
        with column, errors_shown():
            target, against = named_for(side, sides[0], explained.target, explained.against)
            _map(side, replace(explained, target=target, against=against))


def _by(method: str, explained: Explanation) -> Explanation:
    """The same, by the method that was chosen for it, with the steps of the comparison."""
    from workbench.analyses.attribution.agreement import OTHERS, STEPS

    options = (("max_steps", STEPS),) if method in OTHERS else ()
    return replace(explained, method=method, options=options)


def _map(side: Side, explained: Explanation) -> None:
    from workbench.analyses.attribution import agreement

    is_chosen, is_long, first = explained.method == AUTO, True, None
    is_costly = agreement.is_costly(prediction_at(side), explained.by)
    if not is_costly or explained.method == agreement.FIRST:
        with st.spinner("Hiding each word …"):
            first = attribution(side, _by(agreement.FIRST, explained))
        is_long = len(first.units) > agreement.LONG
    method: str = agreement.QUICK if is_costly else agreement.FIRST
    if is_chosen:
        if not is_long:
            with st.spinner("Comparing methods …"):
                method = compared(side, explained).chosen.method
        explained = _by(method, explained)
    with st.spinner(f"Computing {explained.method} …"):
        found = attribution(side, explained)
    said = found.prediction.names([found.target.choice])[0]
    against = found.target.against
    rather = f" rather than “{found.prediction.names([against])[0]}”" if against is not None else ""
    is_score = found.prediction.kind == "score"
    what = "this score" if is_score else f"“{shown(said)}”{shown(rather)}"
    st.markdown(f"**Why {what}?** · {plain(side.name)}")
    if first is not None:
        st.markdown(plain(agreement.headline(first)))
        if agreement.matters(first):
            about = side.key, explained.target, explained.against
            selection.say_first(about, "word", "leave-one-out", agreement.top_text(first))
    elif is_chosen:
        st.caption(
            "Leave-one-out, which hides each word of this text in turn, would take minutes with "
            "this model: choose it under Method to wait for it."
        )
    views = strips(found, selection.word(len(side.doc)))
    if found.by_layer is not None:
        views.append(by_layer(found))
    place = st.container()
    if is_rough(found):
        st.warning(
            "This map is no explanation: its scores miss "
            f"{percent(min(found.missed, 9.99))} of the change that they should sum to. Choose "
            "more Steps or another Baseline under More, or the method leave-one-out."
        )
        place = st.expander("Show the map nevertheless")
    with place:
        token_views(views, f"map {side.ref}", partial(_mark, found))
    chosen = f"Method: {explained.method}. " if is_chosen else ""
    _explained(f"{chosen}{in_words(found)}")
    for note in found.notes:
        if "max_steps" not in note:  # the caption says it, and names the box of the page
            st.caption(plain(note))
    _check(side, explained, len(found.units), is_rough(found))
    if not is_long:
        with errors_shown(), st.spinner("Comparing methods …"):
            each = compared(side, explained)
            for text in (agreement.agreement(each), agreement.pair(each)):
                if text:
                    _explained(text)
    title = f"{explained.method} of “{said}”{rather}, {side.name}"
    downloads(
        f"attribution-{explained.method}",
        found.table if found.by_layer is None else found.layer_table,
        lambda: [(title, views)],
        found.figure,
        title,
    )


def by_layer(found: "Attribution") -> View:
    """Layers, the last on top, by units; of a method of heads by heads, summed over units."""
    assert found.by_layer is not None, "a layer method"
    several = len({stack for stack, _ in found.layers}) > 1
    rows = [f"{f'{stack} ' if several else ''}layer {layer}" for stack, layer in found.layers]
    if found.by_layer.ndim > 2:  # [layers, heads, units]
        values = [
            [math.fsum(v for v in head if not math.isnan(v)) for head in heads]
            for heads in found.by_layer.tolist()
        ]
        columns = [f"head {head + FIRST}" for head in range(len(values[0]))]
        note = "Heads by layer, summed over the units of the text."
    else:
        values = found.by_layer.tolist()  # [layers, units]
        columns = [unit.text for unit in found.units]
        note = "Units by layer. Within the model, special pieces carry what they have read."
    return grid(
        "layers",
        "Attribution by layer",
        rows[::-1],
        columns,
        values[::-1],
        diverging=True,
        legend=("against", "for"),
        note=note,
    )


def _mark(found: "Attribution", pick: Mapping[str, Any]) -> None:
    """Select the word of a unit on all pages."""
    n = index_in(pick, "i", len(found.units))
    if n is not None and found.units[n].word >= 0:
        selection.select(mark=found.units[n].word)


def strips(found: "Attribution", word: int | None = None) -> list[View]:
    """A strip of coloured units for each stack; those of the selected word have a frame."""
    views = []
    top = float(max(abs(found.scores), default=0.0)) or 1.0
    stacks = list(dict.fromkeys(unit.stack for unit in found.units if not unit.fixed))
    for stack in stacks:
        tokens = [
            Token(
                unit.text,
                n,
                special=unit.fixed,
                fixed=unit.fixed,
                score=None if unit.fixed else float(found.scores[n]),
                tip="not scored: it is special, or what is predicted"
                if unit.fixed
                else f"{unit.text}: {found.scores[n]:+.4f}",
                chosen=word is not None and unit.word == word,
            )
            for n, unit in enumerate(found.units)
            if unit.stack == stack
        ]
        views.append(
            strip(
                stack,
                f"Attribution to what the {stack} reads",
                tokens,
                top=top,
                legend=("against", "for") if stack == stacks[-1] else None,
                note=f"what the {stack} reads" if len(stacks) > 1 else "",
            )
        )
    return views


def in_words(found: "Attribution") -> str:
    """The value that is explained, and how exactly the scores sum to its change."""
    measure: str = "score" if found.prediction.kind == "score" else found.target.measure
    if found.target.against is not None:
        plural = measure[:-1] + "ies" if measure.endswith("y") else f"{measure}s"
        measure = f"difference of the two {plural}"
    is_probability = measure == "probability"
    value_of = partial(percent, digits=1) if is_probability else number
    texts = [f"Explained: {measure} {value_of(found.value)}"]
    if found.baseline_value is not None:
        texts[0] += f"; with the baseline ({found.baseline}) {value_of(found.baseline_value)}"
        change = found.value - found.baseline_value
        if found.delta is not None and found.by_layer is not None:
            texts.append(
                f"The scores of a layer, with those of its special pieces, sum to the change of "
                f"{number(change)}: convergence delta up to {number(abs(found.delta))}, in the "
                "worst layer"
            )
        elif found.delta is not None:
            share = f" ({percent(abs(found.delta / change), 2)})" if change else ""
            steps = f" with {found.steps} steps" if found.steps else ""
            texts.append(
                f"The scores sum to {number(change - found.delta)} of {number(change)}: "
                f"convergence delta {number(found.delta, signed=True)}{share}{steps}"
            )
    return f"{'. '.join(texts)}."


def is_rough(found: "Attribution") -> bool:
    """Whether the scores miss so much of the change that they do not explain it."""
    from workbench.analyses.attribution.methods import UNEXPLAINED

    return found.missed > UNEXPLAINED


# --- the check ------------------------------------------------------------------------------------


def _check(side: Side, explained: Explanation, n_units: int, rough: bool) -> None:
    """Draw the faithfulness of a map next to random orders and attention."""
    from workbench.analyses.attribution.agreement import LONG

    is_small = side.model.parameters <= SMALL
    if n_units > LONG and not st.toggle(
        "Check the map", key=f"check {side.ref}", help="Takes some seconds for a long text."
    ):
        return
    with errors_shown(), st.spinner("Checking the map …"):
        can_randomise = explained.method not in ("random", "attention") and is_small
        check = faithfulness(side, explained, can_randomise)
        _verdict(check, side.ref, rough)


def _verdict(check: "Faithfulness", key: str, rough: bool) -> None:
    """The verdict in one line, and the numbers next to those of the baselines."""
    colour = {"yes": "green", "no": "red"}.get(check.verdict, "orange")
    icon = {"yes": "check_circle", "no": "cancel"}.get(check.verdict, "help")
    words = {"yes": "faithful", "no": "not faithful"}.get(check.verdict, "undecided")
    if check.method == "leave-one-out" and check.verdict != "yes":
        colour, icon, words = "blue", "help", "exact for each word alone"
    if rough and check.verdict == "yes":
        colour, icon, words = "orange", "help", "faithful order, approximate scores"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(words, icon=f":material/{icon}:", color=colour)  # type: ignore[arg-type]
        st.caption(plain(_reason(check)), help=glossary.explained(_CHECK))
    if math.isnan(check.gain):
        return
    orders = {"this map": (check.comprehensiveness, check.sufficiency)}
    baselines = {"attention": check.attention, "random orders (mean)": check.random}
    orders |= {
        name: (float(each.comprehensiveness.mean()), float(each.sufficiency.mean()))
        for name, each in baselines.items()
        if each is not None
    }
    rows = [(name, high, low, high - low) for name, (high, low) in orders.items()]
    draw_columns(
        pd.DataFrame(rows, columns=list(CHECKED)), CHECKED, f"check of {key}", width="content"
    )
    if check.randomised is not None:
        _explained(_randomised(check.randomised))


def _explained(text: str) -> None:
    """Draw a sentence with its terms explained."""
    st.caption(plain(text), help=glossary.explained(text))


def _randomised(found: "Randomised") -> str:
    """The weight-randomisation check in words."""
    verdict = {
        "destroyed": "random weights give another map, so it depends on what the model has learnt",
        "kept": "random weights give nearly the same map, so it shows little of what the model has "
        "learnt",
        "partly kept": "random weights give a similar map, so it depends only in part on what the "
        "model has learnt",
    }.get(found.check, "too few words to tell")
    return (
        f"Weight randomisation: {verdict} (rank correlation {decimal(found.correlation, 2)}; by "
        f"chance up to {found.chance:.2f})."
    )


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def _reason(check: "Faithfulness") -> str:
    if check.reason:
        return check.reason
    low, high = check.random_interval
    return (
        f"gain {_signed(check.gain)}; random orders of the words {_signed(low)} to "
        f"{_signed(high)}, p = {check.p:.2g}"
    )
