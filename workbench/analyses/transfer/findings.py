"""The findings of `frozen-vs-finetuned`, `finetune`, `pretraining`, `drift` and `similarity`.

Pure functions from the tables of a run to `Finding`s, the most important one first. A table that
was not made gives no findings. Comparisons of several cells use Holm's correction of the p-values
in the table. One seed decides no comparison: the interval then has no variation between trainings.
Costs: milliseconds.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from workbench.analyses.transfer.studies import ARMS, NEXT, PER_PIECE
from workbench.core.findings import (
    SMALL,
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
    shown,
    signed,
    span,
    verb_of,
    whole,
)
from workbench.core.head_names import head_number, state_name
from workbench.core.metrics import spelt
from workbench.core.stats import DRAWS, SIGNIFICANT, holm
from workbench.models.references import as_random

FLOOR = 2 / (DRAWS + 1)  # the smallest p-value that the bootstrap can give
WIDTH = 3.919928  # of a 95 % interval, in standard errors
ERROR = "mse"  # the metric where less is better, and which is no share
TRAINED = {  # methods as the subject of a sentence
    "frozen": "a frozen model",
    "fine-tuned": "fine-tuning",
    "gradual": "gradual unfreezing",
    "top": "training the top layers",
    "lora": "LoRA",
    "adapters": "adapter tuning",
    "adamix": "AdaMix",
    "prefix": "prefix tuning",
    "prompt": "prompt tuning",
    "bitfit": "BitFit",
}
EFFICIENT = (
    "lora",
    "adapters",
    "adamix",
    "prefix",
    "prompt",
    "bitfit",
)  # methods that train few weights
KEYS = ("task", "model", "method", "metric")
CELL = ("task", "model", "method", "head")
MORE_SEEDS = "more seeds: one training of each shows no variation between trainings"
SCORED = "more scored texts (a larger test split, or max_test where it is set)"
MORE_TEXTS = f"{SCORED}: differences over 5 points are not excluded"


def _fact(
    claim: str,
    value: float,
    table: str,
    keys: Row | None = None,
    figure: str = "",
    *,
    measure: str,
    unit: Unit = "",
    column: str = "",
) -> Finding:
    """A description, which no test decides."""
    return Finding(
        claim,
        value,
        None,
        None,
        "supported",
        table,
        keys or {},
        figure,
        measure=measure,
        unit=unit,
        column=column,
    )


def _interval(row: Row, low: str = "lower", high: str = "upper") -> tuple[float, float]:
    return float(row[low]), float(row[high])


# --- differences of scores, for frozen-vs-finetuned and pretraining -------------------------------


class Gain(NamedTuple):
    """A difference of two scores: the row of the table, and the test of the difference."""

    row: Row
    value: float
    interval: tuple[float, float]
    p: float  # corrected for all comparisons of the table
    tests: int  # number of comparisons
    seeds: int

    @property
    def is_learned(self) -> bool:
        """Whether one of both scores beats the majority; where neither does, no gain is shown."""
        return self.row.get("verdict") != "not learned"

    @property
    def is_significant(self) -> bool:
        low, high = self.interval
        return self.is_learned and self.p < SIGNIFICANT and not low <= 0 <= high

    @property
    def is_better(self) -> bool:
        return self.is_significant and self.value > 0

    @property
    def is_worse(self) -> bool:
        return self.is_significant and self.value < 0

    def verdict(self, two_sided: bool = False) -> Verdict:
        """Whether the data supports a gain; `two_sided`: a difference in any direction."""
        low, high = self.interval
        if self.seeds < 2:
            return "undecided"
        if self.is_better or self.is_worse:
            return judged(self.is_better or two_sided)
        if not self.is_learned:
            return judged(False)
        return judged(False, high < SMALL and (low > -SMALL or not two_sided))

    @property
    def decided_by(self) -> str:
        return MORE_SEEDS if self.seeds < 2 else MORE_TEXTS

    @property
    def text(self) -> str:
        p = p_text(self.p) if self.tests == 1 else f"corrected {p_text(self.p)}"
        return f"Δ {signed(score(self.value))}, 95 % {span(*self.interval, 'F1')}; {p}"


def _gains(rows: Sequence[Row], seeds: int, low: str = "lower", high: str = "upper") -> list[Gain]:
    p_values = holm([_p_value(row, low, high) for row in rows])
    return [
        Gain(row, float(row["delta"]), _interval(row, low, high), float(p), len(rows), seeds)
        for row, p in zip(rows, p_values, strict=True)
    ]


def _p_value(row: Row, low: str = "lower", high: str = "upper", value: str = "delta") -> float:
    """The p-value of a difference. No bootstrap sample beyond zero: that of the interval's normal
    distribution, since a number of samples bounds p-values, and so the tests to correct for."""
    p = float(row["p_value"])
    width = float(row[high] - row[low])
    if p > FLOOR or width <= 0:
        return p
    return min(p, math.erfc(abs(row[value]) / (width / WIDTH) / math.sqrt(2)))


def significant(
    table: pd.DataFrame, low: str = "lower", high: str = "upper", value: str = "delta"
) -> "pd.Series[bool]":
    """Whether each difference is significant after Holm's correction; False if it is unknown."""
    known = table[table[value].notna() & table["p_value"].notna()]
    p_values = holm([_p_value(row, low, high, value) for row in rows_of(known)])
    beyond = (known[low] > 0) | (known[high] < 0)
    sure = pd.Series(p_values < SIGNIFICANT, index=known.index, dtype=bool) & beyond
    return sure.reindex(table.index, fill_value=False)


def _count_verdict(gains: Sequence[Gain], two_sided: bool = False) -> tuple[Verdict, str]:
    """The verdict on a number of gains, and what would decide it."""
    verdicts = [gain.verdict(two_sided) for gain in gains]
    if "supported" in verdicts:
        return "supported", ""
    unsure = [gain for gain, verdict in zip(gains, verdicts, strict=True) if verdict == "undecided"]
    return judged(False, not unsure), unsure[0].decided_by if unsure else ""


# --- frozen-vs-finetuned --------------------------------------------------------------------------


def frozen_vs_finetuned(tables: Tables) -> Iterator[Finding]:
    """Where adaptation helps, against baselines, and what it costs."""
    rows = rows_of(tables["delta"])
    gains = _gains(rows, tables["scores"]["seed"].nunique())
    if len(gains) == 1:
        yield _gain_of_cell(gains[0], "gain over the frozen model")
    elif gains:
        yield _helped(gains)
        ordered = sorted(gains, key=lambda gain: gain.value)
        yield _gain_of_cell(ordered[-1], "largest gain over the frozen model")
        yield _gain_of_cell(ordered[0], "smallest gain over the frozen model")
    yield from _against_lstm(tables, gains)
    yield _beat_majority(tables["means"])
    yield from _cost(tables)
    yield _converged(tables["means"])


