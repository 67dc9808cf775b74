"""The findings of `edge-probing`, `description-length`, `structural-probe` and `attention-probe`.

Pure functions from the tables of a run to `Finding`s, the most important one first. A score
supports that a layer encodes something if the probe learnt its task and the whole 95 % interval of
the score is above those of all baselines; this is stricter than a test of the difference. Where an
interval still has room for a large advantage, the finding is undecided. Costs: milliseconds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

import pandas as pd

from workbench.analyses.probes.experiments import MAX_DATA_GAIN
from workbench.core.findings import (
    MOST,
    Finding,
    Row,
    Tables,
    Unit,
    Verdict,
    capital,
    decimal,
    judged,
    keys_of,
    listing,
    of_all,
    p_text,
    percent,
    plural,
    rows_of,
    score,
    signed,
    span,
    verb_of,
    whole,
)
from workbench.core.head_names import at_state, block_name, head_number
from workbench.core.stats import SIGNIFICANT, holm

EVERY = "every baseline without the trained model"
ROOM = 0.1  # an interval that ends so far above the best baseline leaves the effect undecided
NAMES = {"pos": "POS"}  # tasks that are not written as they are named
MORE_SENTENCES = "more test sentences"
MORE_EPOCHS = "more epochs: the probe was still improving"
MORE_TARGETS = "more training targets: the probe did not learn the task"
MORE_LABELS = "more targets or seeds"
MORE_STEPS = "more variational_steps: the code is longer than that of the label frequencies"


class Baseline(NamedTuple):
    """A score without the effect."""

    name: str
    value: float
    upper: float  # end of its interval; the value, if it has none


class Judged(NamedTuple):
    """The verdict on a score, and what would decide it."""

    verdict: Verdict
    decided_by: str


def _against(
    row: Row,
    value: float,
    baselines: Sequence[Baseline],
    open_because: str = "",
    scale: float = 1.0,
    more: str = MORE_SENTENCES,
) -> Judged:
    """The verdict on a score with its interval against baselines.

    `open_because` says why the probe itself may be at fault, such as too few epochs. `scale` is the
    size of a score: room is measured in units of it. `more` would make the interval smaller.
    """
    above = all(row["lower"] > baseline.upper for baseline in baselines)
    if above and row.get("learnt", True):
        return Judged("supported", "")
    if open_because:
        return Judged("undecided", open_because)
    best = max((baseline.value for baseline in baselines), default=value)
    has_room = row["upper"] - best > ROOM * scale
    return Judged(judged(False, not has_room), more)


def _best(baselines: Iterable[Baseline]) -> Baseline | None:
    return max(baselines, key=lambda each: each.value, default=None)


def _baseline(name: str, rows: pd.DataFrame, value: str) -> list[Baseline]:
    """The highest of these rows as a baseline; none if there is no row."""
    if rows.empty:
        return []
    row = _highest(rows, value)
    return [Baseline(name, float(row[value]), max(float(row["upper"]), float(row[value])))]


def _highest(rows: pd.DataFrame, column: str) -> Row:
    """The row with the highest value; the first one, if there are several."""
    return max(rows_of(rows), key=lambda row: float(row[column]))


def _title(task: object) -> str:
    return NAMES.get(str(task), str(task))


def _known(value: Any) -> bool:
    return bool(pd.notna(value))


def _points(difference: float) -> str:
    """A difference of scores between 0 and 1 in points: `+3.2`."""
    return signed(score(difference))


def _ends(values: Mapping[str, float], text: Any) -> str:
    """One value, or the lowest and the highest with their names."""
    low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    if len(values) == 1:
        return str(text(values[low]))
    return f"{text(values[low])} ({low}) to {text(values[high])} ({high})"


# --- the tasks of edge probing and of description length ------------------------------------------


@dataclass(frozen=True)
class TaskResult:
    """The best layer of a task, with its baselines and the verdict on it."""

    row: Row  # of the table `summary`
    value: float
    baselines: tuple[Baseline, ...]
    judged: Judged
    of_stack: str  # " of the decoder", if there are several stacks
    is_mix: bool = False  # the best probe reads a mix of layers: no layer was probed alone

    @property
    def title(self) -> str:
        return _title(self.row["task"])

    @property
    def is_above(self) -> bool:
        return self.judged.verdict == "supported"

    @property
    def best_baseline(self) -> Baseline | None:
        return _best(self.baselines)

    @property
    def gain(self) -> float:
        """The score above the best baseline."""
        best = self.best_baseline
        return self.value - best.value if best else self.value


def _of_stack(row: Row, summary: pd.DataFrame) -> str:
    return f" of the {row['stack']}" if summary["stack"].nunique() > 1 else ""


def _joint(tasks: Sequence[TaskResult]) -> Judged:
    """The verdict on several tasks: that at least one is above its baselines."""
    undecided = [task.judged.decided_by for task in tasks if task.judged.verdict == "undecided"]
    if any(task.is_above for task in tasks):
        return Judged("supported", "")
    return Judged(judged(False, not undecided), undecided[0] if undecided else "")


def _count_of_tasks(
    tasks: Sequence[TaskResult], relation: str, figure: str, who: str = "The model"
) -> Finding:
    """How many tasks are above every baseline, and which."""
    above = [task for task in tasks if task.is_above]
    others = [task.title for task in tasks if not task.is_above]
    verdict, decided_by = _joint(tasks)
    total = len(tasks)
    count = capital(of_all(len(above), total, "task"))
    count += f" {verb_of(len(above), 'is', 'are')} {relation}"
    if not above:
        names = list(dict.fromkeys(each.name for task in tasks for each in task.baselines))
        claim = f"{count} {EVERY} ({listing(names, 5)})."
    elif all("best_score" in task.row for task in above):
        known = listing([task.title for task in above], 8)
        gains = sorted({score(task.gain): task.gain for task in above}.values())
        points = " to ".join(score(gain) for gain in (gains[0], *gains[1:][-1:]))
        claim = f"{who} knows {known}: {points} points of F1 above the best baseline"
        claim += f"; not {listing(others, 4, 'or')}." if others else "."
    else:
        which = f"; not {listing(others, 4, 'or')}"
        if len(others) >= len(above):
            which = f": {listing([task.title for task in above], 6)}"
        claim = f"{count} {EVERY}{which if others else ''}."
    return Finding(
        claim,
        len(above),
        None,
        0,
        verdict,
        "summary",
        figure=figure,
        measure="tasks above every baseline",
        decided_by=decided_by,
        n=plural(total, "task"),
    )


# --- edge-probing ---------------------------------------------------------------------------------

EDGE = ["task", "probe", "stack"]
SINGLE = ("layer", "top")  # modes of one layer


def edge_probing(tables: Tables) -> Iterator[Finding]:
    """The tasks above every baseline, where in depth, and whether to trust the probes."""
    summary, means = tables["summary"], tables["means"]
    means = means[means["share"] == means["share"].max()]
    tasks = list(_edge_tasks(summary, means))
    several = len(tasks) > 1
    checks = [
        finding
        for finding in (
            _over_layer_0(tasks, means),
            _over_random(tasks),
            _selectivity(tasks),
            _data(tasks, tables),
            _mix(tasks, tables),
            _confusion(tasks, tables),
        )
        if finding is not None
    ]
    first = min(2, len(tasks))
    checks = checks[: MOST - first - several]
    if several:
        yield _count_of_tasks(tasks, "significantly above", "curves")
    for task in tasks[: MOST - len(checks) - several]:
        yield _edge_task(task, means)
    yield from checks


def _edge_tasks(summary: pd.DataFrame, means: pd.DataFrame) -> Iterator[TaskResult]:
    """Each task with the first kind of probe, in its best stack."""
    summary = summary[summary["probe"] == summary["probe"].iloc[0]]
    for _, rows in summary.groupby("task", sort=False):
        row = _highest(rows, "best_score")
        of_task = means[means["task"] == row["task"]]
        same = of_task[of_task["probe"] == row["probe"]]
        at_layer = (same["stack"] == row["stack"]) & (same["layer"] == row["best_layer"])
        baselines = (
            *_baseline("majority", of_task[of_task["encoder"] == "majority"], "mean"),
            *_baseline("static vectors", same[same["encoder"] == "static"], "mean"),
            *_baseline(
                "random weights",
                same[(same["encoder"] == "random") & (same["stack"] == row["stack"])],
                "mean",
            ),
            *_baseline(
                "control task",
                same[same["control"] & at_layer & (same["encoder"] == "model")],
                "mean",
            ),
        )
        value = float(row["best_score"])
        judged_as = _against(row, value, baselines, _open_because(row))
        own = same[at_layer & (same["encoder"] == "model")]
        is_mix = not own["mode"].isin(("lexical", *SINGLE)).any()
        yield TaskResult(row, value, baselines, judged_as, _of_stack(row, summary), is_mix)


def _open_because(row: Row) -> str:
    """Why the probe of a task may itself be at fault; "" if it is not."""
    if not row["converged"]:
        return MORE_EPOCHS
    if not row["learnt"] and _known(row["enough_data"]) and not row["enough_data"]:
        return MORE_TARGETS
    return ""


def _layers_of(task: TaskResult, means: pd.DataFrame) -> pd.DataFrame:
    """The model's scores on the true labels from single layers, by layer."""
    row = task.row
    same = (means[EDGE] == [row[name] for name in EDGE]).all(axis=1)
    rows = means[same & (means["encoder"] == "model") & ~means["control"]]
    return rows[rows["mode"].isin(SINGLE)].drop_duplicates("layer").sort_values("layer")


