"""The findings of `lens`, `tuned-lens` and `contributions`. Costs: milliseconds."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import pandas as pd

from workbench.core.comparisons import difference_text
from workbench.core.findings import (
    Finding,
    Row,
    Tables,
    capital,
    decimal,
    judged,
    keys_of,
    of_all,
    p_text,
    percent,
    percent_span,
    plural,
    rows_of,
    signed,
    verb_of,
    whole,
)
from workbench.core.head_names import at_state, has_several_kinds, part_name
from workbench.experiment.measured import measured, on_measured

# --- lens -----------------------------------------------------------------------------------------

SETTLED = 20  # words of a tag whose mean is named
COMPARED = 30  # words of a group; with fewer, its difference is undecided
RANDOM_MODELS = 3  # with fewer, hardly any difference lies outside of their prediction interval
RANDOM_ENOUGH = 5


def lens(tables: Tables) -> Iterator[Finding]:
    """What the last layer predicts, where predictions become final, and for which words."""
    tests = {row["comparison"]: row for row in rows_of(tables["tests"])}
    if "accuracy" in tests:  # else the true choices of a task head are not known
        yield _accuracy(tests["accuracy"], tables)
    stacks = list(dict.fromkeys(tables["final"]["stack"]))
    for stack in reversed(stacks):
        yield _settled(tables["final"], stack, len(stacks) > 1)
    for name, others in (("function words", "content words"), ("frequent words", "rarer words")):
        if name in tests:
            yield _earlier(tests[name], name, others)
    tags = tables["groups"]
    tags = tags[(tags["by"] == "tag") & (tags["stack"] == stacks[-1]) & (tags["n"] >= SETTLED)]
    if len(tags) > 1:
        yield _tags(rows_of(tags.sort_values("mean_layer", kind="stable")))
    yield _largest_step(tables["layers"], stacks[-1])


def _accuracy(row: Row, tables: Tables) -> Finding:
    holds = "is right more often than" if row["holds"] else "does not beat"
    return Finding(
        f"The last layer {holds} always choosing what is right most often"
        f"{on_measured(tables)}: "
        f"{percent(row['first'])} against {percent(row['second'])} of "
        f"{plural(row['n_first'], 'prediction')} (difference "
        f"{signed(decimal(100 * row['difference'], 1))} points, 95 % "
        f"{decimal(100 * row['lower'], 1)} to {decimal(100 * row['upper'], 1)}; "
        f"{p_text(row['p'])}).",
        row["difference"],
        (row["lower"], row["upper"]),
        0.0,
        judged(row["holds"], row["n_first"] >= COMPARED),
        "tests",
        {"comparison": "accuracy"},
        "predictions",
        measure=f"gain in {measured(tables, 'accuracy')} over the most frequent choice",
        unit="points",
        column="difference",
        decided_by="more predictions (max_predictions) or a larger corpus",
        n=plural(row["n_first"], "prediction"),
    )


def _settled(table: pd.DataFrame, stack: str, several: bool) -> Finding:
    """The share of predictions that are final before the last layer."""
    rows = rows_of(table[(table["stack"] == stack) & (table["by"] == "all")])
    top = rows[-1]["layer"]
    row = rows[-2] if top else rows[-1]
    half = next(each for each in rows if each["cumulative"] >= 0.5)
    null = "" if math.isnan(row["random"]) else f"; with random weights {percent(row['random'])}"
    of_stack = f" of the {stack}" if several else ""
    return Finding(
        f"{percent(row['cumulative'])} of {plural(row['n'], 'prediction')} are final before the "
        f"last layer{of_stack} (95 % {percent_span(row['lower'], row['upper'])}{null}). "
        f"Half "
        f"of all predictions are final from {_layer_of(half['layer'], top)} on.",
        row["cumulative"],
        (row["lower"], row["upper"]),
        None,
        "supported",
        "final",
        {"stack": stack, "by": "all", "group": "all", "layer": row["layer"]},
        "final",
        measure=f"predictions final before the last layer{of_stack}",
        unit="%",
        column="cumulative",
        n=plural(row["n"], "prediction"),
    )


def _earlier(row: Row, name: str, others: str) -> Finding:
    words = min(row["n_first"], row["n_second"]) >= COMPARED
    models = row["random_models"] >= RANDOM_MODELS
    missing = [] if words else ["more words (max_predictions)"]
    missing += [] if models else [f"more random-weight models (random_models={RANDOM_ENOUGH})"]
    does = "become" if row["holds"] else "are not shown to become"
    return Finding(
        f"Predictions of {name} {does} final earlier than those of {others}: mean layer "
        f"{decimal(row['first'], 2)} against {decimal(row['second'], 2)} (difference "
        f"{difference_text(row, ' layers')}).",
        row["difference"],
        (row["lower"], row["upper"]),
        row["random"] if row["random_models"] else 0.0,
        judged(row["holds"], words and (models or (row["holds"] and row["random_models"] > 1))),
        "tests",
        {"comparison": name},
        "final_by_tag" if name == "function words" else "final",
        measure=f"mean final layer of {name}, difference to {others}",
        unit="layers",
        column="difference",
        decided_by=" and ".join(missing) or "more words (max_predictions)",
        n=f"{whole(row['n_first'])} and {plural(row['n_second'], 'prediction')}",
    )


def _tags(rows: list[Row]) -> Finding:
    first, last = rows[0], rows[-1]
    right = percent(first["accuracy"]), percent(last["accuracy"])
    return Finding(
        f"Of {plural(len(rows), 'part')} of speech with {SETTLED} words or more, predictions of "
        f"`{first['group']}` become final earliest (mean layer {decimal(first['mean_layer'], 2)}, "
        f"{right[0]} right) and those of `{last['group']}` latest "
        f"({decimal(last['mean_layer'], 2)}, {right[1]} right).",
        first["mean_layer"],
        (first["lower"], first["upper"]),
        None,
        "supported",
        "groups",
        {"stack": first["stack"], "by": "tag", "group": first["group"]},
        "final_by_tag",
        measure="mean final layer of the earliest part of speech",
        unit="layers",
        column="mean_layer",
        n=plural(first["n"], "prediction"),
    )


def _largest_step(layers: pd.DataFrame, stack: str) -> Finding:
    """The attention or MLP after which the most predictions agree with the model's."""
    own = layers[(layers["weights"] == "model") & (layers["stack"] == stack)]
    rows = rows_of(own[own["measure"] == "agreement"])
    steps = list(pairwise(rows)) or [(rows[0], rows[0])]
    before, after = max(steps, key=lambda step: step[1]["value"] - step[0]["value"])
    part = {"mlp": "MLP"}.get(after["sublayer"], after["sublayer"])
    layer = at_state(after["layer"])
    block = any(row["sublayer"] == "attention" for row in rows)
    of_layer = f"after the {part} of {layer}" if block else f"after {layer}"
    return Finding(
        f"Agreement with the model's own prediction rises most {of_layer}: "
        f"from {percent(before['value'])} to {percent(after['value'])} of predictions.",
        after["value"],
        (after["lower"], after["upper"]),
        None,
        "supported",
        "layers",
        {
            **keys_of(after, "weights", "stack", "layer", "sublayer"),
            "measure": "agreement",
        },
        "predictions",
        measure="agreement after its largest step",
        unit="%",
        column="value",
        n=plural(after["n"], "prediction"),
    )