def _subject(rows: Sequence[Row]) -> str:
    methods = {row["method"] for row in rows}
    return TRAINED[methods.pop()] if len(methods) == 1 else "adaptation"


def _names(gains: Sequence[Gain], rows: Sequence[Row], most: int = 3) -> str:
    """The task of each gain, with its model and method where these differ."""
    several = [name for name in ("model", "method") if len({row[name] for row in rows}) > 1]
    names = []
    for gain in gains:
        more = ", ".join(str(gain.row[name]) for name in several)
        names.append(f"{gain.row['task']} ({more})" if more else str(gain.row["task"]))
    return listing(names, most)


def _helped(gains: Sequence[Gain]) -> Finding:
    rows = [gain.row for gain in gains]
    better, worse = ([g for g in gains if getattr(g, f"is_{how}")] for how in ("better", "worse"))
    helped = f": {_names(better, rows)}" if better else ""
    harm = f", and hurts in {len(worse)}: {_names(worse, rows)}" if worse else ""
    subject = capital(_subject(rows))
    verdict, decided_by = _count_verdict(gains)
    return Finding(
        f"{subject} helps significantly in {of_all(len(better), len(gains), 'comparison')} with "
        f"the frozen model{helped}{harm}.",
        len(better),
        None,
        0,
        verdict,
        "delta",
        figure="delta",
        measure="comparisons in which the frozen model is worse",
        decided_by=decided_by,
        n=plural(len(gains), "comparison"),
    )


def _gain_of_cell(gain: Gain, measure: str) -> Finding:
    row = gain.row
    verdict = gain.verdict(two_sided=gain.is_worse)  # of what the claim says: helps, or hurts
    how = "helps" if gain.is_better else "hurts" if gain.is_worse else "does not help"
    if how == "does not help" and verdict == "undecided":
        how = "does not significantly help"
    if not gain.is_learned:
        how = "is not shown to help"
    extreme = ""
    if measure.startswith(("largest", "smallest")):
        extreme = f"{measure.split()[0]} of {gain.tests} gains; "
    majority = float(row["majority"])
    constant = "" if math.isnan(majority) else f", majority {score(majority)}"
    if not gain.is_learned:
        constant += ", which neither beats significantly"
    cut = "" if row["converged"] else "; training cut off by max_epochs"
    return Finding(
        f"{capital(TRAINED[row['method']])} {how} {row['model']} on {row['task']} "
        f"({extreme}{spelt(row['metric'])} {score(row['tuned'])}, frozen {score(row['frozen'])}"
        f"{constant}; {gain.text}{cut}).",
        gain.value,
        gain.interval,
        0.0,
        verdict,
        "delta",
        keys_of(row, *KEYS),
        "delta",
        measure=measure,
        unit="points",
        column="delta",
        decided_by=gain.decided_by,
        n=plural(gain.seeds, "seed"),
    )


def _against_lstm(tables: Tables, gains: Sequence[Gain]) -> Iterator[Finding]:
    """The adapted models against the frozen one under an LSTM: two intervals that are apart."""
    means = {tuple(row[key] for key in CELL): row for row in rows_of(tables["means"])}
    gains = [gain for gain in gains if pd.notna(gain.row["strong"])]
    if not gains:
        return
    ahead, verdicts = [], []
    for gain in gains:
        task, model, method = (gain.row[name] for name in KEYS[:3])
        tuned, strong = (
            means[task, model, method, "plain"],
            means[task, model, "frozen", "lstm"],
        )
        if is_ahead := bool(tuned["lower"] > strong["upper"]):
            ahead.append(gain)
        decided = gain.seeds > 1 and (is_ahead or tuned["value"] <= strong["value"])
        verdicts.append(judged(is_ahead, decided))
    rows = [gain.row for gain in gains]
    subject = capital(_subject(rows))
    if len(gains) == 1:
        row = rows[0]
        apart = "their intervals do not overlap" if ahead else "their intervals overlap"
        how = "beats" if ahead else "does not beat"
        if not ahead and row["tuned"] > row["strong"]:
            how = "is not shown to beat"
        apart = f" ({apart})" if how != "does not beat" else ""
        claim = (
            f"{subject} {how} the frozen model under an LSTM head: {spelt(row['metric'])} "
            f"{score(row['tuned'])} against {score(row['strong'])}{apart}."
        )
        value, null = float(row["tuned"]), float(row["strong"])
        keys, column = keys_of(row, *KEYS), "tuned"
        measure = "score of the adapted model, against the frozen model under an LSTM head"
    else:
        names = f": {_names(ahead, rows)}" if ahead else ""
        claim = (
            f"{subject} beats the frozen model under an LSTM head in "
            f"{of_all(len(ahead), len(gains), 'comparison')} (intervals that do not overlap)"
            f"{names}."
        )
        value, null = float(len(ahead)), 0.0
        keys, column = {}, ""
        measure = "comparisons in which the adapted model beats the LSTM head"
    supported = "supported" in verdicts
    yield Finding(
        claim,
        value,
        None,
        null,
        judged(supported, supported or "undecided" not in verdicts),
        "delta",
        keys,
        "scores",
        measure=measure,
        unit="F1" if column else "",
        column=column,
        decided_by=MORE_SEEDS if gains[0].seeds < 2 else SCORED,
    )


def _beat_majority(means: pd.DataFrame) -> Finding:
    rows = rows_of(means)
    learned = [row for row in rows if row["learned"]]
    failed = [_cell(row, rows) for row in rows if not row["learned"]]
    names = f"; not by {listing(failed)}" if failed and learned else ""
    return Finding(
        "The majority baseline is beaten significantly by "
        f"{of_all(len(learned), len(rows), 'trained model')}{names}.",
        len(learned),
        None,
        0,
        judged(not failed),
        "means",
        figure="scores",
        measure="trained models that beat the majority baseline",
    )


def _cell(row: Row, rows: Sequence[Row]) -> str:
    """A method with its head, and with task and model where these differ."""
    name = str(row["method"]) + {"plain": "", "lstm": " under an LSTM"}.get(row["head"], "")
    more = [str(row[key]) for key in ("task", "model") if len({each[key] for each in rows}) > 1]
    return f"{name} ({', '.join(more)})" if more else name