def _at_best(task: TaskResult) -> str:
    """The best layer of a task within a sentence, with its stack if there are several."""
    return f"{at_state(task.row['best_layer'])}{task.of_stack}"


def _edge_task(task: TaskResult, means: pd.DataFrame) -> Finding:
    """The best layer of a task, its score and its baseline, and the last layer."""
    row, best = task.row, task.best_baseline
    layers = _layers_of(task, means)
    against = f"; {best.name}: {score(best.value)}" if best else ""
    is_bound = _known(row["enough_data"]) and not row["enough_data"]
    at_least = "at least " if is_bound and score(task.value) != score(1) else ""
    number = (
        f"F1 {at_least}{score(task.value)} (95 % {span(row['lower'], row['upper'], 'F1')}{against})"
    )
    layer, is_best = _at_best(task), "are best" if row["best_layer"] == 0 else "is best"
    if task.is_mix:
        layer, is_best = f"the mix up to {layer}", "is best"
    tail = ""
    if len(layers) > 1 and int(layers["layer"].iloc[-1]) != row["best_layer"]:
        last = float(layers["mean"].iloc[-1])
        falls = "falling to " if last < row["lower"] and not is_bound else at_least
        tail = f", {falls}{score(last)} at the last layer"
    if not task.is_above:
        has = "have" if is_best == "are best" else "has"
        claim = f"No layer is significantly above the baselines for {task.title}: {layer} {has} "
        claim = (
            claim
            if len(layers) > 1
            else (
                f"{capital(layer)} {is_best[:-5]} not significantly above the baselines for "
                f"{task.title}: "
            )
        )
        claim += f"{number}."
    elif len(layers) > 1:
        so_far = " so far" if is_bound else ""
        claim = f"{capital(layer)} {is_best} for {task.title}{so_far}: {number}{tail}."
    else:
        claim = f"From {layer}, {task.title} is read with {number}."
    return Finding(
        claim,
        task.value,
        (row["lower"], row["upper"]),
        best.value if best else None,
        task.judged.verdict,
        "summary",
        keys_of(row, *EDGE),
        "curves",
        measure=f"F1 of the best layer: {task.title}",
        unit="F1",
        column="best_score",
        decided_by=task.judged.decided_by,
        n=plural(row["n"], "target"),
    )