# --- tuned-lens -----------------------------------------------------------------------------------

PREDICTS = "a model that predicts the texts better than the frequencies of pieces do"


def tuned_lens(tables: Tables) -> Iterator[Finding]:
    """How close both lenses are, the bias of the logit lens, and what layers predict.

    Lenses of a model that predicts no better than the frequencies of pieces show nothing about
    texts, however close they are to its final predictions: those claims stay undecided.
    """
    layers = {(row["stack"], row["layer"], row["lens"]): row for row in rows_of(tables["layers"])}
    gains = {(row["stack"], row["layer"], row["measure"]): row for row in rows_of(tables["gains"])}
    baselines = {row["baseline"]: row for row in rows_of(tables["baselines"])}
    last = {stack: layer for stack, layer, _ in layers}  # the last layer of each stack
    predicts = baselines["model"]["gain_lower"] > 0
    top = list(last)[-1]
    for stack in reversed(last):
        yield _half_way(stack, last, layers, gains, predicts)
    yield _closer(top, last[top], gains, predicts)
    n = plural(baselines["model"]["n"], "prediction")
    yield _biased(top, last[top], gains, predicts, n)
    yield _first_layer(top, last[top], layers, predicts)
    yield _final(baselines)
    yield _converged(tables)


def _layer_of(layer: object, top: object) -> str:
    """A layer, and how many there are: `layer 2 of 4`."""
    return f"{at_state(layer)} of {whole(top)}" if layer else at_state(layer)


def _of_stack(stack: str, last: Mapping[str, int]) -> str:
    """The name of a stack, where there are several."""
    return f" of the {stack}" if len(last) > 1 else ""