def _cost(tables: Tables) -> Iterator[Finding]:
    """The share of weights that parameter-efficient methods train, or the cost of fine-tuning."""
    plain = tables["means"][tables["means"]["head"] == "plain"]
    value = plain.groupby("method", sort=False)["value"].mean()
    cells = tables["scores"][tables["scores"]["head"] == "plain"]
    trained = cells.groupby("method")["trainable"].mean()
    efficient = [name for name in value.index if name in EFFICIENT]
    if efficient and "fine-tuned" in value.index:
        best = str(value[efficient].idxmax())
        share = float(trained[best] / trained["fine-tuned"])
        which = f"the best of {len(efficient)} efficient methods, " if len(efficient) > 1 else ""
        yield _fact(
            f"{capital(TRAINED[best])}, {which}trains {percent(share, 1)} of the weights that "
            f"fine-tuning trains and scores {score(value[best])} on average (fine-tuning "
            f"{score(value['fine-tuned'])}, frozen {score(value['frozen'])}).",
            share,
            "scores",
            {"method": best},
            "cost",
            measure="weights trained by the best parameter-efficient method, share of fine-tuning",
            unit="%",
        )
        return
    trainings = cells.drop_duplicates(["task", "model", "method", "seed"])
    seconds = trainings.groupby("method")["seconds"].mean()
    average = " on average" if len(plain[["task", "model"]].drop_duplicates()) > 1 else ""
    for method in [name for name in value.index if name != "frozen"][:1]:
        yield _fact(
            f"{capital(TRAINED[method])} trains {whole(trained[method])} weights in "
            f"{decimal(seconds[method])} s per seed{average}, against {whole(trained['frozen'])} "
            f"weights in {decimal(seconds['frozen'])} s for the head of the frozen model.",
            round(trained[method]),
            "scores",
            {"method": method},
            "cost",
            measure="weights trained",
        )


def _converged(means: pd.DataFrame) -> Finding:
    rows = rows_of(means)
    cut = [_cell(row, rows) for row in rows if not row["converged"]]
    claim = (
        f"Training was cut off by max_epochs in {of_all(len(cut), len(rows), 'model')}: "
        f"{listing(cut, 2)}."
        if cut
        else "No training was cut off by max_epochs while dev still improved "
        f"({plural(len(rows), 'model')})."
    )
    return Finding(
        claim,
        len(cut),
        None,
        None,
        judged(not cut),
        "means",
        figure="epochs",
        measure="trained models cut off by max_epochs",
    )


# --- finetune -------------------------------------------------------------------------------------


def finetune(tables: Tables) -> Iterator[Finding]:
    """The score against the majority, errors, seeds, learning rate, epochs and cost."""
    scores = tables["scores"]
    yield _score(rows_of(tables["means"])[0], scores)
    yield from _weakest_class(tables)
    yield from _seeds(scores, tables)
    yield from _strength(scores, tables["rates"])
    yield from _epochs(scores, tables["epochs"])
    yield from _training_loss(scores, tables["learning"])
    yield _weights(scores)


def _unit(metric: object) -> Unit:
    return "" if metric == ERROR else "F1"


def _score(row: Row, scores: pd.DataFrame) -> Finding:
    metric, unit = row["metric"], _unit(row["metric"])
    low, high = _interval(row)
    subject = f"{row['model']} with {TRAINED[row['method']]}"
    if row["method"] == "fine-tuned":
        subject = f"Fine-tuned {row['model']}"
    if row["method"] == "frozen":
        kind = "linear" if row["head"] == "plain" else "LSTM"
        subject = f"A {kind} head over the frozen {row['model']}"
    seeds = scores["seed"].nunique()
    gap = high - row["baseline"] if metric != ERROR else 0.0
    holds = row["learned"] and (metric == ERROR or low > row["baseline"])
    learns = "learns" if holds else "does not significantly learn"
    against = "significantly above the majority baseline of" if holds else "majority"
    if holds and metric == ERROR:
        against = "significantly below the mean of train, which has"
    return Finding(
        f"{subject} {learns} {row['task']}: {spelt(metric)} {shown(row['value'], unit)} (95 % "
        f"{span(low, high, unit)}; {plural(seeds, 'seed')}), {against} "
        f"{shown(row['baseline'], unit)}.",
        row["value"],
        (low, high),
        row["baseline"],
        judged(holds, seeds > 1 and (holds or gap < SMALL)),
        "means",
        keys_of(row, "task", "model", "method", "head", "metric"),
        "scores",
        measure="score of the adapted model",
        unit=unit,
        column="value",
        decided_by=MORE_SEEDS
        if seeds < 2
        else f"{SCORED}: the interval includes the baseline and gains over 5 points",
        n=plural(seeds, "seed"),
    )


def _weakest_class(tables: Tables) -> Iterator[Finding]:
    """The class of texts that is recognised least often, and what it is taken for."""
    if "matthews" not in set(tables["scores"]["metric"]):
        return  # not a task of classes
    table = tables["predictions"]
    right = (table["gold"] == table["guess"]).groupby(table["gold"]).mean()
    worst = str(right.idxmin())
    texts = table[table["gold"] == worst]
    taken = texts.loc[texts["guess"] != worst, "guess"].value_counts(normalize=True)
    one = table["guess"].unique()
    if len(one) == 1:
        claim = (
            f"All texts are taken for {one[0]}, which {percent((table['gold'] == one[0]).mean())}"
            " of them are."
        )
    elif 1 < len(least := [str(each) for each in right.index[right == right.min()]]) < len(right):
        claim = (
            f"The classes that are recognised least are {listing(least, 5)}: "
            f"{percent(right[worst])} of the texts of each; {right.idxmax()} is recognised best "
            f"({percent(right.max())})."
        )
    elif len(taken):
        mistaken = taken.iloc[0] * (1 - right[worst])
        claim = (
            f"The class that is recognised least is {worst}: {percent(right[worst])} of its texts "
            f"({percent(mistaken)} are taken for {taken.index[0]}); {right.idxmax()} is recognised "
            f"best ({percent(right.max())})."
        )
    else:
        claim = "All texts are given their right class."
    yield _fact(
        claim,
        float(right[worst]),
        "predictions",
        {"gold": worst},
        measure="recall of the class recognised least",
        unit="%",
    )


