"""The findings of `lens`, `tuned-lens`, `contributions`, `attribution` and `patching`.

Costs: milliseconds.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd

from workbench.core.experiment import HEAD
from workbench.core.findings import (
    Finding,
    Row,
    Verdict,
    capital,
    decimal,
    judged,
    listing,
    p_text,
    percent,
    plural,
    rows_of,
    signed,
    whole,
)
from workbench.core.head_names import has_several_kinds, head_name, part_name
from workbench.core.measured import measured, name_of_measured

Tables = Mapping[str, pd.DataFrame]

LEVEL = 0.05  # significance level

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
        f"The last layer {holds} always choosing the most frequent true choice"
        f"{_on(tables)}: "
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
        unit="%",
        column="difference",
        decided_by="more predictions (max_predictions) or a larger corpus",
    )


def _on(tables: Tables) -> str:
    """What was predicted, after a claim: ` on masked pieces`; "" if it is unknown."""
    name = name_of_measured(tables)
    return f" on {name}" if name else ""


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
        f"last layer{of_stack} (95 % {percent(row['lower'])} to {percent(row['upper'])}{null}). "
        f"Half "
        f"of all predictions are final from layer {whole(half['layer'])} of {whole(top)} on.",
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
    )


def _earlier(row: Row, name: str, others: str) -> Finding:
    words = min(row["n_first"], row["n_second"]) >= COMPARED
    models = row["random_models"] >= RANDOM_MODELS
    missing = [] if words else ["more words (max_predictions)"]
    missing += [] if models else [f"more random-weight models (random_models={RANDOM_ENOUGH})"]
    does = "become" if row["holds"] else "are not shown to become"
    null = (
        f"; with random weights {signed(decimal(row['random'], 2))}"
        if row["random_models"]
        else "; no random-weight baseline"
    )
    p = f"; {p_text(row['p'])}" if row["random_models"] > 1 else ""  # else there is no test
    return Finding(
        f"Predictions of {name} {does} final earlier than those of {others}: mean layer "
        f"{decimal(row['first'], 2)} against {decimal(row['second'], 2)} (difference "
        f"{signed(decimal(row['difference'], 2))} layers, 95 % {decimal(row['lower'], 2)} to "
        f"{decimal(row['upper'], 2)}{null}{p}).",
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
    )


def _tags(rows: list[Row]) -> Finding:
    first, last = rows[0], rows[-1]
    right = percent(first["accuracy"]), percent(last["accuracy"])
    return Finding(
        f"Of {plural(len(rows), 'part')} of speech, predictions of `{first['group']}` become "
        f"final earliest (mean layer {decimal(first['mean_layer'], 2)}, {right[0]} right) and "
        f"those of `{last['group']}` latest ({decimal(last['mean_layer'], 2)}, {right[1]} right).",
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
    )


def _largest_step(layers: pd.DataFrame, stack: str) -> Finding:
    """The attention or MLP after which the most predictions agree with the model's."""
    own = layers[(layers["weights"] == "model") & (layers["stack"] == stack)]
    rows = rows_of(own[own["measure"] == "agreement"])
    steps = list(pairwise(rows)) or [(rows[0], rows[0])]
    before, after = max(steps, key=lambda step: step[1]["value"] - step[0]["value"])
    part = {"mlp": "MLP"}.get(after["sublayer"], after["sublayer"])
    block = any(row["sublayer"] == "attention" for row in rows)
    of_layer = f"after the {part} of layer" if block else "after layer"
    return Finding(
        f"Agreement with the model's own prediction rises most {of_layer} {whole(after['layer'])}: "
        f"from {percent(before['value'])} to {percent(after['value'])} of predictions.",
        after["value"],
        (after["lower"], after["upper"]),
        None,
        "supported",
        "layers",
        {
            **{key: after[key] for key in ("weights", "stack", "layer", "sublayer")},
            "measure": "agreement",
        },
        "predictions",
        measure="agreement after its largest step",
        unit="%",
        column="value",
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
    yield _biased(top, last[top], gains, predicts)
    yield _first_layer(top, last[top], layers, predicts)
    yield _final(baselines)
    yield _converged(tables)


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
        f"Half way (layer {layer} of {last[stack]}{_of_stack(stack, last)}), the tuned lens agrees "
        f"with the final prediction in {percent(tuned['agreement'])} of "
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
    )