def _half_way(
    stack: str,
    last: Mapping[str, int],
    layers: Mapping[tuple[str, int, str], Row],
    gains: Mapping[tuple[str, int, str], Row],
    predicts: bool,
) -> Finding:
    layer = last[stack] // 2
    tuned, logit = (layers[stack, layer, lens] for lens in ("tuned", "logit"))
    return Finding(
        f"Half way ({_layer_of(layer, last[stack])}{_of_stack(stack, last)}), the tuned lens "
        f"agrees with the final prediction in {percent(tuned['agreement'])} of "
        f"{whole(tuned['n'])} predictions, the logit lens in {percent(logit['agreement'])}.",
        tuned["agreement"],
        (tuned["agreement_lower"], tuned["agreement_upper"]),
        logit["agreement"],
        judged(gains[stack, layer, "agreement"]["better"], predicts),
        "layers",
        {"stack": stack, "layer": layer, "lens": "tuned"},
        "agreement",
        measure=f"agreement of the tuned lens half way{_of_stack(stack, last)}",
        unit="%",
        column="agreement",
        decided_by=PREDICTS,
        n=plural(tuned["n"], "prediction"),
    )


def _closer(
    stack: str, n_layers: int, gains: Mapping[tuple[str, int, str], Row], predicts: bool
) -> Finding:
    rows = [gains[stack, layer, "loss"] for layer in range(n_layers)]
    n_better = sum(bool(row["better"]) for row in rows)
    mean = [sum(row[lens] for row in rows) / len(rows) for lens in ("logit", "tuned")]
    return Finding(
        "The tuned lens is closer to the final prediction than the logit lens at "
        f"{of_all(n_better, n_layers, 'layer')} before the last, the embeddings included: "
        f"{decimal(mean[1])} against "
        f"{decimal(mean[0])} nats on average.",
        n_better,
        None,
        0,
        judged(n_better == n_layers, predicts),
        "gains",
        figure="loss",
        measure="layers at which the tuned lens is closer",
        decided_by=PREDICTS,
    )


def _biased(
    stack: str, n_layers: int, gains: Mapping[tuple[str, int, str], Row], predicts: bool, n: str
) -> Finding:
    layer = n_layers // 2
    row = gains[stack, layer, "bias"]
    return Finding(
        f"The mean distribution of the logit lens at {at_state(layer)} is {decimal(row['logit'])} "
        f"nats from the model's, that of the tuned lens {decimal(row['tuned'])} nats: the bias "
        f"that the map removes is {decimal(row['gain'])} nats.",
        row["gain"],
        (row["lower"], row["upper"]),
        0.0,
        judged(row["better"], predicts),
        "gains",
        {"stack": stack, "layer": layer, "measure": "bias"},
        "bias",
        measure="bias of the logit lens that the tuned lens removes, half way",
        unit="nats",
        column="gain",
        decided_by=PREDICTS,
        n=n,
    )


def _first_layer(
    stack: str, n_layers: int, layers: Mapping[tuple[str, int, str], Row], predicts: bool
) -> Finding:
    """The lowest layer from which on every layer predicts better than frequencies."""
    above: list[int] = []
    for layer in range(n_layers, -1, -1):
        if not layers[stack, layer, "tuned"]["gain_lower"] > 0:
            break
        above.append(layer)
    measure = "first layer whose tuned lens predicts better than frequencies"
    if not above:
        return Finding(
            "At no layer, the last included, does the tuned lens predict the true pieces better "
            f"than the frequencies of pieces (last: {_gain(layers[stack, n_layers, 'tuned'])}).",
            None, None, None, "not supported", "layers", measure=measure,
        )  # fmt: skip
    first = layers[stack, above[-1], "tuned"]
    on = " on" if above[-1] < n_layers else ""
    return Finding(
        f"From {at_state(above[-1])}{on}, the tuned lens predicts the true pieces better than the "
        f"frequencies of pieces ({_gain(first)} there; last layer: "
        f"{_gain(layers[stack, n_layers, 'tuned'])}).",
        above[-1],
        None,
        n_layers + 1,
        judged(predicts),
        "layers",
        {"stack": stack, "layer": above[-1], "lens": "tuned"},
        "loss",
        measure=measure,
        column="layer",
    )


def _gain(row: Row) -> str:
    return f"{signed(decimal(row['gain'], 2))} nats"


def _final(baselines: Mapping[str, Row]) -> Finding:
    row = baselines["model"]
    holds = "better" if row["gain_lower"] > 0 else "no better"
    return Finding(
        f"The model's final predictions are {holds} than the frequencies of pieces: "
        f"{decimal(row['cross_entropy'])} against "
        f"{decimal(baselines['frequencies']['cross_entropy'])} nats.",
        row["gain"],
        (row["gain_lower"], row["gain_upper"]),
        0.0,
        judged(row["gain_lower"] > 0),
        "baselines",
        {"baseline": "model"},
        measure="gain of the model over the frequencies of pieces",
        unit="nats",
        column="gain",
        n=plural(row["n"], "prediction"),
    )