def _over_layer_0(tasks: Sequence[TaskResult], means: pd.DataFrame) -> Finding | None:
    """Which tasks need layers above the embeddings, and where they rise."""
    known = [task for task in tasks if task.is_above and _known(task.row["baseline_lexical"])]
    if not known:
        return None
    verdicts = [_above_layer_0(task, means).verdict for task in known]
    rising = [task for task, verdict in zip(known, verdicts, strict=True) if verdict == "supported"]
    keys: Row = {}
    unit: Unit
    if len(tasks) == 1:
        (task,) = known
        keys = {name: task.row[name] for name in EDGE}
        base = float(task.row["baseline_lexical"])
        measure = f"gain over the embeddings: {task.title}"
        value, unit = task.value - base, "points"
        if rising:
            claim = f"{task.title} gains {score(value)} points over the embeddings ({score(base)})"
            claim += _depths(rising) if _expected(task) is not None else ""
        else:
            claim = (
                f"{task.title} gains nothing significant over the embeddings ({score(base)}; "
                f"best layer: {_points(value)} points)"
            )
    else:
        value, unit, measure = len(rising), "", "tasks that gain over the embeddings"
        claim = (
            f"{capital(of_all(len(rising), len(known), 'task'))} above the baselines "
            f"{verb_of(len(rising), 'gains', 'gain')} over the embeddings"
        )
        if len(known) == 1:
            verb = "gains" if rising else "does not significantly gain"
            claim = (
                f"{known[0].title}, the only task above the baselines, {verb} over the embeddings"
            )
        claim += _depths(rising)
    return Finding(
        f"{claim}.",
        value,
        None,
        0,
        judged(rising, rising or "undecided" not in verdicts),
        "summary",
        keys,
        "pipeline" if any(_known(task.row["centre_of_gravity"]) for task in tasks) else "curves",
        measure=measure,
        unit=unit,
        decided_by=MORE_SENTENCES,
    )


def _above_layer_0(task: TaskResult, means: pd.DataFrame) -> Judged:
    row = task.row
    if row["best_layer"] == 0:
        return Judged("not supported", "")
    same = (means[EDGE] == [row[name] for name in EDGE]).all(axis=1)
    lexical = means[same & (means["mode"] == "lexical") & ~means["control"]]
    return _against(row, task.value, _baseline("embeddings", lexical, "mean"))


def _expected(task: TaskResult) -> float | None:
    """The expected layer; None if it is not defined, or below the layers."""
    expected = task.row["expected_layer"]
    return float(expected) if _known(expected) and expected >= 0 else None


def _depths(tasks: Sequence[TaskResult]) -> str:
    """The tasks by expected layer; by best layer if no expected layer is defined: `; …`."""
    if all(task.is_mix and _expected(task) is None for task in tasks):
        return ""
    expected = {task.title: depth for task in tasks if (depth := _expected(task)) is not None}
    best = {task.title: int(task.row["best_layer"]) for task in tasks if not task.is_mix}
    kind, depths = ("expected", expected) if expected else ("best", best)
    ordered = sorted(depths, key=lambda title: depths[title])
    texts = [
        f"{title} {decimal(depths[title], 1) if expected else whole(depths[title])}"
        for title in ordered
    ]
    without = [task.title for task in tasks if task.title not in depths]
    rest = f" (none for {listing(without, 4, 'or')})" if without else ""
    if len(tasks) == 1:
        return f"; {kind} layer: {texts[0].removeprefix(f'{ordered[0]} ')}"
    return f"; {kind} {verb_of(len(texts), 'layer', 'layers')}: {listing(texts, 8)}{rest}"


def _over_random(tasks: Sequence[TaskResult]) -> Finding | None:
    """What training added: the best layer above the same model with random weights."""
    compared = [
        replace(task, baselines=(each,), judged=_against(row, task.value, [each], because))
        for task in tasks
        for row, because in [(task.row, _open_because(task.row))]
        for each in task.baselines
        if each.name == "random weights"
    ]
    if not compared:
        return None
    joint = _joint(compared)
    gains = {task.title: task.gain for task in compared}
    above = {task.title: task.gain for task in compared if task.is_above}
    of_task = f" for {tasks[0].title}" if len(tasks) == 1 else ""
    differs, others = "is not shown to differ from random weights:", ""
    if above:
        differs = "differs from random weights by"
        open_tasks = [f"{name} ({_points(gains[name])})" for name in gains if name not in above]
        others = f"; not shown for {listing(open_tasks, 4)}" if open_tasks else ""
    text = _ends(above or gains, _points)
    if len(above) == 1 and others:
        text += f" ({next(iter(above))})"
    return Finding(
        f"The best layer{of_task} {differs} {text} points of F1{others}.",
        median(gains.values()),
        None,
        0,
        joint.verdict,
        "summary",
        figure="baselines",
        measure="median gain over random weights",
        unit="points",
        decided_by=joint.decided_by,
    )


def _selectivity(tasks: Sequence[TaskResult]) -> Finding | None:
    """Whether the probes could have learnt any labels."""
    gaps = {
        task.title: float(task.row["selectivity"])
        for task in tasks
        if _known(task.row["selectivity"])
    }
    if not gaps:
        return None
    joint = _joint(tasks)
    middle = median(gaps.values())
    verdict = joint.verdict if middle > 0 else "not supported"
    but = "" if verdict == "supported" else ", of probes that are not above their baselines"
    return Finding(
        f"Selectivity, F1 minus that of random labels by word type, is {_ends(gaps, score)}{but}.",
        middle,
        None,
        0,
        verdict,
        "summary",
        figure="selectivity",
        measure="median selectivity",
        unit="points",
        decided_by=joint.decided_by,
    )