def _closer(
    stack: str, n_layers: int, gains: Mapping[tuple[str, int, str], Row], predicts: bool
) -> Finding:
    rows = [gains[stack, layer, "loss"] for layer in range(n_layers)]
    n_better = sum(bool(row["better"]) for row in rows)
    mean = [sum(row[lens] for row in rows) / len(rows) for lens in ("logit", "tuned")]
    return Finding(
        f"The tuned lens is closer to the final prediction than the logit lens at {n_better} of "
        f"{plural(n_layers, 'layer')} before the last: {decimal(mean[1])} against "
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
    stack: str, n_layers: int, gains: Mapping[tuple[str, int, str], Row], predicts: bool
) -> Finding:
    layer = n_layers // 2
    row = gains[stack, layer, "bias"]
    return Finding(
        f"The mean distribution of the logit lens at layer {layer} is {decimal(row['logit'])} nats "
        f"from the model's, that of the tuned lens {decimal(row['tuned'])} nats: the bias that the "
        f"map removes is {decimal(row['gain'])} nats.",
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
        f"From layer {above[-1]}{on}, the tuned lens predicts the true pieces better than the "
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
    )


def _converged(tables: Tables) -> Finding:
    rows = rows_of(tables["training"])
    n_converged = sum(bool(row["converged"]) for row in rows)
    steps = tables["facts"].set_index("fact")["value"]["steps"]
    return Finding(
        f"{n_converged} of {plural(len(rows), 'map')} had converged after {whole(int(steps))} "
        "steps"
        + ("." if n_converged == len(rows) else "; more steps would bring the others closer."),
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
        f"choice{_on(tables)}: "
        f"{decimal(largest['contribution'], 2)} of {decimal(total, 2)} nats above the mean logit.",
        largest["contribution"],
        (largest["lower"], largest["upper"]),
        None,
        "supported",
        "components",
        _keys_of_part(largest),
        "layers",
        measure="largest contribution",
        unit="nats",
        column="contribution",
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
        f"{len(writers)} of {plural(len(rows), noun)} {'raises' if len(writers) == 1 else 'raise'} "
        f"the true {choice} in its own context ({where}).",
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
        _keys_of_part(best),
        "gains",
        measure=f"largest gain of {noun}s",
        unit="nats",
        column="gain",
        decided_by=more,
    )


def _keys_of_part(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in ("part", "stack", "kind", "layer", "head")}


# --- attribution ----------------------------------------------------------------------------------

CONTROLS = ("attention", "random")  # rows of the table `methods` that are no chosen method
NEAR = 2  # words on each side of the predicted word
FEWEST_DOCUMENTS = 10  # with fewer, the intervals of differences of methods say little
FEWEST_TYPES = 5  # distinct words; fewer sign flips cannot be significant


def attribution(tables: Tables) -> Iterator[Finding]:
    """Which method is faithful, and which tags, relations and positions carry the predictions."""
    rows = rows_of(tables["methods"])
    chosen = [row for row in rows if row["method"] not in CONTROLS]
    best = max(chosen, key=lambda row: float(row["gain"]))
    yield _best(best, chosen, _on(tables))
    if len(chosen) > 1:
        yield _faithful(chosen)
    if best["p_attention"] == best["p_attention"]:  # else there is no attention
        yield _over_attention(best)
    checked = [row for row in rows if row["check"]]
    if checked:
        yield _randomised(checked)
    method = best["method"]
    tags = [row for row in rows_of(tables["tags"]) if row["method"] == method]
    if tags:
        yield _tag_gains(tags)
    relations = [row for row in rows_of(tables["relations"]) if row["method"] == method]
    if any(row["relation"] == "all" for row in relations):
        yield _relations(relations)
    positions = [row for row in rows_of(tables["positions"]) if row["method"] == method]
    if any(row["origin"] == "predicted word" for row in positions):
        yield _positions(positions)


def _verdict(faithful: str) -> Verdict:
    return judged(faithful == "yes", faithful != "undecided")