def _deciding(scores: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One row per seed: the deciding metric on the scored split, which comes after dev."""
    return scores[scores["metric"] == metric].drop_duplicates("seed", keep="last")


def _seeds(scores: pd.DataFrame, tables: Tables) -> Iterator[Finding]:
    metric = str(tables["rates"]["metric"].iloc[0])
    unit, values = _unit(metric), _deciding(scores, metric)["value"]
    if len(values) < 2:
        return
    low, high = float(values.min()), float(values.max())
    yield _fact(
        f"The {len(values)} seeds differ by {shown(high - low, unit)} in {spelt(metric)} on the "
        f"scored texts ({span(low, high, unit)})."
        if high > low
        else f"The {len(values)} seeds score the same {spelt(metric)} ({shown(low, unit)}).",
        high - low,
        "scores",
        {"metric": metric},
        "scores",
        measure="range of the score over seeds",
        unit="points" if unit else "",
    )


def _strength(scores: pd.DataFrame, rates: pd.DataFrame) -> Iterator[Finding]:
    """The learning rate or ridge strength that was chosen, and the next best."""
    rates = rates[rates["value"].notna()]
    if len(rates) < 2:
        return
    name = "learning_rate" if (rates["learning_rate"] > 0).any() else "ridge"
    used = scores[name].iloc[0]
    best = rates[rates[name] == used].iloc[0]
    others = rates[rates[name] != used]
    sign, metric = -1 if best["metric"] == ERROR else 1, str(best["metric"])
    unit, second = _unit(metric), others.loc[(sign * others["value"]).idxmax()]
    ends = {rates[name].max(): "the largest tried; ", rates[name].min(): "the smallest tried; "}
    words = "learning rate" if name == "learning_rate" else "ridge strength"
    verb = "shares the best score" if best["value"] == second["value"] else "is best"
    yield _fact(
        f"Of {len(rates)} {words}s, {used:g} {verb} on dev ({ends.get(used, '')}{spelt(metric)} "
        f"{shown(best['value'], unit)}, with {second[name]:g} {shown(second['value'], unit)}).",
        float(best["value"]),
        "rates",
        {name: used},
        "epochs",
        measure=f"dev score of the best {words}",
        unit=unit,
        column="value",
    )


def _chosen(scores: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the trainings that were scored."""
    chosen: pd.DataFrame = scores[["seed", "learning_rate", "ridge"]].drop_duplicates()
    return table.merge(chosen)


def _epochs(scores: pd.DataFrame, epochs: pd.DataFrame) -> Iterator[Finding]:
    rows = _chosen(scores, epochs)
    rows = rows[(rows["learning_rate"] > 0) & rows["value"].notna()]
    if rows.empty:
        return  # a plain head over a frozen model has one optimum
    sign = -1 if rows["metric"].iloc[0] == ERROR else 1
    best = rows.loc[(sign * rows["value"]).groupby(rows["seed"]).idxmax()]
    cut = int((~best["converged"].astype(bool)).sum())
    mean, last = float(best["epoch"].mean()), int(rows["epoch"].max())
    over = f" (mean of {len(best)} seeds)" if len(best) > 1 else ""
    ended = of_all(cut, len(best), "training") if cut else "no training"
    yield Finding(
        f"The dev score is best after epoch {decimal(mean, 1) if mean % 1 else whole(mean)} of "
        f"{last}{over}; max_epochs ended {ended} while dev still improved.",
        mean,
        None,
        None,
        judged(not cut, not cut),
        "epochs",
        figure="epochs",
        measure="epoch with the best dev score",
        decided_by="more epochs (max_epochs): dev was still improving",
    )


def _training_loss(scores: pd.DataFrame, learning: pd.DataFrame) -> Iterator[Finding]:
    rows = _chosen(scores, learning)
    steps = int(rows["step"].max()) + 1 if len(rows) else 0
    if steps < 10:
        return
    tenth = steps // 10
    first = float(rows.loc[rows["step"] < tenth, "loss"].mean())
    last = float(rows.loc[rows["step"] >= steps - tenth, "loss"].mean())
    moved = "falls" if last < first else "does not fall"
    yield Finding(
        f"The training loss {moved}: {decimal(first)} in the first tenth of {whole(steps)} steps, "
        f"{decimal(last)} in the last.",
        last,
        None,
        None,
        judged(last < first),
        "learning",
        figure="learning",
        measure="training loss at the end",
    )


def _weights(scores: pd.DataFrame) -> Finding:
    row = scores.iloc[0]
    seconds = float(scores.drop_duplicates("seed")["seconds"].mean())
    return _fact(
        f"Training takes {decimal(seconds)} s per seed and changes "
        f"{plural(row['trainable'], 'weight')} ({decimal(row['size'])} MiB), task head included.",
        float(row["trainable"]),
        "scores",
        measure="weights trained",
    )


# --- layers, for drift and similarity -------------------------------------------------------------

SAME = 1e-6  # a difference from no change that is rounding
FORGOTTEN = 0.1  # nats; a change that an interval must exclude before "no change" is decided


def _layer(stack: object, layer: float, several: bool, article: str = "") -> str:
    """A layer in words: `layer 2`, `the embeddings`, `decoder layer 2`."""
    name = f"{stack} " if several else ""
    return f"{'' if layer else article}{name}{state_name(layer)}"


def _cka(value: float) -> str:
    """A CKA with two decimals, or four where two would say that nothing changed."""
    return decimal(value, 2 if round(value, 2) < 1 or value > 1 - 5e-5 else 4)


# --- drift ----------------------------------------------------------------------------------------


def drift(tables: Tables) -> Iterator[Finding]:
    """What training changed: states, task, weights, attention, losses, probes, order of layers."""
    layers = tables["drift"]
    several = layers["stack"].nunique() > 1
    yield from _states(layers, several)
    if "rewound" in tables:
        yield _rewound(tables["rewound"])
    if "losses" in tables:
        yield _forgetting(tables["losses"])
    yield from _moved_weights(layers, several)
    if "heads" in tables:
        yield from _attention(tables["heads"])
    if "probing" in tables:
        yield from _probes(tables["probing"], several)
    if "similarity" in tables:
        yield from _order(tables["similarity"], layers, several)


def _states(layers: pd.DataFrame, several: bool) -> Iterator[Finding]:
    rows = sorted(rows_of(layers[layers["cka"].notna()]), key=lambda row: float(row["cka"]))
    if not rows:
        return
    most, least = rows[0], rows[-1]
    changed = [row for row in rows if row["cka"] < 1 - SAME]
    if changed:
        same = len(rows) - len(changed)
        rest = f"; {plural(same, 'layer')} unchanged" if same else ""
        claim = (
            f"Training changes {_layer(most['stack'], most['layer'], several, 'the ')} most (CKA "
            f"{_cka(most['cka'])} with its states before) and "
            f"{_layer(least['stack'], least['layer'], several, 'the ')} least "
            f"({_cka(least['cka'])}){rest}."
        )
    else:
        every = of_all(len(rows), len(rows), "layer")
        claim = f"No layer's states change: CKA is {_cka(most['cka'])} in {every}."
    yield Finding(
        claim,
        most["cka"],
        None,
        1.0,
        judged(changed),
        "drift",
        keys_of(most, "stack", "layer"),
        "drift",
        measure="CKA of the layer that changes most",
        column="cka",
        n=plural(most["n"], "word"),
    )


def _rewound(table: pd.DataFrame) -> Finding:
    """The layer that the task needs most: its weights are reset to those before training."""
    rows = rows_of(table[~table["stack"].isin(("none", "all"))])
    tuned, before = (table[table["stack"] == name].iloc[0] for name in ("none", "all"))
    metric, unit = str(tuned["metric"]), _unit(tuned["metric"])
    sign = -1 if metric == ERROR else 1
    p_values = holm([_p_value(row, value="change") for row in rows])
    costs = [
        bool(p < SIGNIFICANT and sign * row["change"] < 0)
        for row, p in zip(rows, p_values, strict=True)
    ]
    worst = min(range(len(rows)), key=lambda n: (not costs[n], sign * float(rows[n]["change"])))
    row, low, high = rows[worst], *_interval(rows[worst])
    where = _layer(row["stack"], row["layer"], False, "the ")
    change = (
        f"{spelt(metric)} {shown(tuned['value'], unit)} to {shown(row['value'], unit)}; "
        f"Δ {signed(shown(row['change'], unit))}, 95 % {span(low, high, unit)}; corrected "
        f"{p_text(p_values[worst])}; all layers reset: {shown(before['value'], unit)}"
    )
    claim = (
        f"The task needs {of_all(sum(costs), len(rows), 'layer')} as trained; resetting {where} "
        f"costs most ({change})."
        if costs[worst]
        else f"Resetting no single layer lowers the task's score significantly; the largest change "
        f"is by {where} ({change})."
    )
    decided = costs[worst] or (metric != ERROR and low > -SMALL)
    return Finding(
        claim,
        row["change"],
        (low, high),
        0.0,
        judged(costs[worst], decided),
        "rewound",
        keys_of(row, "stack", "layer", "metric"),
        "rewound",
        measure="change of the task's score by resetting one layer",
        unit="points" if unit else "",
        column="change",
        decided_by="more sentences (max_sentences): losses over 5 points are not excluded",
    )


def _forgetting(losses: pd.DataFrame) -> Finding:
    row = next(row for row in rows_of(losses) if str(row["metric"]).endswith("loss"))
    low, high = _interval(row)
    changed = low > 0 or high < 0
    if not changed:
        how = "does not change significantly"
    else:
        how = "rises: the model forgets" if row["change"] > 0 else "falls: nothing is forgotten"
    return Finding(
        f"The language-model loss {how} ({decimal(row['before'])} to {decimal(row['after'])} nats "
        f"per piece; Δ {signed(decimal(row['change']))}, 95 % {span(low, high, 'nats')}; "
        f"{plural(row['n'], 'prediction')}).",
        row["change"],
        (low, high),
        0.0,
        judged(changed, changed or max(-low, high) < FORGOTTEN),
        "losses",
        {"metric": row["metric"]},
        "losses",
        measure="change of the language-model loss",
        unit="nats",
        column="change",
        decided_by="more sentences (max_sentences)",
        n=plural(row["n"], "prediction"),
    )


def _moved_weights(layers: pd.DataFrame, several: bool) -> Iterator[Finding]:
    known = layers[layers["weight_distance"].notna()]
    rows = sorted(rows_of(known), key=lambda row: float(row["weight_distance"]))
    if not rows:
        return
    most, least = rows[-1], rows[0]
    still = [row for row in rows if row["weight_distance"] == 0]
    if not most["weight_distance"]:
        every = of_all(len(rows), len(rows), "layer")
        claim = f"Training moves no weights: those of {every} are the same before and after."
    else:
        rest = (
            f" those of {plural(len(still), 'layer')} do not change"
            if still
            else f" those of {_layer(least['stack'], least['layer'], several, 'the ')} least "
            f"({_norm(least['weight_distance'])})"
        )
        claim = (
            f"The weights of {_layer(most['stack'], most['layer'], several, 'the ')} move most "
            f"({_norm(most['weight_distance'])} of their norm) and{rest}."
        )
    yield Finding(
        claim,
        most["weight_distance"],
        None,
        0.0,
        judged(most["weight_distance"] > 0),
        "drift",
        keys_of(most, "stack", "layer"),
        "modules",
        measure="weight distance of the layer that moves most",
        unit="%",
        column="weight_distance",
    )


def _norm(share: float) -> str:
    return percent(share, 1 if share < 1 else 0)


def _attention(heads: pd.DataFrame) -> Iterator[Finding]:
    table = heads[heads["attention_js"].notna()]
    if table.empty:
        return
    rows = sorted(rows_of(table), key=lambda row: float(row["attention_js"]))
    several = len(table[["stack", "kind"]].drop_duplicates()) > 1
    most, least = rows[-1], rows[0]
    if most["attention_js"] < SAME:
        every = of_all(len(rows), len(rows), "head")
        claim = f"No head's attention changes: that of {every} is the same before and after."
    else:
        claim = (
            f"Attention changes most in {_head(most, several)} (Jensen-Shannon divergence "
            f"{decimal(most['attention_js'])} bits, 95 % {span(*_interval(most), 'bits')}) and "
            f"least in {_head(least, several)} ({decimal(least['attention_js'])})."
        )
    yield Finding(
        claim,
        most["attention_js"],
        _interval(most),
        0.0,
        judged(most["lower"] > SAME),
        "heads",
        keys_of(most, "stack", "kind", "layer", "head"),
        "heads",
        measure="divergence of the head whose attention changes most",
        unit="bits",
        column="attention_js",
        n=plural(most["n"], "piece"),
    )


def _head(row: Row, several: bool) -> str:
    """A head: `head 3.9`, with its stack and kind where there are several."""
    name = f"head {head_number(row['layer'], row['head'])}"
    return f"{row['stack']} {row['kind']} {name}" if several else name


def _probes(table: pd.DataFrame, several: bool) -> Iterator[Finding]:
    known = table[table["delta"].notna()]
    gains = _gains(rows_of(known), seeds=2)  # p-values of edge-probing, over sentences and seeds
    if not gains:
        return
    moved = [gain for gain in gains if gain.is_significant]
    most = max(moved or gains, key=lambda gain: abs(gain.value))
    row = most.row
    how = ("gains" if most.value > 0 else "loses") if moved else "does not change significantly"
    where = _layer(row["stack"], row["layer"], several, "the ")
    start = (
        "Probing changes significantly in "
        f"{of_all(len(moved), len(gains), 'pair')} of task and layer; "
        f"{row['task']} {how} most in {where}"
        if moved
        else f"Probing changes significantly in {of_all(0, len(gains), 'pair')} of task and layer; "
        f"the largest change is {row['task']} in {where}"
    )
    yield Finding(
        f"{start} ({spelt(row['metric'])} {score(row['before'])} to {score(row['after'])}; "
        f"{most.text}).",
        most.value,
        most.interval,
        0.0,
        most.verdict(two_sided=True),
        "probing",
        keys_of(row, "task", "stack", "layer"),
        "probing",
        measure="largest change of a probe's score",
        unit="points",
        column="delta",
        decided_by="more sentences (max_test): the intervals include 0 and changes over 5 points",
    )


def _order(table: pd.DataFrame, layers: pd.DataFrame, several: bool) -> Iterator[Finding]:
    """Whether each layer after training is most similar to the same layer before."""
    table = table[table["cka"].notna()]
    if table.empty:
        return
    best = table.loc[table.groupby(["stack_b", "layer_b"], sort=False)["cka"].idxmax()]
    is_own = (best["stack_a"] == best["stack_b"]) & (best["layer_a"] == best["layer_b"])
    others = rows_of(best[~is_own])
    n_own = int(is_own.sum())
    claim = (
        f"{capital(of_all(n_own, len(best), 'layer'))} {verb_of(n_own, 'is', 'are')} still most "
        "similar to the same layer before training"
    )
    if others:
        last = others[-1]
        after = _layer(last["stack_b"], last["layer_b"], several, "the ")
        before = _layer(last["stack_a"], last["layer_a"], several, "the ")
        claim += f"; {after} now most resembles {before} before it (CKA {_cka(last['cka'])})"
    yield Finding(
        f"{claim}.",
        int(is_own.sum()),
        None,
        None,
        judged(not others),
        "similarity",
        figure="similarity",
        measure="layers most similar to the same layer before training",
        n=plural(layers["n"].iloc[0], "word"),
    )


# --- similarity -----------------------------------------------------------------------------------

TWIN = "@random"  # end of the name of a model's random twin
FIRST = ("model_a", "stack_a", "layer_a")
SECOND = ("model_b", "stack_b", "layer_b")


def similarity(tables: Tables) -> Iterator[Finding]:
    """Which layers of which models are alike, and how each model changes from layer to layer."""
    table = tables["similarity"]
    known = table[table["cka"].notna()]
    stacks = {
        str(model): int(rows["stack_a"].nunique()) for model, rows in known.groupby("model_a")
    }
    yield from _most_similar(known, stacks)
    yield from _first_and_last(known, stacks)
    yield from _largest_step(known, stacks)
    yield from _most_similar_models(known)
    yield from _depth(known)
    yield from _words(tables)


def _ends(row: Row, stacks: Mapping[str, int]) -> tuple[str, str]:
    """Both layers of a row, each in words."""
    names = []
    for model, stack, layer in (FIRST, SECOND):
        where = _layer(row[stack], row[layer], stacks.get(row[model], 1) > 1, "the ")
        names.append(f"{where} of {row[model]}")
    return names[0], names[1]


def _between(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["model_a"] != table["model_b"]]


def _most_similar(table: pd.DataFrame, stacks: Mapping[str, int]) -> Iterator[Finding]:
    between = _between(table)
    if between.empty:
        return
    most = max(rows_of(between), key=lambda row: float(row["cka"]))
    one, other = _ends(most, stacks)
    yield _fact(
        f"Of the layers of different models, {one} and {other} are most similar (CKA "
        f"{_cka(most['cka'])}; mean of all {whole(len(between))} pairs "
        f"{_cka(between['cka'].mean())}).",
        float(most["cka"]),
        "similarity",
        keys_of(most, *FIRST, *SECOND),
        "similarity",
        measure="CKA of the most similar layers of two models",
        column="cka",
    )


def _within(table: pd.DataFrame) -> pd.DataFrame:
    """The pairs of layers of one stack of one model."""
    same = (table["model_a"] == table["model_b"]) & (table["stack_a"] == table["stack_b"])
    return table[same & (table["layer_a"] < table["layer_b"])]


def _first_and_last(table: pd.DataFrame, stacks: Mapping[str, int]) -> Iterator[Finding]:
    """The first and the last layer of each model, and of its random twin."""
    within = _within(table)
    if within.empty:
        return
    deepest = within.groupby(["model_a", "stack_a"])["layer_b"].transform("max")
    ends = within[(within["layer_a"] == 0) & (within["layer_b"] == deepest)]
    rows = sorted(rows_of(ends), key=lambda row: float(row["cka"]))
    twins = {(row["model_a"], row["stack_a"]): row for row in rows}
    owners = [row for row in rows if TWIN not in str(row["model_a"])] or rows
    if not owners:  # the states of the embeddings are all the same
        return
    first, last = owners[0], owners[-1]
    keys = (*FIRST, *SECOND)
    several = len(owners) > 1
    if several:
        claim = (
            f"From the embeddings to the last layer, {_stack(first, stacks)} changes most (CKA "
            f"{_cka(first['cka'])}) and {_stack(last, stacks)} least ({_cka(last['cka'])})."
        )
    else:
        claim = (
            f"The embeddings and the last layer of {first['model_a']} have a CKA of "
            f"{_cka(first['cka'])}."
        )
    yield _fact(
        claim,
        first["cka"],
        "similarity",
        keys_of(first, *keys),
        "similarity",
        measure="lowest CKA of the embeddings and the last layer of a model",
        column="cka",
    )
    pairs = [
        (row, twins[twin])
        for row in owners
        if (twin := (as_random(row["model_a"]), row["stack_a"])) in twins
    ]
    if pairs:
        row, other = max(pairs, key=lambda pair: abs(float(pair[0]["cka"] - pair[1]["cka"])))
        how = "less" if row["cka"] < other["cka"] else "more"
        yield Finding(
            f"The embeddings and the last layer of {_stack(row, stacks)} are {how} similar than in "
            f"its random twin (CKA {_cka(row['cka'])}, twin {_cka(other['cka'])}).",
            row["cka"],
            None,
            other["cka"],
            "undecided",
            "similarity",
            keys_of(row, *keys),
            "similarity",
            measure="CKA of the embeddings and the last layer, against the random twin",
            column="cka",
            decided_by="several random twins (seeds): one shows no variation",
        )


def _stack(row: Row, stacks: Mapping[str, int]) -> str:
    """A model, with its stack if it has several."""
    model = str(row["model_a"])
    return f"the {row['stack_a']} of {model}" if stacks.get(model, 1) > 1 else model


def _largest_step(table: pd.DataFrame, stacks: Mapping[str, int]) -> Iterator[Finding]:
    within = _within(table)
    steps = within[within["layer_b"] == within["layer_a"] + 1]
    own = steps[~steps["model_a"].astype(str).str.contains(TWIN, regex=False)]
    steps = steps if own.empty else own
    if len(steps) < 2:
        return
    step, *others = sorted(rows_of(steps), key=lambda row: float(row["cka"]))
    first, second = (
        _layer(step[stack], step[layer], False, "the ") for _, stack, layer in (FIRST, SECOND)
    )
    rest = sum(float(row["cka"]) for row in others) / len(others)
    yield _fact(
        f"The largest step between neighbouring layers is from {first} to {second} of "
        f"{_stack(step, stacks)} (CKA {_cka(step['cka'])}; the other steps {_cka(rest)} on "
        "average).",
        float(step["cka"]),
        "similarity",
        keys_of(step, *FIRST, *SECOND),
        "similarity",
        measure="CKA of the neighbouring layers that differ most",
        column="cka",
    )


def _most_similar_models(table: pd.DataFrame) -> Iterator[Finding]:
    """The pair of models whose layers find the most similar partners."""
    between = _between(table)
    pairs = between.groupby(["model_a", "model_b"], sort=False)
    if len(pairs) < 2:
        return
    partners = {
        (str(pair[0]), str(pair[1])): (
            rows.groupby(["stack_a", "layer_a"])["cka"].max().mean()
            + rows.groupby(["stack_b", "layer_b"])["cka"].max().mean()
        )
        / 2
        for pair, rows in pairs
    }
    most, least = max(partners, key=partners.__getitem__), min(partners, key=partners.__getitem__)
    yield _fact(
        f"Of {len(partners)} pairs of models, {' and '.join(most)} are most alike (mean CKA "
        f"{_cka(partners[most])} of each layer with its most similar one), "
        f"{' and '.join(least)} least ({_cka(partners[least])}).",
        float(partners[most]),
        "similarity",
        {"model_a": most[0], "model_b": most[1]},
        "similarity",
        measure="mean CKA of the most similar models",
    )


def _depth(table: pd.DataFrame) -> Iterator[Finding]:
    """Whether models agree in their embeddings or in their last layers."""
    between = _between(table)
    if between.empty:
        return
    last_a, last_b = (
        between[layer] == between.groupby([model, stack])[layer].transform("max")
        for model, stack, layer in (FIRST, SECOND)
    )
    bottom = between[(between["layer_a"] == 0) & (between["layer_b"] == 0)]["cka"].mean()
    top = between[last_a & last_b]["cka"].mean()
    higher, lower = (bottom, top) if bottom > top else (top, bottom)
    names = ("embeddings", "last layers") if bottom > top else ("last layers", "embeddings")
    yield _fact(
        f"The {names[0]} of different models are more alike than their {names[1]} (mean CKA "
        f"{_cka(higher)} against {_cka(lower)}).",
        float(bottom - top),
        "similarity",
        measure="mean CKA between models, embeddings minus last layers",
    )


def _words(tables: Tables) -> Iterator[Finding]:
    rows = rows_of(tables["words"])
    most = max(rows, key=lambda row: float(row["without_piece"]))
    missing = int(most["without_piece"])
    rest = (
        f"; {most['model']} has no piece for {whole(missing)}"
        if missing
        else "; every model has pieces for all"
    )
    yield _fact(
        f"{capital(of_all(most['compared'], most['words'], 'word'))} "
        f"{verb_of(most['compared'], 'is', 'are')} compared{rest}.",
        int(most["compared"]),
        "words",
        {"model": most["model"]},
        measure="words compared",
        column="compared",
    )


# --- pretraining ----------------------------------------------------------------------------------

ARM = ("arm", "size", "task", "metric")
NEXT_NATS = math.log(2)  # nats of guessing whether a sentence is the next one
LITTLE = 0.1  # share of the unigram model's nats below which a pretraining gained little


def pretraining(tables: Tables) -> Iterator[Finding]:
    """Which objective is best on which task, the effect of size, and of the pretraining itself."""
    table = tables["table"]
    seeds = tables["pretraining"]["pretraining"].nunique()
    compared = rows_of(table[table["delta"].notna()])
    gains = _gains(compared, seeds, "delta_lower", "delta_upper")
    baseline = str(table["arm"].iloc[0])
    if len(gains) > 1:
        yield _objectives(gains, baseline)
    if gains:
        yield _largest_difference(gains, baseline, table)
    yield from _claims(tables, seeds)
    yield from _mean_scores(table)
    yield from _sizes(tables, seeds)
    yield from _above_majority(tables)
    yield from _above_unigram(tables["pretraining"])


def _arm(row: Row, rows: Sequence[Row]) -> str:
    sizes = len({each["size"] for each in rows}) > 1
    return f"{row['arm']} {row['size']}" if sizes else str(row["arm"])


def _objectives(gains: Sequence[Gain], baseline: str) -> Finding:
    rows = [gain.row for gain in gains]
    named = [
        (how, [f"{_arm(g.row, rows)} on {g.row['task']}" for g in gains if getattr(g, f"is_{how}")])
        for how in ("better", "worse")
    ]
    n_different = sum(len(names) for _, names in named)
    parts = [f"{how}: {listing(names)}" for how, names in named if names]
    named_parts = f" ({'; '.join(parts)})" if parts else ""
    verdict, decided_by = _count_verdict(gains, two_sided=True)
    return Finding(
        f"Other objectives differ significantly from {baseline} in "
        f"{of_all(n_different, len(gains), 'comparison')}{named_parts}.",
        n_different,
        None,
        0,
        verdict,
        "table",
        figure="scores",
        measure="significant differences between objectives",
        decided_by=_more_pretrainings(gains[0]) if verdict == "undecided" else decided_by,
    )


def _more_pretrainings(gain: Gain) -> str:
    if gain.seeds < 2:
        return "more pretraining_seeds: one pretraining of each shows no variation between them"
    return MORE_TEXTS


def _largest_difference(gains: Sequence[Gain], baseline: str, table: pd.DataFrame) -> Finding:
    gain = max(gains, key=lambda each: (each.is_significant, abs(each.value)))
    row = gain.row
    first = table[
        (table["arm"] == baseline)
        & (table[["size", "task", "metric"]] == [row["size"], row["task"], row["metric"]]).all(
            axis=1
        )
    ].iloc[0]
    how = "beats" if gain.value > 0 else "is worse than"
    if not gain.is_significant:
        how = "does not differ significantly from"
    arm = _arm(row, [each.row for each in gains])
    extreme = f"largest of {gain.tests} differences; " if gain.tests > 1 else ""
    return Finding(
        f"{arm} {how} {baseline} on {row['task']} ({extreme}{spelt(row['metric'])} "
        f"{score(row['value'])} against {score(first['value'])}; {gain.text}; "
        f"{plural(gain.seeds, 'pretraining')} of each).",
        gain.value,
        gain.interval,
        0.0,
        gain.verdict(two_sided=True),
        "table",
        keys_of(row, *ARM),
        "scores",
        measure="largest difference between objectives",
        unit="points",
        column="delta",
        decided_by=_more_pretrainings(gain),
        n=plural(gain.seeds, "pretraining"),
    )


def _claims(tables: Tables, seeds: int) -> Iterator[Finding]:
    """Whether what the paper found holds here, each comparison over all tasks."""
    rows = rows_of(tables["claims"]) if "claims" in tables else []
    gains = _gains(rows, seeds, "delta_lower", "delta_upper")
    for gain in gains:
        row = gain.row
        how = "higher" if gain.value > 0 else "lower"
        says = "as in the paper" if gain.value > 0 else "the opposite of the paper"
        if not gain.is_significant:
            says = "which does not decide what the paper found"
        arms = f"{_arm(row, rows)} scores {how} than {row['against']}"
        yield Finding(
            f"{arms}: {gain.text}, a mean over {plural(row['tasks'], 'task')}, {says}.",
            gain.value,
            gain.interval,
            0.0,
            gain.verdict(two_sided=True),
            "claims",
            {name: row[name] for name in ("arm", "against", "size")},
            "scores",
            measure=f"difference of {_arm(row, rows)} and {row['against']}",
            unit="points",
            column="delta",
            decided_by=_more_pretrainings(gain),
            n=plural(gain.seeds, "pretraining"),
        )


def _mean_scores(table: pd.DataFrame) -> Iterator[Finding]:
    means = table.groupby(["arm", "size"], sort=False)["value"].mean().sort_values(ascending=False)
    n_tasks = table["task"].nunique()
    if len(means) < 2 or n_tasks < 2:
        return
    several = table["size"].nunique() > 1
    names = [f"{arm} {size}" if several else str(arm) for arm, size in means.index]
    others = [f"{name} {score(value)}" for name, value in zip(names, means, strict=True)]
    yield _fact(
        f"On average over {n_tasks} tasks, {names[0]} scores highest ({score(means.iloc[0])}; "
        f"{listing(others[1:])}).",
        float(means.iloc[0]),
        "table",
        dict(zip(("arm", "size"), means.index[0], strict=True)),
        "scores",
        measure="mean score of the best objective",
        unit="F1",
    )


def _sizes(tables: Tables, seeds: int) -> Iterator[Finding]:
    if "sizes" not in tables or tables["sizes"].empty:
        return
    gains = _gains(rows_of(tables["sizes"]), seeds, "delta_lower", "delta_upper")
    better, worse = ([g for g in gains if getattr(g, f"is_{how}")] for how in ("better", "worse"))
    gain = max(gains, key=lambda each: (each.is_significant, abs(each.value)))
    row = gain.row
    verdict, _ = _count_verdict(gains)
    harm = f", lower in {len(worse)}" if worse else ""
    yield Finding(
        f"A larger model scores significantly higher in "
        f"{of_all(len(better), len(gains), 'comparison')}{harm}; the largest difference is "
        f"{row['arm']} {row['size']} against "
        f"{row['against']} on {row['task']} ({gain.text}).",
        gain.value,
        gain.interval,
        0.0,
        verdict,
        "sizes",
        keys_of(row, *ARM),
        "sizes",
        measure="largest gain of a larger model",
        unit="points",
        column="delta",
        decided_by=_more_pretrainings(gain),
        n=plural(gain.seeds, "pretraining"),
    )


def _above_majority(tables: Tables) -> Iterator[Finding]:
    """Models whose interval lies above the score of a constant prediction."""
    table = tables["table"]
    constants = tables["scores"].drop_duplicates(["task", "metric"], keep="last")
    rows = rows_of(table.merge(constants[["task", "metric", "baseline"]], on=["task", "metric"]))
    failed = [row for row in rows if row["lower"] <= row["baseline"]]
    names = [f"{_arm(row, rows)} on {row['task']}" for row in failed]
    rest = f"; not {listing(names)}" if failed and len(failed) < len(rows) else ""
    n_above = len(rows) - len(failed)
    yield Finding(
        f"{capital(of_all(n_above, len(rows), 'score'))} {verb_of(n_above, 'is', 'are')} above the "
        f"majority baseline with the whole interval{rest}.",
        len(rows) - len(failed),
        None,
        0,
        judged(not failed),
        "table",
        figure="scores",
        measure="scores above the majority baseline",
    )


def _above_unigram(table: pd.DataFrame) -> Iterator[Finding]:
    """How far the language models are below the loss of piece frequencies."""
    rows = []
    for row in rows_of(table):
        if ARMS[row["arm"]].objective not in PER_PIECE:
            continue
        loss = float(row["loss"] if math.isnan(row["held_out"]) else row["held_out"])
        loss -= NEXT_NATS if row["arm"] == NEXT else 0
        rows.append((float(row["unigram"]) - loss, row))
    if not rows:
        return
    gain, worst = min(rows, key=lambda pair: pair[0] / pair[1]["unigram"])
    best_gain, best = max(rows, key=lambda pair: pair[0] / pair[1]["unigram"])
    arms = [row for _, row in rows]
    least = "" if worst is best else f", {_arm(worst, arms)} {decimal(gain, 2)}"
    yield Finding(
        f"After {whole(worst['steps'])} steps, {_arm(best, arms)} is {decimal(best_gain, 2)} nats "
        f"per piece better than piece frequencies ({decimal(best['unigram'], 2)}){least}.",
        gain,
        None,
        0.0,
        judged(gain >= LITTLE * worst["unigram"]),
        "pretraining",
        keys_of(worst, "arm", "size", "pretraining"),
        measure="smallest gain of a pretraining over piece frequencies",
        unit="nats",
    )