def _data(tasks: Sequence[TaskResult], tables: Tables) -> Finding | None:
    """Whether the probes had enough data and epochs."""
    means = tables["means"]
    shares = means["share"].nunique()
    means = means[(means["share"] == means["share"].max()) & (means["encoder"] == "model")]
    probes = means[~means["control"]].drop_duplicates(["task", "probe", "stack", "layer", "mean"])
    cut = int((~probes["converged"].astype(bool)).sum())
    epochs = f"{of_all(cut, len(probes), 'probe')} did not converge"
    known = [task for task in tasks if _known(task.row["data_gain"])]
    figure = "learning" if shares > 1 else "curves"
    if not known:
        if not cut:
            return None
        return Finding(
            f"{capital(epochs)}: the maximum number of epochs is too low.",
            cut,
            None,
            None,
            "not supported",
            "means",
            measure="probes that did not converge",
            figure=figure,
        )
    most = max(known, key=lambda task: float(task.row["data_gain"]))
    short = [task for task in known if task.row["data_gain"] > MAX_DATA_GAIN]
    row = most.row
    where = at_state(row["data_gain_layer"])
    where = f"{most.title}, {where}" if len(known) > 1 else where
    gain = f"the second half of the targets adds up to {score(row['data_gain'])} points ({where})"
    if row["data_gain"] <= 0:
        claim = "Training targets are enough: half of them give the same scores"
    elif short:
        n = len(short)
        curves = capital(of_all(n, len(known), "curve"))
        if len(known) == 1:
            curves = f"The curve of {most.title}"
        claim = f"{curves} still {_rise(n)}; {gain}"
    else:
        claim = f"Training targets are enough: {gain}"
    return Finding(
        f"{claim}{f'; {epochs}' if cut else ''}.",
        row["data_gain"],
        None,
        None,
        judged(not short and not cut),
        "summary",
        keys_of(row, *EDGE),
        figure,
        measure="largest gain from the second half of the targets",
        unit="points",
        column="data_gain",
    )


def _mix(tasks: Sequence[TaskResult], tables: Tables) -> Finding | None:
    """The centre of gravity of the learned mixes of all layers."""
    centres = {
        task.title: float(task.row["centre_of_gravity"])
        for task in tasks
        if _known(task.row["centre_of_gravity"])
    }
    if not centres:
        return None
    equal = float(tables["mix"]["layer"].drop_duplicates().mean())
    one = len(centres) == 1
    subject = "The learned mix of all layers has its centre" if one else "The learned mixes of all "
    subject += "" if one else "layers have their centres"
    return Finding(
        f"{subject} of gravity at layer {_ends(centres, lambda each: decimal(each, 2))}; equal "
        f"weights: {decimal(equal, 1)}.",
        sum(centres.values()) / len(centres),
        None,
        None,
        "supported",
        "summary",
        figure="mixes",
        measure="mean centre of gravity of the mixes",
    )


def _confusion(tasks: Sequence[TaskResult], tables: Tables) -> Finding | None:
    """The most frequent error in the first task with one label per target."""
    table = tables["confusion"]
    for task in tasks:
        row = task.row
        keys = {**keys_of(row, *EDGE), "layer": row["best_layer"]}
        rows = table[(table[list(keys)] == list(keys.values())).all(axis=1)]
        rows = rows[rows["mode"].isin(("lexical", *SINGLE))]
        errors = rows[rows["gold"] != rows["predicted"]]
        if errors.empty:
            continue
        first = _highest(errors, "n")
        total = int(errors["n"].sum())
        return Finding(
            f"The most frequent error in {task.title} at {at_state(row['best_layer'])} is "
            f"`{first['gold']}` read as `{first['predicted']}`: {whole(first['n'])} of "
            f"{plural(total, 'error')}.",
            first["n"] / total,
            None,
            None,
            "supported",
            "confusion",
            {**keys, **keys_of(first, "mode", "gold", "predicted")},
            "confusions",
            measure=f"share of the most frequent error: {task.title}",
            unit="%",
        )
    return None


# --- one layer of edge-probing --------------------------------------------------------------------


def one_layer(tables: Tables, layer: int) -> Iterator[Finding]:
    """What one layer knows above every baseline, and against the layers below and above it."""
    summary, means = tables["summary"], tables["means"]
    single = means[(means["share"] == means["share"].max()) & means["mode"].isin(SINGLE)]
    single = single[(single["encoder"] == "model") & ~single["control"]]
    at = single[single["layer"] == layer].drop_duplicates(EDGE).set_index(EDGE)
    summary = summary[summary.set_index(EDGE).index.isin(at.index)]
    if summary.empty:
        return
    here = at.loc[summary.set_index(EDGE).index]
    scored = {"best_score": "mean", **{name: name for name in ("lower", "upper", "n")}}
    scored |= {name: name for name in ("converged", "learnt")}
    shown = summary.assign(
        best_layer=layer, **{name: here[column].to_numpy() for name, column in scored.items()}
    )
    name = capital(at_state(layer))
    yield _count_of_tasks(list(_edge_tasks(shown, means)), "significantly above", "curves", name)
    for other, sign in ((layer - 1, 1), (layer + 1, -1)):
        rows = single[single["layer"] == max(layer, other)].drop_duplicates(EDGE)
        if (rows := rows[rows["p_value"].notna()]).size and other >= 0:
            yield _against_neighbour(rows, name, at_state(other), sign)


def _against_neighbour(rows: pd.DataFrame, name: str, other: str, sign: int) -> Finding:
    """The tasks on which a layer is better or worse than the next one, p corrected over tasks."""
    rows = rows.assign(gain=sign * rows["delta"], p=holm(rows["p_value"].to_numpy()))
    sure = rows[rows["p"] < SIGNIFICANT]

    def named(which: pd.DataFrame) -> str:
        parts = [
            f"{_title(row['task'])}{_of_stack(row, rows)} ({_points(row['gain'])})"
            for row in rows_of(which)
        ]
        return listing(parts, 8)

    better, worse = sure[sure["gain"] > 0], sure[sure["gain"] < 0]
    parts = [
        f"{words} on {named(which)}"
        for words, which in (("better", better), ("worse", worse))
        if len(which)
    ]
    n_open = len(rows) - len(sure)
    rest = f"; {plural(n_open, 'task')} undecided" if n_open and parts else ""
    claim = (
        f"Compared with {other}, {name.lower()} is {' and '.join(parts)}, in points of F1{rest}."
        if parts
        else f"No task shows a difference between {name.lower()} and {other}: none is significant."
    )
    return Finding(
        claim,
        len(better) - len(worse),
        None,
        0,
        judged(len(sure), len(sure)),
        "means",
        figure="curves",
        measure=f"tasks on which a layer is better, minus worse, than {other}",
        decided_by=MORE_SENTENCES,
        n=plural(len(rows), "task"),
    )


# --- description-length ---------------------------------------------------------------------------

CODE = ["task", "probe", "code", "stack"]


