"""The findings of `domain`, beside what the papers found.

Pure functions of the tables. Costs: milliseconds.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from workbench.analyses.domain.experiments import (
    AS_IS,
    DOMAIN_TEXT,
    FURTHER,
    GENERAL,
    MORE,
    OWN,
    SCRATCH,
)
from workbench.analyses.transfer.findings import ERROR, significant
from workbench.core.comparisons import differs
from workbench.core.findings import (
    Finding,
    Tables,
    capital,
    decimal,
    judged,
    keys_of,
    p_text,
    plural,
    rows_of,
    signed,
)
from workbench.core.head_names import at_state
from workbench.core.metrics import spelt
from workbench.core.stats import SIGNIFICANT

Row = Mapping[str, Any]

MORE_DATA = "more texts, steps or seeds"


def findings(tables: Tables) -> Iterator[Finding]:
    """What the domain's text gives and takes, from which start, and where the model changed."""
    yield _further(tables)
    yield _forgotten(tables)
    yield _scratch(tables)
    own = _pair(tables, DOMAIN_TEXT, OWN, SCRATCH)
    if own is not None:
        yield _own_vocabulary(tables, own)
    fertility = tables["fertility"]
    yield from map(_pieces, rows_of(fertility[fertility["words"] == "of the domain"]))
    yield from _drift(tables["drift"])
    if "tasks" in tables:
        yield _task(tables["tasks"])


def _pair(tables: Tables, text: str, arm: str, against: str) -> Row | None:
    """The row of a tested pair; None if it was not tested."""
    table = tables["differences"]
    keys = {"text": text, "arm": arm, "against": against}
    rows = rows_of(table[(table[list(keys)] == list(keys.values())).all(axis=1)])
    return rows[0] if rows else None


def _known(row: Row | None) -> Row:
    assert row is not None, "this pair is always tested"
    return row


def _by(row: Row) -> str:
    """A difference with its interval and p-value."""
    ends = " to ".join(signed(decimal(row[end], 3)) for end in ("lower", "upper"))
    gap = signed(decimal(row["difference"], 3))
    return f"{gap} bits per character (95 % {ends}; {p_text(row['p'])})"


def _of_pair(claim: str, row: Row, measure: str, tables: Tables) -> Finding:
    bits = tables["bits"]
    texts = bits[bits["text"] == row["text"]]["texts"].iloc[0]
    return Finding(
        claim, row["difference"], (row["lower"], row["upper"]), 0.0, judged(differs(row)),
        "differences", keys_of(row, "text", "arm", "against"), "bits",
        measure=measure, unit="bits", column="difference", decided_by=MORE_DATA,
        n=plural(texts, "text"),
    )  # fmt: skip


def _said(row: Row, fewer: str, more: str, unclear: str) -> str:
    """The wording of a difference: fewer bits, more bits, or none that is sure."""
    if not differs(row):
        return unclear
    return fewer if row["difference"] < 0 else more


def _further(tables: Tables) -> Finding:
    """Whether the domain's text gives more than as much general text (Gururangan et al.)."""
    row = _known(_pair(tables, DOMAIN_TEXT, FURTHER, MORE))
    from_start = _known(_pair(tables, DOMAIN_TEXT, FURTHER, AS_IS))
    said = _said(
        row,
        "predicts its text better than as much training on general text, as Gururangan et al. "
        "found on tasks",
        "predicts its text worse than as much training on general text, the opposite of what "
        "Gururangan et al. found on tasks",
        "is not shown to predict its text better than as much training on general text, as "
        "Gururangan et al. found on tasks",
    )
    return _of_pair(
        f"Training further on the domain {said}: {_by(row)}. Against the model as is: "
        f"{signed(decimal(from_start['difference'], 3))}.",
        row,
        "bits of the domain's text, further minus more general",
        tables,
    )


def _forgotten(tables: Tables) -> Finding:
    """What training on the domain does to the prediction of general text."""
    row = _known(_pair(tables, GENERAL, FURTHER, AS_IS))
    control = _known(_pair(tables, GENERAL, FURTHER, MORE))
    said = _said(
        row,
        "forgets no general text, but predicts it better",
        "forgets general text",
        "is not shown to change how well general text is predicted",
    )
    return _of_pair(
        f"Training further on the domain {said}: {_by(row)}. Against as much more general text: "
        f"{signed(decimal(control['difference'], 3))} ({p_text(control['p'])}).",
        row,
        "bits of general text, further minus as is",
        tables,
    )


def _scratch(tables: Tables) -> Finding:
    """A model trained on the domain alone, against one trained further on it."""
    row = _known(_pair(tables, DOMAIN_TEXT, SCRATCH, FURTHER))
    is_equal = AS_IS in set(tables["trainings"]["arm"])  # else that model came with a budget
    budget = "With as many steps in total" if is_equal else "With as many steps on the domain"
    said = _said(
        row,
        "predicts it better than one that first read general text",
        "predicts it worse than one that first read general text",
        "is not shown to predict it better or worse than one that first read general text",
    )
    return _of_pair(
        f"{budget}, a model trained on the domain alone {said}: {_by(row)}. On legal tasks, "
        "Chalkidis et al. found neither the better one everywhere.",
        row,
        "bits of the domain's text, scratch minus further",
        tables,
    )