def _best(row: Row, chosen: Sequence[Row], on: str) -> Finding:
    """The best method, with those whose gain does not differ from its own.

    Paired over documents: the interval of the difference includes 0.
    """
    others = [each for each in chosen if each["method"] != row["method"]]
    others.sort(key=lambda each: -float(each["gain"]))
    level = [each for each in others if not each["behind_lower"] > 0]
    names = [each["method"] for each in (row, *level)]
    next_to = (level or others or [row])[0]
    by = (
        f" (gain {signed(decimal(next_to['behind'], 3))} over {next_to['method']}, 95 % "
        f"{decimal(next_to['behind_lower'], 3)} to {decimal(next_to['behind_upper'], 3)})"
    )
    if not others:
        subject = f"The scores of {row['method']} are checked"
    elif row["documents"] < FEWEST_DOCUMENTS:
        level = others
        subject = (
            f"The scores of {row['method']} have the largest gain of {len(chosen)} methods (too "
            "few documents to tell whether they differ)"
        )
    elif level:
        together = "do not differ significantly"
        subject = (
            f"The scores of {listing(names, 6)} are the most faithful of {len(chosen)} methods, "
            f"and {together}{by}"
        )
        if len(level) == len(others):
            subject = (
                f"The {len(chosen)} methods {together}{by}; {row['method']} has the largest gain"
            )
    else:
        subject = (
            f"The scores of {row['method']} are the most faithful of {len(chosen)} methods{by}"
        )
    whose = "its" if not level else f"the {row['method']}"
    return Finding(
        f"{subject}: without {whose} top words, the prediction{on} loses "
        f"{decimal(row['comprehensiveness'], 2)} of its probability, with only them "
        f"{decimal(row['sufficiency'], 2)} (random orders: "
        f"{decimal(row['random_comprehensiveness'], 2)} and "
        f"{decimal(row['random_sufficiency'], 2)}; {p_text(row['p'])}).",
        row["gain"],
        (row["lower"], row["upper"]),
        0.0,
        _verdict(row["faithful"]),
        "methods",
        {"method": row["method"]},
        "faithfulness",
        measure="gain of the most faithful method over random orders",
        column="gain",
        decided_by="more texts",
    )


def _faithful(rows: list[Row]) -> Finding:
    faithful = [row["method"] for row in rows if row["faithful"] == "yes"]
    is_open = any(row["faithful"] == "undecided" for row in rows)
    others = [row["method"] for row in rows if row["faithful"] != "yes"]
    named = f": {listing(faithful, 6)}" if faithful and others else ""
    missing = f"; not {listing(others, 6)}" if faithful and others else ""
    return Finding(
        f"{len(faithful)} of {len(rows)} methods are faithful beyond random orders"
        f"{named}{missing}.",
        len(faithful),
        None,
        0.0,
        judged(faithful, faithful or not is_open),
        "methods",
        figure="faithfulness",
        measure="methods faithful beyond random orders",
        decided_by="more texts",
    )


def _over_attention(row: Row) -> Finding:
    return Finding(
        f"Compared with the attention of the last layer, {row['method']} gains "
        f"{decimal(row['over_attention'], 2)} of probability (comprehensiveness minus "
        f"sufficiency; {p_text(row['p_attention'])}).",
        row["over_attention"],
        (row["over_attention_lower"], row["over_attention_upper"]),
        0.0,
        judged(row["p_attention"] < LEVEL, row["documents"] >= 10),
        "methods",
        {"method": row["method"]},
        "faithfulness",
        measure="gain of the most faithful method over attention",
        column="over_attention",
        decided_by="more texts",
    )


def _randomised(rows: list[Row]) -> Finding:
    """Methods by what random weights do to their maps; the number is of the one kept most."""
    most = max(rows, key=lambda row: float(row["randomised"]))
    groups = [
        (words, [row["method"] for row in rows if row["check"] == check])
        for check, words in (
            ("kept", "keep the maps of"),
            ("partly kept", "partly keep the maps of"),
            ("destroyed", "destroy the maps of"),
            ("undecided", "are not comparable, by too few words, for"),
        )
    ]
    parts = [f"{words} {listing(names, 6)}" for words, names in groups if names]
    return Finding(
        f"Random weights {listing(parts, 4)}: the highest rank correlation of a map with that of "
        f"random weights is {decimal(most['randomised'], 2)}, by {most['method']} (chance: below "
        f"{decimal(most['chance'], 2)}).",
        most["randomised"],
        (most["randomised_lower"], most["randomised_upper"]),
        None,
        judged(True, most["check"] != "undecided"),
        "methods",
        {"method": most["method"]},
        "randomised",
        measure="highest rank correlation with maps of random weights",
        column="randomised",
        decided_by="longer texts",
    )