def description_length(tables: Tables) -> Iterator[Finding]:
    """The tasks that a layer codes shorter than the baselines do, and how much data that takes."""
    summary = tables["summary"]
    code = summary["code"].iloc[0]
    tasks = list(_code_tasks(summary, code))
    several = len(tasks) > 1
    others = [
        _code_task(task, tables["codes"])
        for other in dict.fromkeys(summary["code"])
        if other != code
        for task in list(_code_tasks(summary, other))[:1]
    ]
    checks = [
        finding
        for finding in (
            _code_over_layer_0(tasks[0]),
            _code_of_control(tasks[0]),
            *others,
            _last_block(tasks[0], tables),
            _cut_codes(tables["codes"]),
        )
        if finding is not None
    ]
    if several:
        yield _count_of_tasks(tasks, "coded significantly shorter than by", "compression")
    checks = checks[: MOST - several - min(2, len(tasks))]
    for task in tasks[: MOST - several - len(checks)]:
        yield _code_task(task, tables["codes"])
    yield from checks


def _code_tasks(summary: pd.DataFrame, code: str) -> Iterator[TaskResult]:
    """Each task with one kind of code, in its best stack."""
    names = {
        "label frequencies": "baseline_frequency",
        "static vectors": "baseline_static",
        "random weights": "baseline_random",
        "control task": "control_compression",
    }
    for _, rows in summary[summary["code"] == code].groupby("task", sort=False):
        row = _highest(rows, "compression")
        baselines = tuple(
            Baseline(name, float(row[column]), float(row[column]))
            for name, column in names.items()
            if _known(row[column])
        )
        value = float(row["compression"])
        open_because = ""
        if code == "variational" and value < row["baseline_frequency"]:
            open_because = MORE_STEPS
        scale = max(baseline.value for baseline in baselines)
        judged_as = _against(row, value, baselines, open_because, scale, MORE_LABELS)
        yield TaskResult(row, value, baselines, judged_as, _of_stack(row, summary))


def _code_task(task: TaskResult, codes: pd.DataFrame) -> Finding:
    """The layer with the shortest code of a task, and the last layer."""
    row, best = task.row, task.best_baseline
    of_model = codes[(codes["encoder"] == "model") & ~codes["control"].astype(bool)]
    same = of_model[(of_model[CODE] == [row[name] for name in CODE]).all(axis=1)]
    by_layer = same.groupby("layer")["compression"].mean()
    layer = _at_best(task)
    interval = f"95 % {decimal(row['lower'], 2)} to {decimal(row['upper'], 2)}"
    interval += f"; {best.name}: {decimal(best.value, 2)}" if best else ""
    compression = f"compression {decimal(row['compression'], 2)}"
    code = f"{row['code']} code"
    if task.is_above:
        gives = "give" if row["best_layer"] == 0 else "gives"
        claim = (
            f"{capital(layer)} {gives} the shortest {code} of {task.title}: "
            f"{percent(1 / task.value)} of the uniform code ({compression}, {interval})"
        )
        if len(by_layer) > 1 and int(by_layer.index[-1]) != row["best_layer"]:
            claim += f"; last layer: {decimal(by_layer.iloc[-1], 2)}"
    else:
        claim = (
            f"No {code} of {task.title} is significantly shorter than the baselines': "
            f"{compression} at {layer} ({interval})"
        )
    return Finding(
        f"{claim}.",
        task.value,
        (row["lower"], row["upper"]),
        best.value if best else None,
        task.judged.verdict,
        "summary",
        keys_of(row, *CODE),
        "compression",
        measure=f"compression of the best layer: {task.title}, {code}",
        column="compression",
        decided_by=task.judged.decided_by,
        n=plural(row["n"], "target"),
    )


def _code_over_layer_0(task: TaskResult) -> Finding | None:
    """Whether layers above the embeddings shorten the code."""
    row = task.row
    if not task.is_above:
        return None
    base = float(row["baseline_lexical"])
    verdict, decided_by = _against(
        row, task.value, [Baseline("embeddings", base, base)], scale=base, more=MORE_LABELS
    )
    numbers = f"compression {decimal(task.value, 2)} against {decimal(base, 2)}"
    layer = at_state(row["best_layer"])
    if row["best_layer"] == 0:
        verdict = "not supported"
        claim = (
            f"No layer codes {task.title} shorter than the embeddings (compression "
            f"{decimal(base, 2)})"
        )
    elif verdict == "supported":
        claim = (
            f"The code of {task.title} is {decimal(task.value / base, 2)} times shorter at "
            f"{layer} than at the embeddings ({numbers})"
        )
    else:
        claim = (
            f"The code of {task.title} is not significantly shorter at {layer} than at the "
            f"embeddings ({numbers})"
        )
    return Finding(
        f"{claim}.",
        task.value / base,
        None,
        1,
        verdict,
        "summary",
        keys_of(row, *CODE),
        "beside",
        measure=f"compression over that of the embeddings: {task.title}",
        decided_by=decided_by,
    )


def _code_of_control(task: TaskResult) -> Finding | None:
    """How much of the compression a control task has too."""
    row = task.row
    control = row["control_compression"]
    if not _known(control):
        return None
    saved = 1 - 1 / task.value
    of_control = 1 - 1 / float(control)
    verdict = task.judged.verdict if saved > of_control else "not supported"
    shown = "is not shown to know more than word types: it " if verdict == "not supported" else ""
    return Finding(
        f"At {at_state(row['best_layer'])} the code of {task.title} {shown}saves {percent(saved)} "
        f"of the uniform code; that of random labels by word type saves {percent(of_control)}.",
        saved - of_control,
        None,
        0,
        verdict,
        "summary",
        keys_of(row, *CODE),
        "beside",
        measure=f"share saved beyond the control task: {task.title}",
        unit="points",
        decided_by=task.judged.decided_by,
    )