def _converged(tables: Tables) -> Finding:
    rows = rows_of(tables["training"])
    n_converged = sum(bool(row["converged"]) for row in rows)
    steps = tables["facts"].set_index("fact")["value"]["steps"]
    rest = verb_of(len(rows) - n_converged, "the other", "the others") if n_converged else "them"
    return Finding(
        f"{capital(of_all(n_converged, len(rows), 'map'))} had converged after "
        f"{whole(int(steps))} steps"
        + ("." if n_converged == len(rows) else f"; more steps would bring {rest} closer."),
        n_converged,
        None,
        None,
        judged(n_converged == len(rows)),
        "training",
        figure="training",
        measure="maps that converged",
    )


# --- contributions --------------------------------------------------------------------------------

TESTABLE = 30  # predicted words with another word of their part of speech; fewer show little


PART = ("part", "stack", "kind", "layer", "head")


def contributions(tables: Tables) -> Iterator[Finding]:
    """What decides: the largest part, how many give half, and which heads and MLPs raise words."""
    parts = rows_of(tables["components"])
    facts = {row["fact"]: row for row in rows_of(tables["summary"])}
    several = has_several_kinds(tables["components"].query("part == 'head'"))
    total = facts["sum of contributions"]["value"]
    written = [row for row in parts if not str(row["part"]).endswith("-bias")]
    largest = max(written, key=lambda row: float(row["contribution"]))
    name = part_name(largest, several)
    name = capital(name) if largest["part"] == "head" else f"The {name}"
    yield Finding(
        f"{name} {'add' if largest['part'] == 'embeddings' else 'adds'} most to the model's own "
        f"choice{on_measured(tables)}: "
        f"{decimal(largest['contribution'], 2)} of {decimal(total, 2)} nats above the mean logit.",
        largest["contribution"],
        (largest["lower"], largest["upper"]),
        None,
        "supported",
        "components",
        keys_of(largest, *PART),
        "layers",
        measure="largest contribution",
        unit="nats",
        column="contribution",
        n=plural(largest["n"], "prediction"),
    )
    half = facts["parts that give half"]
    yield Finding(
        f"Half of what is added to a choice comes from {decimal(half['value'], 1)} of "
        f"{whole(facts['parts']['value'])} parts on average.",
        half["value"],
        (half["lower"], half["upper"]),
        None,
        "supported",
        "summary",
        {"fact": half["fact"]},
        "layers",
        measure="parts that give half of the positive contributions",
        column="value",
        n=plural(largest["n"], "prediction"),
    )
    share = facts["share of heads"]
    yield Finding(
        f"Heads make up {percent(share['value'])} of all absolute contributions, MLPs "
        f"{percent(facts['share of MLPs']['value'])}, the embeddings "
        f"{percent(facts['share of embeddings']['value'])}, biases "
        f"{percent(facts['share of biases']['value'])}.",
        share["value"],
        (share["lower"], share["upper"]),
        None,
        "supported",
        "summary",
        {"fact": share["fact"]},
        "layers",
        measure="share of heads in absolute contributions",
        unit="%",
        column="value",
        n=plural(largest["n"], "prediction"),
    )
    choice = "class" if "classes" in facts else "word"  # of a task head
    for part, noun in (("head", "head"), ("mlp", "MLP")):
        rows = [row for row in parts if row["part"] == part]
        if rows:
            yield from _writers(rows, noun, choice, several)


def _writers(rows: Sequence[Row], noun: str, choice: str, several: bool) -> Iterator[Finding]:
    """How many heads, or MLPs, raise the true word or class, and the one with the largest gain."""
    writers = [row for row in rows if row["writes"]]
    enough = rows[0]["n_tested"] >= TESTABLE
    best = max(rows, key=lambda row: (bool(row["writes"]), float(row["gain"])))
    more = "more texts, or texts with more different words"
    where = "above the same word elsewhere and other words of its part of speech"
    if choice == "class":
        more, where = "more labelled texts", "above the same class elsewhere and other classes"
    yield Finding(
        f"{capital(of_all(len(writers), len(rows), noun))} "
        f"{verb_of(len(writers), 'raises', 'raise')} the true {choice} in its own context "
        f"({where}).",
        len(writers),
        None,
        0,
        judged(writers, writers or enough),
        "components",
        figure="heads" if noun == "head" else "gains",
        measure=f"{noun}s that raise the true word",
        decided_by=more,
    )
    yield Finding(
        f"Among {noun}s, {'the ' if noun == 'MLP' else ''}{part_name(best, several)} has the "
        f"largest gain for the true {choice}: "
        f"{signed(decimal(best['gain'], 2))} nats ({p_text(best['p'])}).",
        best["gain"],
        (best["gain_lower"], best["gain_upper"]),
        0,
        judged(best["writes"], best["writes"] or enough),
        "components",
        keys_of(best, *PART),
        "gains",
        measure=f"largest gain of {noun}s",
        unit="nats",
        column="gain",
        decided_by=more,
        n=plural(best["n_tested"], "prediction"),
    )
