"""The findings of `distil`: whether the teacher helps, how much of it is kept, at what size.

Pure functions of the tables. Costs: milliseconds.
"""

import math
from collections.abc import Iterator, Mapping

from workbench.analyses.distillation.experiments import (
    ALONE,
    FLOOR,
    LOWER,
    RANDOM,
    SCRATCH,
    STUDENT,
    TEACHER,
)
from workbench.core.comparisons import differs
from workbench.core.findings import (
    Finding,
    Row,
    Tables,
    Verdict,
    decimal,
    judged,
    keys_of,
    p_text,
    percent,
    percent_span,
    plural,
    rows_of,
    signed,
    whole,
)
from workbench.core.metrics import spelt
from workbench.experiment.measured import name_of_measured


def findings(tables: Tables) -> Iterator[Finding]:
    """Whether the teacher helps, what the student keeps of it, and its size and speed."""
    scores = {row["arm"]: row for row in rows_of(tables["scores"])}
    pairs = {row["against"]: row for row in rows_of(tables["differences"])}
    predicted = name_of_measured(tables)
    yield _helps(pairs[SCRATCH], pairs[RANDOM], scores, predicted)
    if ALONE in pairs:
        yield _beyond_start(pairs[ALONE], scores, predicted)
    yield _kept(scores)
    yield _agreement(scores)
    yield _speed({row["arm"]: row for row in rows_of(tables["sizes"])})


def _helps(row: Row, random: Row, scores: Mapping[str, Row], predicted: str) -> Finding:
    """Whether the student is better than without a teacher, and than with one that knows nothing.

    A random teacher may help too, because its soft targets keep a student from being too sure.
    """
    claim = f"With its teacher the student is {_how(row)} the same student from scratch without one"
    knows = differs(random) and random["better"]
    than = "also better" if knows else "not shown to be better" if row["better"] else "not better"
    return _of_pair(
        f"{claim}: {_values(row, scores, predicted)}. It is {than} than with a random teacher "
        f"({_gap(random)}).",
        row, judged(row["better"] and knows, differs(row)), scores,
    )  # fmt: skip


def _beyond_start(row: Row, scores: Mapping[str, Row], predicted: str) -> Finding:
    """Whether the teacher's predictions help beyond the weights that the student starts from."""
    return _of_pair(
        f"With its teacher the student is {_how(row)} the same student from the same start without "
        f"one: {_values(row, scores, predicted)}.",
        row, judged(row["better"], differs(row)), scores,
    )  # fmt: skip


def _of_pair(claim: str, row: Row, verdict: Verdict, scores: Mapping[str, Row]) -> Finding:
    return Finding(
        claim, row["difference"], (row["lower"], row["upper"]), 0.0, verdict, "differences",
        keys_of(row, "arm", "against", "metric"), "scores",
        measure=f"{spelt(row['metric'])}, student minus {row['against']}",
        unit="nats" if row["metric"] == "loss" else "", column="difference",
        decided_by="more texts, steps or seeds", n=_n(scores[STUDENT]),
    )  # fmt: skip


def _how(row: Row) -> str:
    if not differs(row):
        return "not shown to differ from"
    return f"{'better' if row['better'] else 'worse'} than"


def _gap(row: Row) -> str:
    """A difference with its interval and p-value."""
    ends = " to ".join(signed(decimal(row[end], 3)) for end in ("lower", "upper"))
    return f"{signed(decimal(row['difference'], 3))}, 95 % {ends}; {p_text(row['p'])}"


def _values(row: Row, scores: Mapping[str, Row], predicted: str) -> str:
    own, other = (decimal(scores[arm]["value"], 3) for arm in (STUDENT, row["against"]))
    return f"{spelt(row['metric'])} on {predicted} {own} against {other} ({_gap(row)})"


def _kept(scores: Mapping[str, Row]) -> Finding:
    """How much of the teacher's gain over the baseline the student keeps."""
    row, teacher, floor = scores[STUDENT], scores[TEACHER], scores[FLOOR]
    measure, keys = "share of the teacher's gain kept", keys_of(row, "arm", "metric")
    gain = teacher["value"] - floor["value"]
    if (gain > 0) == (row["metric"] in LOWER) or not math.isfinite(row["kept"]):
        values = f"{decimal(teacher['value'], 3)} against {decimal(floor['value'], 3)}"
        return Finding(
            f"The teacher is no better than the baseline ({spelt(row['metric'])} {values}): there "
            "is nothing for a student to keep.",
            None, None, None, "not supported", "scores", keys, "scores", measure=measure, n=_n(row),
        )  # fmt: skip
    ends = row["kept_lower"], row["kept_upper"]
    without = percent(scores[SCRATCH]["kept"])
    return Finding(
        f"The student keeps {percent(row['kept'])} of what its teacher gains over the baseline "
        f"(95 % {percent_span(*ends)}); from scratch, without a teacher, it is {without}.",
        row["kept"], ends, 0.0, judged(row["kept_lower"] > 0), "scores", keys, "scores",
        measure=measure, unit="%", column="kept", n=_n(row),
    )  # fmt: skip


def _agreement(scores: Mapping[str, Row]) -> Finding:
    """How often the student predicts what the teacher does, against the null from scratch."""
    row, null = scores[STUDENT], scores[SCRATCH]
    ends = row["agreement_lower"], row["agreement_upper"]
    return Finding(
        f"{percent(row['agreement'])} of the student's predictions are its teacher's (95 % "
        f"{percent_span(*ends)}); from scratch, without a teacher, {percent(null['agreement'])}.",
        row["agreement"], ends, null["agreement"],
        judged(row["agreement_lower"] > null["agreement"]), "scores",
        keys_of(row, "arm", "metric"), "scores",
        measure="agreement with the teacher", unit="%", column="agreement", n=_n(row),
    )  # fmt: skip


def _speed(sizes: Mapping[str, Row]) -> Finding:
    """The student's size and speed; the range of seven pairs is a 98 % interval of the median."""
    row, teacher = sizes[STUDENT], sizes[TEACHER]
    share = percent(row["parameters"] / teacher["parameters"])
    return Finding(
        f"The student has {share} of its teacher's {whole(teacher['parameters'])} parameters and "
        f"takes {percent(1 / row['speedup'])} of its time ({decimal(row['speedup'], 2)} times as "
        f"fast, {decimal(row['lowest'], 2)} to {decimal(row['highest'], 2)} in pairs of passes).",
        row["speedup"], (row["lowest"], row["highest"]), 1.0, judged(row["lowest"] > 1), "sizes",
        {"arm": STUDENT}, "sizes", measure="speed of the student over its teacher's",
        column="speedup",
    )  # fmt: skip


def _n(row: Row) -> str:
    return plural(row["texts"], "text")