def _last_block(task: TaskResult, tables: Tables) -> Finding | None:
    """Bits per label of the first and the last block of the online code."""
    table, row = tables["portions"], task.row
    keys = keys_of(row, "task", "probe", "stack")
    keys |= {"encoder": "model", "layer": row["best_layer"], "control": False}
    rows = table[(table[list(keys)] == list(keys.values())).all(axis=1)]
    if rows.empty or row["code"] != "online" or rows["portion"].nunique() < 2:
        return None
    sums = rows.groupby("portion")[["bits", "targets"]].sum()
    bits = sums["bits"] / sums["targets"]
    before = float(bits.index[-2])
    return Finding(
        f"Trained on {percent(before)} of the targets, the probe codes a label of {task.title} in "
        f"{decimal(bits.iloc[-1], 2)} bits; the first block takes {decimal(bits.iloc[0], 2)}.",
        bits.iloc[-1],
        None,
        None,
        "supported",
        "portions",
        keys,
        "blocks",
        measure=f"bits per label in the last block: {task.title}",
        unit="bits",
    )


def _cut_codes(codes: pd.DataFrame) -> Finding | None:
    """How many of the online code's last probes did not converge."""
    trained = codes[codes["converged"].notna() & (codes["encoder"] == "model")]
    cut = int((~trained["converged"].astype(bool)).sum())
    if not cut:
        return None
    return Finding(
        f"{capital(of_all(cut, len(trained), 'probe'))} of the online code did not converge: the "
        "maximum number of epochs is too low.",
        cut,
        None,
        None,
        "not supported",
        "codes",
        measure="probes that did not converge",
    )


# --- structural-probe -----------------------------------------------------------------------------

TREE_CLAIMS = {
    "uuas": "Distances at {layer} recover {value} of the gold edges (UUAS, ",
    "dspr": "Distances at {layer} correlate with distances in the tree (DSpr {value}, ",
    "root": "Depths at {layer} find the root of {value} of sentences (",
    "nspr": "Depths at {layer} correlate with depths in the tree (NSpr {value}, ",
}
TREE_NAMES = {"uuas": "UUAS", "dspr": "DSpr", "root": "share of roots", "nspr": "NSpr"}
TREE_TITLES = TREE_NAMES | {"root": "the share of roots"}  # in a sentence
SHARES = ("uuas", "root")


def structural_probe(tables: Tables) -> Iterator[Finding]:
    """The trees in the best layer, where they arise, and whether the sentences were enough."""
    summary, means = tables["summary"], tables["means"]
    several = summary["stack"].nunique() > 1
    rows = [
        row
        for metric in dict.fromkeys(summary["metric"])
        for row in rows_of(summary[summary["metric"] == metric])
    ]
    scores = [_tree_score(row, means, several) for row in rows]
    checks = [
        finding
        for finding in (
            _tree_gain(rows[0], means, scores[0]),
            _shown_trees(rows[0], tables),
            _tree_data(rows, means),
        )
        if finding is not None
    ]
    yield from scores[: MOST - len(checks)]
    yield from checks


def _tree_text(metric: str, value: object) -> str:
    return percent(value, 1) if metric in SHARES else decimal(value, 2)


def _tree_layers(row: Row, means: pd.DataFrame, encoder: str = "model") -> pd.DataFrame:
    """The rows of `means` of one measure and encoder; of a model, of one stack."""
    rows = means[(means["metric"] == row["metric"]) & (means["encoder"] == encoder)]
    if encoder in ("model", "random"):
        rows = rows[rows["stack"] == row["stack"]]
    ordered: pd.DataFrame = rows.sort_values("layer")
    return ordered


def _tree_score(row: Row, means: pd.DataFrame, several: bool) -> Finding:
    """A measure of the trees at the layer that is best on dev."""
    metric, stack = str(row["metric"]), row["stack"]
    random = _tree_layers(row, means, "random")
    random = random[(random["value"] - row["baseline_random"]).abs() < 1e-9]  # chosen on dev
    baselines = [
        *_baseline("a chain of words", _tree_layers(row, means, "chain"), "value"),
        *_baseline("random weights", random, "value"),
        *_baseline("static vectors", _tree_layers(row, means, "static"), "value"),
    ]
    layers = _tree_layers(row, means)
    at = rows_of(layers[layers["layer"] == row["best_layer"]])[0]
    value, best = float(row["best_score"]), _best(baselines)
    verdict, decided_by = _against(at, value, baselines, "" if at["converged"] else MORE_EPOCHS)
    layer = f"{at_state(row['best_layer'])}{f' of the {stack}' if several else ''}"
    if layers["value"].max() > value + 1e-9:  # the figure has another peak
        layer += ", the best on dev,"
    text = _tree_text(metric, value)
    ends = " to ".join(
        _tree_text(metric, row[end]).removesuffix(" %") for end in ("lower", "upper")
    )
    numbers = f"95 % {ends}{f'; {best.name}: {_tree_text(metric, best.value)}' if best else ''}"
    is_bound = bool((layers["half_loss"] > MAX_DATA_GAIN).any())  # more sentences raise the curve
    if verdict == "supported":
        least = f"at least {text}" if is_bound and value < 1 else text
        claim = f"{TREE_CLAIMS[metric].format(layer=layer, value=least)}{numbers})"
        last = layers.iloc[-1]
        if not is_bound and last["layer"] != row["best_layer"]:
            falls = "falling to " if last["value"] < row["lower"] else ""
            claim += f", {falls}{_tree_text(metric, last['value'])} at the last layer"
    else:
        name = TREE_NAMES[metric]
        subject = f"The {name}" if metric == "root" else name
        claim = f"{subject} at {layer} is not significantly above the baselines: {text} ({numbers})"
    return Finding(
        f"{claim}.",
        value,
        (row["lower"], row["upper"]),
        best.value if best else None,
        verdict,
        "summary",
        keys_of(row, "task", "metric", "stack"),
        "layers",
        measure=f"{TREE_NAMES[metric]} at the best layer{f', {stack}' if several else ''}",
        unit="%" if metric in SHARES else "",
        column="best_score",
        decided_by=decided_by,
        n=plural(at["n"], "gold edge" if metric == "uuas" else "sentence"),
    )