def _own_vocabulary(tables: Tables, row: Row) -> Finding:
    """A vocabulary made of the domain's text, against the general one (Beltagy et al.)."""
    said = _said(
        row,
        "helps a model trained on it alone, as Beltagy et al. found on tasks",
        "harms a model trained on it alone, the opposite of what Beltagy et al. found on tasks",
        "is not shown to help a model trained on it alone, as Beltagy et al. found on tasks",
    )
    return _of_pair(
        f"A vocabulary of the domain's own {said}: {_by(row)}.",
        row,
        "bits of the domain's text, own vocabulary minus scratch",
        tables,
    )


def _pieces(row: Row) -> Finding:
    """Into how many pieces the domain's words are split."""
    sure = not row["lower"] <= 0 <= row["upper"]
    more = "more" if row["difference"] > 0 else "fewer"
    splits = f"into {more} pieces" if sure else "into no fewer pieces"
    ends = " to ".join(signed(decimal(row[end], 2)) for end in ("lower", "upper"))
    return Finding(
        f"The domain's own vocabulary splits its {plural(row['n'], 'word')} {splits}: "
        f"{decimal(row['own'], 2)} a word against {decimal(row['general'], 2)} by the general one "
        f"({signed(decimal(row['difference'], 2))}, 95 % {ends}).",
        row["difference"], (row["lower"], row["upper"]), 0.0, judged(sure), "fertility",
        keys_of(row, "words"), "words",
        measure="pieces per word of the domain, own minus general vocabulary", column="difference",
        decided_by="more text", n=plural(row["n"], "word"),
    )  # fmt: skip


def _drift(table: pd.DataFrame) -> Iterator[Finding]:
    """The layer that training on the domain moved furthest beyond the control."""
    known = table[table["difference"].notna()]
    if known.empty:
        return
    row = rows_of(known.loc[[known["difference"].idxmax()]])[0]
    ends: tuple[float, float] | None = None
    if not pd.isna(row["lower"]):
        ends = row["lower"], row["upper"]
    sure = ends is not None and row["p"] < SIGNIFICANT and ends[0] > 0
    where = capital(at_state(row["layer"]))
    moved, control = decimal(row["further"], 3), decimal(row["control"], 3)
    by = ""
    if ends is not None:
        both = " to ".join(signed(decimal(end, 3)) for end in ends)
        by = (
            f"; difference {signed(decimal(row['difference'], 3))}, 95 % {both}, {p_text(row['p'])}"
        )
    if row["difference"] > 0:
        shown = "" if sure else ", which is not shown to exceed the control"
        claim = (
            f"{where} moved furthest by the domain beyond as much general text{shown}: 1 − CKA "
            f"is {moved} against {control}{by}."
        )
    else:
        claim = (
            "No layer moved further on the domain than on as much general text; the nearest is "
            f"{at_state(row['layer'])}, with 1 − CKA of {moved} against {control}{by}."
        )
    yield Finding(
        claim, row["difference"], ends, 0.0, judged(sure, ends), "drift",
        keys_of(row, "stack", "layer"), "drift",
        measure="largest drift of a layer beyond the control", column="difference",
        decided_by="more seeds", n=plural(row["seeds"], "seed"),
    )  # fmt: skip


def _task(table: pd.DataFrame) -> Finding:
    """The task, method and arm that differs most from the model as is."""
    compared = table[table["delta"].notna()].reset_index(drop=True)
    sure = significant(compared, "delta_lower", "delta_upper")
    tried = compared[sure] if sure.any() else compared
    row = rows_of(tried.loc[[tried["delta"].abs().idxmax()]])[0]
    same = (table[["task", "method"]] == [row["task"], row["method"]]).all(axis=1)
    as_is = float(table[same & (table["arm"] == AS_IS)]["value"].iloc[0])
    is_better = (row["delta"] > 0) != (row["metric"] == ERROR)
    way = "better" if is_better else "worse"
    ends = " to ".join(signed(decimal(row[f"delta_{end}"], 3)) for end in ("lower", "upper"))
    of = f"{decimal(row['value'], 3)} {spelt(row['metric'])} against {decimal(as_is, 3)}"
    without = f"without a model {decimal(row['baseline'], 3)}"
    by = f"{signed(decimal(row['delta'], 3))}, 95 % {ends}; {without}"
    said = (
        f"Of {plural(len(compared), 'comparison')}, the largest difference is on {row['task']} "
        f"({row['method']}), where {row['arm']} is {way} than the model as is: {of} ({by})"
        if sure.any()
        else f"In none of {plural(len(compared), 'comparison')} does an arm differ significantly "
        f"from the model as is; the largest difference is {row['arm']} on {row['task']} "
        f"({row['method']}): {of} ({by})"
    )
    return Finding(
        f"{said}.", row["delta"], (row["delta_lower"], row["delta_upper"]), 0.0,
        judged(bool(sure.any())), "tasks", keys_of(row, "task", "method", "arm", "metric"),
        "tasks", measure="largest difference on a task from the model as is", column="delta",
        decided_by=MORE_DATA, n=plural(row["texts"], "text"),
    )  # fmt: skip