def _tag_gains(rows: list[Row]) -> Finding:
    tried = [row for row in rows if row["types"] >= FEWEST_TYPES]
    differ = [row for row in rows if row["p"] < LEVEL]
    if differ:
        named = [
            f"`{row['tag']}` ({decimal(row['lift'], 1)} times a mean word, "
            f"{decimal(row['same_distance'], 1)} expected by distance, {p_text(row['p'])})"
            for row in differ
        ]
        claim = (
            f"{len(differ)} of {plural(len(rows), 'tag')} {'gets' if len(differ) == 1 else 'get'} "
            f"more or less attribution than other words at the same distance: {listing(named)}."
        )
    else:
        claim = (
            f"0 of {plural(len(rows), 'tag')} get more or less attribution than other words at "
            f"the same distance (smallest {p_text(min(row['p'] for row in rows))})."
        )
    return Finding(
        claim,
        len(differ),
        None,
        0.0,
        judged(differ, differ or len(tried) > 1),
        "tags",
        {"method": rows[0]["method"]},
        "tags",
        measure="tags with more or less attribution than words at the same distance",
        decided_by="more texts with more distinct words",
    )


def _relations(rows: list[Row]) -> Finding:
    """Of all heads or dependents of the predicted word; the single relations that are significant.

    Of the two directions, the one with more words.
    """
    whole = [row for row in rows if row["relation"] == "all"]
    row = max(whole, key=lambda each: int(each["n"]))
    differ = [
        f"`{each['relation']}` ({each['direction']})"
        for each in rows
        if each["relation"] != "all" and each["p"] < LEVEL
    ]
    who = {"dependent-to-head": "syntactic head", "head-to-dependent": "dependents"}
    verb = "gets" if row["direction"] == "dependent-to-head" else "get"
    single = f" Single relations above it: {listing(differ, 4)}." if differ else ""
    return Finding(
        f"The {who[row['direction']]} of the predicted word {verb} "
        f"{decimal(row['attribution'], 2)} times the attribution of a mean word, other words at "
        f"the same distance {decimal(row['same_distance'], 2)} ({p_text(row['p'])}; n = "
        f"{row['n']}).{single}",
        row["difference"],
        (row["lower"], row["upper"]),
        0.0,
        judged(row["p"] < LEVEL, row["types"] >= FEWEST_TYPES),
        "relations",
        {key: row[key] for key in ("method", "direction", "relation")},
        "relations",
        measure="attribution to words related to the predicted word, over words as near",
        column="difference",
        decided_by="more texts with more distinct words",
    )


def _positions(rows: list[Row]) -> Finding:
    near = [row for row in rows if abs(row["offset"]) <= NEAR]
    attribution = sum(row["attribution"] for row in near)
    words = sum(row["words"] for row in near)
    return Finding(
        f"{capital(percent(attribution))} of the attribution is on words within {NEAR} words of "
        f"the predicted one, which are {percent(words)} of the words read.",
        attribution,
        None,
        None,
        "supported",
        "positions",
        {"method": rows[0]["method"]},
        "positions",
        measure=f"share of attribution within {NEAR} words",
        unit="%",
    )


# --- patching -------------------------------------------------------------------------------------

EXCHANGES = 6  # of words; with fewer, sign flips cannot be significant
DISTINGUISHED = 10  # pairs; with fewer, shares of their differences say little
HALF = 0.5  # of the difference: a place carries what decides if it restores as much
MORE_PAIRS = "more pairs with more distinct words"
MOVED = {"heads": "head", "mlps": "MLP"}


