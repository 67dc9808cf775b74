"""The findings of `train`: how far the loss fell, whether it over-fits, how much text, how fast.

Pure functions from the tables of a run to `Finding`s, the most important one first. Losses are
those of the training objective. Costs: milliseconds.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import pandas as pd

from workbench.core.findings import Finding, Tables, decimal, judged, percent, plural, signed, whole

NAMES = {"held_out": "held-out", "loss": "training"}  # columns of losses


def train(tables: Tables) -> Iterator[Finding]:
    """How far the loss fell, whether it was still falling, the gap, the text and the speed."""
    facts = dict(zip(tables["facts"]["fact"], tables["facts"]["value"], strict=True))
    curves = tables["curves"]
    evaluated = curves[curves["held_out"].notna()]
    if len(curves):
        column = "held_out" if len(evaluated) > 1 else "loss"
        yield _fall(curves[curves[column].notna()], column)
    if len(evaluated) > 1:
        yield _lowest(curves, evaluated)
    if len(evaluated):
        yield _gap(curves, evaluated)
    if len(curves):
        yield _text(facts)
        yield _speed(curves, facts)


def _fall(curves: pd.DataFrame, column: str) -> Finding:
    first, last = _end(curves, 0), _end(curves, -1)
    name = NAMES[column]
    if first["step"] == last["step"]:
        claim = f"The {name} loss was measured once: {decimal(last[column])} nats at step "
        claim += whole(last["step"])
    else:
        what = "fell" if last[column] < first[column] else "did not fall"
        claim = (
            f"The {name} loss {what}: {decimal(first[column])} nats at step "
            f"{whole(first['step'])}, {decimal(last[column])} at step {whole(last['step'])}"
        )
        best = _end(curves, int(curves[column].to_numpy().argmin()))
        if column == "held_out" and best["step"] not in (first["step"], last["step"]):
            claim += f" (lowest: {decimal(best[column])} at step {whole(best['step'])})"
    return Finding(
        f"{claim}.",
        last[column],
        None,
        None,
        judged(last[column] < first[column], first["step"] != last["step"]),
        "curves",
        {"step": last["step"]},
        "loss",
        measure=f"{name} loss at the end",
        unit="nats",
        column=column,
        decided_by="more steps",
    )


def _lowest(curves: pd.DataFrame, evaluated: pd.DataFrame) -> Finding:
    """Whether the model over-fits at the end.

    It does if the held-out loss rises from its minimum at every later evaluation, of which there
    are at least two, while the training loss falls: noise alone does so in fewer than 5 % of runs
    with ten evaluations.
    """
    losses = evaluated["held_out"].to_numpy()
    lowest = int(losses.argmin())
    best, last = _end(evaluated, lowest), _end(evaluated, -1)
    rise = last["held_out"] - best["held_out"]
    over_fits = False
    if lowest == len(losses) - 1:
        before = _end(evaluated, -2)
        change = signed(decimal(last["held_out"] - before["held_out"]))
        claim = (
            f"The held-out loss was lowest at the last step ({change} nats since step "
            f"{whole(before['step'])}), so its minimum may not be reached."
        )
    else:
        training = _mean_loss(curves, evaluated, -1) - _mean_loss(curves, evaluated, lowest)
        rises = losses[lowest + 1 :] > losses[lowest:-1]
        over_fits = bool(training < 0 and len(rises) > 1 and rises.all())
        claim = (
            f"{'The model over-fits: the' if over_fits else 'The'} held-out loss was lowest at "
            f"step {whole(best['step'])} and is {decimal(rise)} nats higher at the end, while the "
            f"training loss changed by {signed(decimal(training))}."
        )
    return Finding(
        claim,
        rise,
        None,
        0.0,
        judged(over_fits, over_fits),
        "curves",
        {"step": best["step"]},
        "loss",
        measure="rise of the held-out loss from its minimum",
        unit="nats",
        decided_by="more steps",
    )


def _gap(curves: pd.DataFrame, evaluated: pd.DataFrame) -> Finding:
    last = _end(evaluated, -1)
    training = _mean_loss(curves, evaluated, -1)
    gap = last["held_out"] - training
    return Finding(
        f"At the end, the held-out loss is {decimal(last['held_out'])} nats and the training loss "
        f"{decimal(training)} (mean since the evaluation before; gap {signed(decimal(gap))}).",
        gap,
        None,
        None,
        "supported",
        "curves",
        {"step": last["step"]},
        "loss",
        measure="gap of held-out and training loss",
        unit="nats",
    )


def _mean_loss(curves: pd.DataFrame, evaluated: pd.DataFrame, index: int) -> float:
    """The mean training loss from the evaluation before to this one."""
    steps = evaluated["step"].tolist()
    index %= len(steps)
    since = steps[index - 1] if index else 0
    here = curves[(curves["step"] > since) & (curves["step"] <= steps[index])]
    return float(here["loss"].mean())


def _text(facts: Mapping[str, str]) -> Finding:
    trained, text = int(facts["tokens trained on"]), int(facts["tokens of text"])
    parameters = int(facts["parameters"])
    return Finding(
        f"The {facts['family']} model of {whole(parameters)} parameters read "
        f"{plural(trained, 'token')}, {decimal(trained / text)} times its text "
        f"(objective: {facts['objective']}).",
        trained,
        None,
        None,
        "supported",
        "facts",
        {"fact": "tokens trained on"},
        measure="tokens trained on",
    )


def _speed(curves: pd.DataFrame, facts: Mapping[str, str]) -> Finding:
    speed, last = curves["tokens_per_second"].median(), _end(curves, -1)
    used = f"; {percent(curves['mfu'].median())} of the peak" if curves["mfu"].notna().any() else ""
    return Finding(
        f"Training took {decimal(last['seconds'], 1)} s for {plural(last['step'], 'step')}, at a "
        f"median of {plural(speed, 'token')} per second on {facts['devices']}{used}.",
        speed,
        None,
        None,
        "supported",
        "curves",
        figure="pace",
        measure="tokens per second",
    )


def _end(curves: pd.DataFrame, index: int) -> dict[str, Any]:
    return cast("list[dict[str, Any]]", curves.to_dict("records"))[index]