def _tree_gain(row: Row, means: pd.DataFrame, of_best: Finding) -> Finding | None:
    """The layer that adds most to the layer below, tested with Bonferroni's correction."""
    metric = str(row["metric"])
    gains = _tree_layers(row, means)
    gains = gains[gains["p_value"].notna()]
    if gains.empty:
        return None
    most = _highest(gains, "delta")
    p = min(1.0, float(most["p_value"]) * len(gains))
    rises = most["delta"] > 0 and p < SIGNIFICANT
    points = 100 if metric in SHARES else 1
    name = TREE_TITLES[metric]
    unit = " points" if metric in SHARES else ""
    delta, low, high = (
        decimal(points * float(most[column]), 1 if points > 1 else 2)
        for column in ("delta", "delta_lower", "delta_upper")
    )
    layer, below = at_state(most["layer"]), at_state(most["layer"] - 1)
    correction = f"{p_text(p)}, corrected for {plural(len(gains), 'layer')}"
    gain = f"{signed(delta)}{unit} over {below} (95 % {low} to {high}; {correction})"
    if not rises:
        claim = f"No layer adds significantly to {name}: {layer} has {gain}"
    elif not most["learnt"]:
        claim = f"{capital(layer)} adds most to {name}, {gain}, but is no better than the baselines"
    else:
        claim = f"{capital(layer)} adds most to {name}: {gain}"
    return Finding(
        f"{claim}.",
        most["delta"],
        (most["delta_lower"], most["delta_upper"]),
        0,
        of_best.verdict if rises and most["learnt"] else "not supported",
        "means",
        keys_of(most, "task", "encoder", "stack", "layer", "metric"),
        "layers",
        measure=f"largest gain in {TREE_NAMES[metric]} over the layer below",
        unit="points" if metric in SHARES else "",
        column="delta",
        decided_by=of_best.decided_by,
        n=plural(most["n"], "gold edge" if metric == "uuas" else "sentence"),
    )


def _shown_trees(row: Row, tables: Tables) -> Finding | None:
    """How many gold edges the predicted trees of the shown sentences have."""
    trees = tables["trees"]
    trees = trees[trees["stack"] == row["stack"]]
    if trees.empty:
        return None
    right = total = 0
    for _, words in trees.groupby("sentence", sort=False):
        is_word = (~words["punctuation"].astype(bool)).tolist()
        gold, predicted = (
            {
                frozenset((word, int(other)))
                for word, other in enumerate(words[column])
                if other >= 0 and is_word[word] and is_word[int(other)]
            }
            for column in ("head", "neighbour")
        )
        right, total = right + len(gold & predicted), total + len(gold)
    if not total:
        return None
    sentences = trees["sentence"].nunique()
    return Finding(
        f"In the {plural(sentences, 'sentence')} shown, {of_all(right, total, 'gold edge')} "
        f"{verb_of(right, 'is', 'are')} predicted at {at_state(trees['layer'].iloc[0])}.",
        right / total,
        None,
        None,
        "supported",
        "trees",
        {"stack": row["stack"]},
        "tree",
        measure="gold edges predicted in the sentences shown",
        unit="%",
    )


def _tree_data(rows: Sequence[Row], means: pd.DataFrame) -> Finding | None:
    """Whether half of the sentences would have given the same curves; see `_tree_score`."""
    curves = [_tree_layers(row, means) for row in rows]
    curves = [layers[layers["half_loss"].notna()] for layers in curves]
    most = [_highest(layers, "half_loss") for layers in curves if len(layers)]
    if not most:
        return None
    at = max(most, key=lambda row: float(row["half_loss"]))
    rising = sum(row["half_loss"] > MAX_DATA_GAIN for row in most)
    metric, lost = str(at["metric"]), float(at["half_loss"])
    change = f"{_points(-lost)} points" if metric in SHARES else signed(decimal(-lost, 2))
    claim = "Training sentences are enough"
    if rising:
        claim = f"{capital(of_all(rising, len(most), 'curve'))} still {_rise(rising)}"
    return Finding(
        f"{claim}; with half of the sentences, the {TREE_NAMES[metric]} at "
        f"{at_state(at['layer'])} changes by {change}.",
        lost,
        None,
        None,
        judged(not rising),
        "means",
        keys_of(at, "task", "encoder", "stack", "layer", "metric"),
        "layers",
        measure="largest loss with half of the sentences",
        unit="points" if metric in SHARES else "",
        column="half_loss",
    )


def _rise(number: int) -> str:
    """What curves do that more data would change, and how to read them."""
    bounds = (
        f"{verb_of(number, 'it', 'them')} as {verb_of(number, 'a lower bound', 'lower bounds')}"
    )
    return f"{verb_of(number, 'rises', 'rise')} with more data: read {bounds}"


# --- attention-probe ------------------------------------------------------------------------------

ALL = -1  # the layer of a probe that reads all heads
ATTENTION, BOTH, WORDS = "attention", "attention and words", "words"
FREQUENT = 20  # words: relations with fewer have no score worth naming


def attention_probe(tables: Tables) -> Iterator[Finding]:
    """How many words find their head from attention, and what that owes to position and words."""
    summary, means = tables["summary"], tables["means"]
    of_heads = summary[summary["probe"] == ATTENTION]
    both = summary[summary["probe"] == BOTH]
    several = of_heads["stack"].nunique() > 1
    first = rows_of(of_heads)[0]
    found = [_attached(row, means, several) for row in rows_of(of_heads)]
    judged_first = found[0]
    found += [_attached(row, means, several) for row in rows_of(both)]
    checks = (
        _one_layer(first, means, several, judged_first),
        _relations(first, tables["by_relation"]),
        _heaviest_head(first, tables["weights"]),
        _attached_data(first),
        _attached_selectivity(first, judged_first),
    )
    kept = [finding for finding in checks if finding is not None]
    found = found[: MOST - min(len(kept), 4)]
    yield from found
    yield from kept[: MOST - len(found)]


def _probed(means: pd.DataFrame, **key: object) -> pd.DataFrame:
    """The rows with these values."""
    return means[(means[list(key)] == list(key.values())).all(axis=1)]