def patching(tables: Tables) -> Iterator[Finding]:
    """Whether the model distinguishes pairs, where that is, and which heads and MLPs carry it."""
    pairs = rows_of(tables["pairs"])
    whole = pairs[-1]
    yield _prefers(whole, pairs, _on(tables))
    enough = whole["exchanges"] >= EXCHANGES and whole["distinguished"] >= DISTINGUISHED
    if "states" in tables:
        table = tables["states"]
        stacks = list(dict.fromkeys(table["stack"]))
        yield _carried(table, "changed", stacks[0], len(stacks) > 1, enough)
        yield _carried(table, "predicted", stacks[-1], len(stacks) > 1, enough)
        others = table[~table["place"].isin(["changed", "predicted"]) & (table["n"] > 0)]
        if len(others):
            yield _elsewhere(rows_of(others), len(stacks) > 1, enough)
    for what, noun in MOVED.items():
        if what in tables:
            table = tables[what]
            several = what == "heads" and has_several_kinds(table)
            yield from _restoring(rows_of(table), what, noun, several, enough)


def _prefers(row: Row, pairs: Sequence[Row], on: str) -> Finding:
    single = [each for each in pairs if each["phenomenon"] != "all"]
    others = [each for each in single if not each["significant"]]
    known = [each["phenomenon"] for each in single if each["significant"]]
    unknown = [each["phenomenon"] for each in others if _can_be_significant(each, len(others))]
    few = [each["phenomenon"] for each in others if each["phenomenon"] not in unknown]
    by_name = (
        f" By phenomenon: {listing(known, 4) if known else 'none'}"
        f"{f'; not {listing(unknown, 4)}' if unknown else ''}"
        f"{f'; too few exchanges to tell: {listing(few, 4)}' if few else ''}."
        if len(single) > 1
        else ""
    )
    does = "prefers" if row["significant"] else "is not shown to prefer"
    return Finding(
        f"The model {does} the word that is right after each context{on}: between the two texts of "
        f"a pair the difference of logits is {signed(decimal(row['difference'], 2))} nats (95 % "
        f"{decimal(row['lower'], 2)} to {decimal(row['upper'], 2)}; {p_text(row['p'])}; "
        f"{plural(row['n'], 'pair')}).{by_name}",
        row["difference"],
        (row["lower"], row["upper"]),
        0.0,
        judged(row["significant"], row["exchanges"] >= EXCHANGES),
        "pairs",
        {"phenomenon": row["phenomenon"]},
        "pairs",
        measure="difference of logits between clean and corrupt texts",
        unit="nats",
        column="difference",
        decided_by=MORE_PAIRS,
    )


def _can_be_significant(row: Row, n_tests: int) -> bool:
    """Whether the smallest p-value of sign flips is below 0.05 after Holm's correction."""
    smallest = 2.0 ** (1 - row["exchanges"])
    return bool(n_tests * smallest < LEVEL)


_PLACE_NAMES = {
    "changed": "the exchanged words",
    "between": "the words between",
    "previous": "the word before the predicted one",
    "predicted": "the place that predicts",
    "other": "other words",
    "special": "special pieces",
}


def _carried(table: pd.DataFrame, place: str, stack: str, several: bool, enough: bool) -> Finding:
    """Up to which layer the exchanged words, or from which the predicting place, restores half."""
    rows = rows_of(table[(table["stack"] == stack) & (table["place"] == place)])
    begins = place == "changed"  # at the first layer, else at the last
    ordered = rows if begins else rows[::-1]
    carrying = 0
    for row in ordered:
        if not (row["restores"] and row["effect"] >= HALF):
            break
        carrying += 1
    row = ordered[max(carrying, 1) - 1]
    top = rows[-1]["layer"]
    of_stack = f" of the {stack}" if several else ""
    measure = f"effect of {_PLACE_NAMES[place]}{of_stack}, in the last layer that carries it"
    if not begins:
        measure = f"effect of {_PLACE_NAMES[place]}{of_stack}, in the first layer that carries it"
    if math.isnan(row["effect"]) or math.isnan(row["random"]):
        return _unknown(f"In which layers {_PLACE_NAMES[place]}{of_stack} decide", measure)
    verb = "carry" if begins else "carries"
    where = f"up to layer {row['layer']} of {top}"
    if not begins:
        where = f"from layer {row['layer']} of {top} on"
    if carrying == len(rows):
        where = f"in all layers, 0 to {top}"
    is_given = carrying == 1  # the first of the layers in question gives all, by construction
    given = ", as in every model that distinguishes the pairs" if is_given else ""
    if not carrying:
        verb = f"{'are' if begins else 'is'} not shown to carry"
        where = f"in layer {row['layer']} of {top}"
    return Finding(
        f"{capital(_PLACE_NAMES[place])}{of_stack} {verb} what decides {where}: restored "
        f"there, {'their' if begins else 'its'} state gives {percent(row['effect'])} of the "
        f"difference (95 % {percent(row['lower'])} to {percent(row['upper'])}; unrelated texts: "
        f"{percent(row['random'])}; {p_text(row['p'])}){given}.",
        row["effect"],
        (row["lower"], row["upper"]),
        row["random"],
        judged(carrying > 0, enough),
        "states",
        {"stack": stack, "layer": row["layer"], "place": place},
        "states",
        measure=measure,
        unit="%",
        column="effect",
        decided_by=MORE_PAIRS,
    )


