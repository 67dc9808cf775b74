"""The findings of `lens`, `tuned-lens`, `contributions` and `attribution`, from their tables.

Costs: milliseconds.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise

import pandas as pd

from workbench.core.findings import (
    Finding,
    Row,
    decimal,
    judged,
    p_text,
    percent,
    plural,
    rows_of,
    signed,
    whole,
)

Tables = Mapping[str, pd.DataFrame]

# --- lens -----------------------------------------------------------------------------------------

SETTLED = 20  # words of a tag whose mean is named
COMPARED = 30  # words of a group; with fewer, its difference is undecided


def lens(tables: Tables) -> Iterator[Finding]:
    """What the last layer predicts, where predictions become final, and for which words."""
    tests = {row["comparison"]: row for row in rows_of(tables["tests"])}
    yield _accuracy(tests["accuracy"])
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


def _accuracy(row: Row) -> Finding:
    holds = "predicts more words right than" if row["holds"] else "does not beat"
    return Finding(
        f"The last layer {holds} always choosing the most frequent piece: {percent(row['first'])} "
        f"against {percent(row['second'])} of {plural(row['n_first'], 'word')} (difference "
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
        measure="gain in accuracy over the most frequent piece",
        unit="%",
        column="difference",
        decided_by="more words (max_predictions) or a larger corpus",
    )


def _settled(table: pd.DataFrame, stack: str, several: bool) -> Finding:
    """The share of predictions that are final before the last layer."""
    rows = rows_of(table[(table["stack"] == stack) & (table["by"] == "all")])
    top = rows[-1]["layer"]
    row = rows[-2] if top else rows[-1]
    half = next(each["layer"] for each in rows if each["cumulative"] >= 0.5)
    null = "" if math.isnan(row["random"]) else f"; with random weights {percent(row['random'])}"
    of_stack = f" of the {stack}" if several else ""
    return Finding(
        f"{percent(row['cumulative'])} of {plural(row['n'], 'prediction')} are final before the "
        f"last layer{of_stack} (95 % {percent(row['lower'])} to {percent(row['upper'])}{null}), "
        f"and half of them from layer {whole(half)} of {whole(top)}.",
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
    tested = row["random_models"] > 1 and min(row["n_first"], row["n_second"]) >= COMPARED
    does = "become" if row["holds"] else "are not shown to become"
    null = (
        f"; with random weights {signed(decimal(row['random'], 2))}"
        if row["random_models"]
        else "; no random-weight baseline"
    )
    return Finding(
        f"Predictions of {name} {does} final earlier than those of {others}: mean layer "
        f"{decimal(row['first'], 2)} against {decimal(row['second'], 2)} (difference "
        f"{signed(decimal(row['difference'], 2))} layers, 95 % {decimal(row['lower'], 2)} to "
        f"{decimal(row['upper'], 2)}{null}; {p_text(row['p'])}).",
        row["difference"],
        (row["lower"], row["upper"]),
        row["random"] if row["random_models"] else 0.0,
        judged(row["holds"], tested),
        "tests",
        {"comparison": name},
        "final_by_tag" if name == "function words" else "final",
        measure=f"mean final layer of {name}, difference to {others}",
        unit="layers",
        column="difference",
        decided_by="more words (max_predictions)"
        if row["random_models"] > 1
        else "random-weight models (random_models=5)",
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
        f"from {percent(before['value'])} to {percent(after['value'])} of words.",
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

# --- contributions --------------------------------------------------------------------------------

# --- attribution ----------------------------------------------------------------------------------