def _attached(row: Row, means: pd.DataFrame, several: bool) -> Finding:
    """The share of words attached right by a probe of all heads of a stack."""
    probe, stack = row["probe"], row["stack"]
    key = {"probe": probe, "stack": stack, "layer": ALL}
    own = rows_of(_probed(means, encoder="model", control=False, **key))[0]
    fixed = "best fixed offset" if own["baseline"] == row["baseline_offset"] else "uniform guess"
    baselines = [
        Baseline(fixed, float(own["baseline"]), float(own["baseline"])),
        *_baseline(
            "random weights", _probed(means, encoder="random", control=False, **key), "value"
        ),
        *_baseline("control task", _probed(means, encoder="model", control=True, **key), "value"),
    ]
    if probe == BOTH:
        baselines += _baseline("words alone", _probed(means, probe=WORDS, control=False), "value")
    value, best = float(row["uas"]), _best(baselines)
    verdict, decided_by = _against(
        own, value, baselines, "" if own["converged"] else "more steps of the optimiser"
    )
    heads = f"all heads{f' of the {stack}' if several else ''}"
    what = f"The attention of {heads}"
    what += " with word vectors" if probe == BOTH else ""
    numbers = f"95 % {span(row['lower'], row['upper'], '%')}"
    numbers += f"; {best.name}: {percent(best.value, 1)}" if best else ""
    if verdict == "supported":
        claim = f"{what} attaches {percent(value, 1)} of words to their gold head ({numbers})."
    else:
        claim = (
            f"{what} is not significantly above the baselines: UAS {percent(value, 1)} ({numbers})."
        )
    words = " and words" if probe == BOTH else ""
    return Finding(
        claim,
        value,
        (row["lower"], row["upper"]),
        best.value if best else None,
        verdict,
        "summary",
        {"stack": stack, "probe": probe},
        "layers",
        measure=f"UAS from the attention of all heads{words}{f', {stack}' if several else ''}",
        unit="%",
        column="uas",
        decided_by=decided_by,
        n=plural(row["n"], "word"),
    )


def _one_layer(row: Row, means: pd.DataFrame, several: bool, of_probe: Finding) -> Finding | None:
    """Whether all heads together are better than the heads of the best layer."""
    if row["best_layer"] < 0:
        return None
    key = {"probe": ATTENTION, "encoder": "model", "stack": row["stack"], "control": False}
    layer = _probed(means, layer=row["best_layer"], **key)
    own = rows_of(_probed(means, layer=ALL, **key))[0]
    uas, of_layer = float(row["uas"]), float(row["best_layer_uas"])
    verdict, decided_by = _against({**own, "learnt": True}, uas, _baseline("layer", layer, "value"))
    better_by = "significantly" if verdict == "supported" else "not significantly"
    if of_probe.verdict != "supported":
        verdict, decided_by = of_probe.verdict, of_probe.decided_by
    of_stack = f" of the {row['stack']}" if several else ""
    return Finding(
        f"All heads{of_stack} together are {better_by} better than those of one layer: "
        f"{percent(uas, 1)} against {percent(of_layer, 1)} at {block_name(row['best_layer'])}, "
        "the best on dev.",
        uas - of_layer,
        None,
        0,
        verdict,
        "summary",
        {"stack": row["stack"], "probe": ATTENTION},
        "layers",
        measure="gain of all heads over those of the best layer",
        unit="points",
        decided_by=decided_by,
    )


def _relations(row: Row, by_relation: pd.DataFrame) -> Finding | None:
    """The relations that the probe finds most and least often."""
    rows = _probed(by_relation, stack=row["stack"], probe=ATTENTION)
    rows = rows[rows["n"] >= FREQUENT]
    if len(rows) < 2:
        return None
    high, low = (pick(rows_of(rows), key=lambda row: float(row["uas"])) for pick in (max, min))
    texts = [
        f"`{each['relation']}` ({percent(each['uas'])}; best offset: {percent(each['baseline'])})"
        for each in (high, low)
    ]
    return Finding(
        f"Of {len(rows)} relations with {FREQUENT} words or more, the heads find {texts[0]} most "
        f"often and {texts[1]} least often.",
        high["uas"],
        None,
        None,
        "supported",
        "by_relation",
        keys_of(high, "stack", "probe", "relation"),
        "relations",
        measure="UAS of the relation found most often",
        unit="%",
        column="uas",
    )


def _heaviest_head(row: Row, table: pd.DataFrame) -> Finding | None:
    """The head with the largest weight in the probe of all heads."""
    rows = table[table["stack"] == row["stack"]]
    if rows.empty:
        return None
    columns = ["weight_to_head", "weight_from_head"]
    column = max(columns, key=lambda each: float(rows[each].max()))
    head = _highest(rows, column)
    is_up = column == columns[0]
    side = "from a word to its governor" if is_up else "from a governor to its dependents"
    return Finding(
        f"The probe gives most weight to head {head_number(head['layer'], head['head'])}, to its "
        f"attention {side} ({decimal(head[column], 2)}).",
        head[column],
        None,
        None,
        "supported",
        "weights",
        keys_of(head, "stack", "layer", "head"),
        "weights",
        measure="largest weight of a head",
        column=column,
    )


def _attached_selectivity(row: Row, of_probe: Finding) -> Finding | None:
    if not _known(row["selectivity"]):
        return None
    return Finding(
        f"Selectivity is {score(row['selectivity'])} points: in the control task, random by word "
        f"type, the same probe attaches {percent(row['control'], 1)} of words.",
        row["selectivity"],
        None,
        0,
        of_probe.verdict if row["selectivity"] > 0 else "not supported",
        "summary",
        {"stack": row["stack"], "probe": ATTENTION},
        "layers",
        measure="selectivity of the attention probe",
        unit="points",
        column="selectivity",
        decided_by=of_probe.decided_by,
    )


def _attached_data(row: Row) -> Finding | None:
    """Whether half of the sentences would have given the same score."""
    if not _known(row["uas_half"]):
        return None
    lost = float(row["uas"]) - float(row["uas_half"])
    enough = lost <= MAX_DATA_GAIN
    claim = "Training sentences are enough" if enough else f"The score still {_rise(1)}"
    return Finding(
        f"{claim}; with half of the sentences, {percent(row['uas_half'], 1)} of words find their "
        f"head ({_points(-lost)} points).",
        row["uas_half"],
        None,
        None,
        judged(enough),
        "summary",
        {"stack": row["stack"], "probe": ATTENTION},
        "layers",
        measure="UAS with half of the sentences",
        unit="%",
        column="uas_half",
    )