def _elsewhere(rows: list[Row], several: bool, enough: bool) -> Finding:
    """The largest effect of a place that is neither exchanged nor predicts."""
    measure = "largest effect of a place between or besides the two"
    known = [row for row in rows if not math.isnan(row["random"])]
    if not known:
        return _unknown("Whether other places carry what decides", measure)
    row = max(known, key=lambda each: (bool(each["restores"]), float(each["effect"])))
    of_stack = f" of the {row['stack']}" if several else ""
    does = "carry" if row["restores"] else "are not shown to carry"
    place = _PLACE_NAMES[row["place"]]
    if row["place"] == "previous":
        does = "carries" if row["restores"] else "is not shown to carry"
    return Finding(
        f"On the way, {place}{of_stack} {does} part of what decides: "
        f"{percent(row['effect'])} of the difference in layer {row['layer']} (95 % "
        f"{percent(row['lower'])} to {percent(row['upper'])}; unrelated texts: "
        f"{percent(row['random'])}; {p_text(row['p'])}), the most of all other places.",
        row["effect"],
        (row["lower"], row["upper"]),
        row["random"],
        judged(row["restores"], enough),
        "states",
        {name: row[name] for name in ("stack", "layer", "place")},
        "states",
        measure=measure,
        unit="%",
        column="effect",
        decided_by=MORE_PAIRS,
    )


def _restoring(
    rows: list[Row], what: str, noun: str, several: bool, enough: bool
) -> Iterator[Finding]:
    """How many heads, or MLPs, restore part of the difference, and the one that restores most."""
    found = [row for row in rows if row["restores"]]
    does = "restores" if len(found) == 1 else "restore"
    claim = f"{len(found)} of {plural(len(rows), noun)} {does} part of the difference, beyond "
    claim += "unrelated texts"
    known = [row for row in rows if not (math.isnan(row["effect"]) or math.isnan(row["random"]))]
    count = Finding(
        f"{claim}.",
        len(found),
        None,
        0,
        judged(found, enough),
        what,
        figure=what,
        measure=f"{noun}s that restore part of the difference",
        decided_by=MORE_PAIRS,
    )
    if what == "heads" or not known:
        yield count
    if not known:
        return
    row = max(known, key=lambda each: (bool(each["restores"]), float(each["effect"])))
    if what == "heads":
        name, keys = head_name(row, several), {key: row[key] for key in HEAD}
    else:
        of_stack = f"{row['stack']} " if len({each["stack"] for each in rows}) > 1 else ""
        name = f"{claim}; the MLP of {of_stack}layer {row['layer']}"
        keys = {key: row[key] for key in ("stack", "layer")}
    yield Finding(
        f"{capital(name)} restores most: {percent(row['effect'])} of the difference (95 % "
        f"{percent(row['lower'])} to {percent(row['upper'])}; unrelated texts: "
        f"{percent(row['random'])}; {p_text(row['p'])}).",
        row["effect"],
        (row["lower"], row["upper"]),
        row["random"],
        judged(row["restores"], enough),
        what,
        keys,
        what,
        measure=f"largest effect of {noun}s",
        unit="%",
        column="effect",
        decided_by=MORE_PAIRS,
    )


def _unknown(question: str, measure: str) -> Finding:
    """A claim about shares of a difference that there is in no pair."""
    return Finding(
        f"{question} is not known: the model distinguishes no pair, or no two pairs are aligned.",
        None,
        None,
        None,
        "undecided",
        "states",
        measure=measure,
        decided_by="a model that distinguishes the pairs, and pairs of one alignment",
    )
