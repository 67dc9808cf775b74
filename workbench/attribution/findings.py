"""The findings of `lens`, `tuned-lens`, `contributions` and `attribution`, from their tables.

Costs: milliseconds.
"""

from collections.abc import Iterator, Mapping

import pandas as pd

from workbench.core.findings import (
    Finding,
    Row,
    decimal,
    judged,
    percent,
    plural,
    rows_of,
    signed,
    whole,
)

Tables = Mapping[str, pd.DataFrame]

# --- lens -----------------------------------------------------------------------------------------

# --- tuned-lens -----------------------------------------------------------------------------------

PREDICTS = "a model that predicts the texts better than the frequencies of pieces do"


def tuned_lens(tables: Tables) -> Iterator[Finding]:
    """How close both lenses are, the bias of the logit lens, and what layers predict.

    Lenses of a model that predicts no better than the frequencies of pieces show nothing about
    texts, however close they are to its final predictions: those claims stay undecided.
    """
    layers = {
        (row["stack"], row["layer"], row["lens"]): row for row in rows_of(tables["layers"])
    }
    gains = {
        (row["stack"], row["layer"], row["measure"]): row for row in rows_of(tables["gains"])
    }
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
        unit="layers",
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

# --- attribution ----------------------------------------------------------------------------------
