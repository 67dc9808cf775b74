"""Findings: what a run found, as sentences with numbers, computed from its tables.

    def findings(tables):
        best = tables["scores"].iloc[0]
        return [
            Finding(
                f"Layer {whole(best['layer'])} is best ({percent(best['score'])} correct).",
                best["score"], None, 0.5, judged(best["p_value"] < 0.05), "scores",
                {"layer": best["layer"]}, "scores",
                measure="accuracy of the best layer", unit="%", column="score",
            )
        ]

A claim is true as it stands, also where the effect is not there ("No head follows `det` …"); the
verdict says whether the data supports the effect. The functions that write numbers raise an error
if a number is missing, so no sentence is ever written without its number. Costs: nothing.
"""

import math
import numbers
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from workbench.core.display import Displayed
from workbench.core.errors import WorkbenchError
from workbench.core.head_names import place_name

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[str, Any]
Tables = Mapping[str, "pd.DataFrame"]

Verdict = Literal["supported", "not supported", "undecided"]
Unit = Literal["", "%", "points", "F1", "nats", "bits", "words", "layers", "s"]
UNITS: tuple[str, ...] = get_args(Unit)
VERDICTS: tuple[Verdict, ...] = ("supported", "not supported", "undecided")
SCALED = ("%", "points", "F1")  # units of shares and their differences, written times 100
MOST = 7  # maximum number of findings of an experiment
NAMED = 6  # groups of a sweep that a sentence names
SMALL = 0.05  # a gain that an interval must exclude before "no gain" counts as decided
NUMBERS = "numbers_of_runs"  # the table of a sweep with the numbers of its runs' findings
OF_RUN = ("model", "corpus", "method")  # keys that name what runs are compared by, not a row
PLACE = ("part", "layer", "head")  # keys with one name for all
MINUS = "−"


@dataclass(frozen=True)
class Finding(Displayed):
    """What a run found: a sentence with its number, and where in the tables the number is.

    Args:
        claim: A sentence with its numbers, true of this run.
        value: The number, as in the table: a share is between 0 and 1 (None: a claim of words).
        interval: Its 95 % confidence interval (None: not measured).
        null: The value without the effect: of chance, a baseline, a control (None: none).
        verdict: Whether the data supports the effect: `supported`, `not supported`, `undecided`.
        table: The table with the number.
        keys: The columns and values that identify its row.
        figure: The figure that shows it ("": none).
        measure: What the number is, without values of this run; unique among its findings. Runs
            are compared measure by measure.
        unit: The unit of the number; that of a difference of shares is `points`.
        column: The column with the number ("": computed from several cells).
        decided_by: What would decide an undecided claim, such as "more sentences"; dropped from
            other claims.
        n: What the number was measured on, such as `500 pairs` ("": not one number of cases).

    Example:
        >>> wb.Finding(
        ...     "The model is right in 81 % of pairs (chance: 50 %).", 0.81, (0.74, 0.86), 0.5,
        ...     "supported", "pairs", {"phenomenon": "all"}, measure="accuracy", unit="%",
        ...     n="500 pairs",
        ... ).key_number
        '81.0 % (95 % interval 74.0 to 86.0; n = 500 pairs)'
    """

    claim: str
    value: float | None
    interval: tuple[float, float] | None
    null: float | None
    verdict: Verdict
    table: str
    keys: Mapping[str, Any] = field(default_factory=dict)
    figure: str = ""
    measure: str = field(kw_only=True)
    unit: Unit = field(default="", kw_only=True)
    column: str = field(default="", kw_only=True)
    decided_by: str = field(default="", kw_only=True)
    n: str = field(default="", kw_only=True)

    drawn_by = "workbench.report.notebook:finding"

    def __post_init__(self) -> None:
        plain = {name: _plain(value) for name, value in self.keys.items()}
        object.__setattr__(self, "keys", plain)
        for name in ("value", "null"):
            number = getattr(self, name)
            object.__setattr__(self, name, None if number is None else _present(number))
        if self.interval is not None:
            low, high = map(_present, self.interval)
            object.__setattr__(self, "interval", (low, high))
        wrong = ""
        if not _is_sentence(self.claim):
            wrong = f"the claim {self.claim!r:.80} is not a sentence with its numbers"
        elif self.unit not in UNITS:
            wrong = f"the unit is {self.unit!r:.40}, not one of {', '.join(filter(None, UNITS))}"
        elif self.interval is not None and self.interval[0] > self.interval[1]:
            wrong = f"the interval of {self.claim!r:.80} is upside down"
        elif not self.measure:
            wrong = f"the finding {self.claim!r:.80} has no measure"
        elif self.verdict not in VERDICTS:
            wrong = f"the verdict is {self.verdict!r:.40}, not one of {', '.join(VERDICTS)}"
        elif self.verdict == "undecided" and not self.decided_by.strip():
            wrong = f"nothing is said to decide {self.claim!r:.80}"
        if wrong:
            raise _error(f"{wrong}.")
        if self.verdict != "undecided":
            object.__setattr__(self, "decided_by", "")

    @property
    def badge(self) -> str:
        """Return the verdict to show next to the claim; "" if the claim says all.

        A fact without a null, such as "training was cut off", is no effect that lacks support.
        """
        is_said = self.verdict == "supported" or (
            self.verdict == "not supported" and self.null is None
        )
        return "" if is_said else self.verdict

    @property
    def number(self) -> str:
        """Return the number with its unit; "" if the data does not support the claim."""
        if self.value is None or self.verdict != "supported":
            return ""
        return with_unit(self.value, self.unit)

    @property
    def spread(self) -> str:
        """Return how sure the number is: its 95 % interval, and what it was measured on."""
        interval = f"95 % interval {span(*self.interval, self.unit)}" if self.interval else ""
        return "; ".join(filter(None, (interval, self.n and f"n = {self.n}")))

    @property
    def key_number(self) -> str:
        """Return the number with its unit, interval and n; "" if the data does not support it."""
        if not self.number or not self.spread:
            return self.number
        return f"{self.number} ({self.spread})"

    def as_data(self) -> dict[str, Any]:
        """Return the finding as JSON data."""
        return asdict(self)


class Findings(tuple[Finding, ...], Displayed):
    """The findings of a run, the first one first."""

    drawn_by = "workbench.report.notebook:findings"


def judged(holds: object, enough: object = True) -> Verdict:
    """Return the verdict of a test; `undecided` where there is too little data to say."""
    if not enough:
        return "undecided"
    return "supported" if holds else "not supported"


def headline(findings: Sequence[Finding]) -> Finding | None:
    """Return the finding that stands for a run, the first one; None if there is none.

    Every list, page and report shows its claim, its `key_number` and its verdict.
    """
    return findings[0] if findings else None


def first_decided(findings: Sequence[Finding]) -> Finding:
    """Return the first finding that is not undecided, if there is one."""
    return next((each for each in findings if each.verdict != "undecided"), findings[0])


def check_findings(
    findings: Iterable[Finding], tables: Mapping[str, Any], figures: Container[str] | None = None
) -> tuple[Finding, ...]:
    """Return the findings of a run; an error if one does not fit its tables and figures."""
    found = tuple(findings) if isinstance(findings, Iterable) else (findings,)
    if others := [type(each).__name__ for each in found if not isinstance(each, Finding)]:
        raise _error(f"the function returned a {others[0]}, not findings.")
    measures = [each.measure for each in found]
    for each in found:
        if each.table not in tables:
            raise _error(f"the finding {each.measure!r:.80} names no table of the run.")
        if wrong := sorted(set(each.keys) - set(tables[each.table])):
            raise _error(
                f"the table {each.table!r:.80} has no column {wrong[0]!r:.80}, a key of "
                f"{each.measure!r:.80}."
            )
        if each.keys and not len(_rows(tables[each.table], each.keys)):
            keys = ", ".join(f"{name}={value!r:.40}" for name, value in each.keys.items())
            raise _error(
                f"no row of the table {each.table!r:.80} has {keys}, of {each.measure!r:.80}."
            )
        if each.column and each.column not in tables[each.table]:
            raise _error(
                f"the table {each.table!r:.80} has no column {each.column!r:.80}, of "
                f"{each.measure!r:.80}."
            )
        if figures is not None and each.figure and each.figure not in figures:
            raise _error(f"there is no figure {each.figure!r:.80}, of {each.measure!r:.80}.")
        if measures.count(each.measure) > 1:
            raise _error(f"two findings have the measure {each.measure!r:.80}.")
    return found


def _rows(table: Any, keys: Row) -> Any:
    for name, value in keys.items():
        missing = value is None or value != value
        table = table[table[name].isna() if missing else table[name] == value]
    return table


# --- numbers in sentences -------------------------------------------------------------------------


def percent(share: object, digits: int = 0) -> str:
    """Return a share in per cent: `81 %`; between 0 and a half, `0.3 %`."""
    number = 100 * _present(share)
    if digits == 0 and 0 < abs(number) < 1:
        digits = 1
    return f"{_fixed(number, digits)} %"


def percent_span(low: object, high: object, digits: int = 0) -> str:
    """Return an interval of a share in per cent: `64 to 74 %`."""
    return f"{percent(low, digits).removesuffix(' %')} to {percent(high, digits)}"


def score(value: object) -> str:
    """Return a score such as F1, times 100: `93.6`."""
    return _fixed(100 * _present(value), 1)


def decimal(value: object, digits: int | None = None) -> str:
    """Return a number with three significant digits, or so many decimals."""
    number = _present(value)
    if digits is None:
        size = abs(number)
        if size and (size < 1e-4 or size >= 1e6):
            return f"{number:.1e}".replace("-", MINUS)
        digits = max(0, 2 - math.floor(math.log10(size))) if size else 0
    return _fixed(number, digits)


def whole(value: object) -> str:
    """Return a whole number: `1,204`."""
    return f"{round(_present(value)):,}".replace("-", MINUS)


def signed(text: str) -> str:
    """Return a written number with its sign: `+0.3`."""
    is_zero = not any(digit in text for digit in "123456789")
    return text if text.startswith(MINUS) or is_zero else f"+{text}"


def p_text(p: object) -> str:
    """Return a p-value: `p < 0.01`, `p = 0.03`."""
    number = _present(p)
    for bound in (0.001, 0.01):
        if number < bound:
            return f"p < {bound}"
    if 0.0495 <= number < 0.05:
        return "p < 0.05"
    digits = 3 if abs(number - 0.05) < 0.005 else 2  # 0.048 and 0.051 differ
    return f"p = {number:.{digits}f}"


def shown(value: object, unit: Unit = "") -> str:
    """Return a number as it is written in this unit, without the unit."""
    if unit in SCALED:
        return score(value)
    number = _present(value)
    return whole(number) if not unit and number.is_integer() else decimal(number)


def with_unit(value: object, unit: Unit = "") -> str:
    """Return a number with its unit: `81.0 %`; F1 has none."""
    return f"{shown(value, unit)} {unit}" if unit and unit != "F1" else shown(value, unit)


def span(low: object, high: object, unit: Unit = "") -> str:
    """Return an interval: `0.3 to 2.5`."""
    return f"{shown(low, unit)} to {shown(high, unit)}"


def plural(count: object, one: str, several: str = "") -> str:
    """Return a count with its noun: `1 head`, `12 heads`."""
    number = whole(count)
    return f"{number} {one if number == '1' else several or f'{one}s'}"


def of_all(count: object, total: object, one: str, several: str = "") -> str:
    """Return how many of all: `3 of 16 heads`, `both tasks`, `all 7 tasks`, `none of 4 heads`.

    One of them, and none, take a verb in the singular: see `verb_of`.
    """
    many, n, of = several or f"{one}s", _present(count), _present(total)
    if of == 1:
        return f"the only {one}" if n else f"no {one}"
    if n == of:
        return f"both {many}" if of == 2 else f"all {whole(total)} {many}"
    if not n:
        return f"neither of the 2 {many}" if of == 2 else f"none of {whole(total)} {many}"
    return f"{whole(count)} of {whole(total)} {many}"


def verb_of(count: object, one: str, several: str) -> str:
    """Return the verb of a number of things: `is` of one and of none, `are` of several."""
    return one if _present(count) < 2 else several


def listing(names: Sequence[object], most: int = 3, last: str = "and") -> str:
    """Return names as text: `a, b and c`; at most so many, with a word before the last."""
    texts = [str(name) for name in names]
    if len(texts) > most:
        return f"{', '.join(texts[:most])} {last} {len(texts) - most} more"
    return f" {last} ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def capital(text: str) -> str:
    """Return the text with a capital letter, to begin a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


def rows_of(table: "pd.DataFrame") -> list[Row]:
    """Return the rows of a table, each with its values by column."""
    rows: list[Any] = table.to_dict("records")
    return rows


def keys_of(row: Row, *names: str) -> dict[str, Any]:
    """Return the columns and values that identify a row."""
    return {name: row[name] for name in names}


def _fixed(number: float, digits: int) -> str:
    text = f"{abs(number):,.{digits}f}"
    is_negative = number < 0 and any(digit in text for digit in "123456789")
    return MINUS + text if is_negative else text


def _present(value: object) -> float:
    if isinstance(value, numbers.Real) or hasattr(value, "item"):
        number = float(value)  # type: ignore[arg-type]
        if math.isfinite(number):
            return number
    raise _error(f"a number of a finding is missing: it is {value!r:.40}.")


def _is_sentence(claim: object) -> bool:
    """Return whether this is text of several words that ends, and no number in it is missing."""
    return (
        isinstance(claim, str)
        and claim.endswith((".", "?", "!"))
        and bool(re.search(r"\w+\W+\w+", claim))
        and not re.search(r"\b(nan|NaN|inf)\b", claim)
    )


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _error(what: str) -> WorkbenchError:
    return WorkbenchError(
        what,
        code="finding-invalid",
        where="findings",
        remedy="This is a bug in the experiment; its tables have all numbers.",
    )


# --- several runs ---------------------------------------------------------------------------------


def summary(runs: Mapping[str, Sequence[Sequence[Finding]]]) -> tuple[Finding, ...]:
    """Return each measure over the runs of a sweep: for each group its number with its spread.

    `runs` are the findings of each run by group. Runs of one group are repetitions: their mean
    stands with its range. A group of one run has its interval.
    """
    every = [findings for group in runs.values() for findings in group]
    found: list[Finding] = []
    for first in every[0] if every else ():
        groups = {name: _values(group, first.measure) for name, group in runs.items()}
        same = [each for group in groups.values() for each in group]
        if len(same) < len(every) or len(found) == MOST:
            continue
        n_supported = sum(each.verdict == "supported" for each in same)
        is_open = any(each.verdict == "undecided" for each in same)
        disagree = n_supported < len(same) and (n_supported > 0 or is_open)
        sizes = {len(group) for group in groups.values()}
        each_of = f"; {plural(min(sizes), 'run')} each" if len(sizes) == 1 != len(groups) else ""
        numbers = [
            f"{name}{':' * (' ' in name)} {_with_spread(group, not each_of)}".strip()
            for name, group in groups.items()
        ]
        support = "" if first.null is None else _support(groups)
        alone = len(groups) == 1
        found.append(
            Finding(
                f"{capital(first.measure)}: {listing(numbers, NAMED)}{each_of}{support}.",
                math.fsum(_present(each.value) for each in same) / len(same) if alone else None,
                None,
                first.null if alone and len({each.null for each in same}) == 1 else None,
                judged(n_supported == len(same), not disagree),
                first.table,
                {},
                measure=f"mean over runs: {first.measure}",
                unit=first.unit,
                decided_by="a look at each run: their verdicts differ"
                if n_supported
                else "more sentences: no run decides it",
            )
        )
    return tuple(found)


def _values(group: Sequence[Sequence[Finding]], measure: str) -> list[Finding]:
    """Return the findings of a measure that have a number, of each run of a group."""
    found = (each for findings in group for each in findings if each.measure == measure)
    return [each for each in found if each.value is not None]


def _with_spread(group: Sequence[Finding], counted: bool) -> str:
    """Return `93.1 (92.8 to 93.4 in 4 runs)`; of one run, its interval."""
    values, unit = [_present(each.value) for each in group], group[0].unit
    number = with_unit(math.fsum(values) / len(values), unit)
    if len(group) > 1:
        low, high = (shown(end, unit) for end in (min(values), max(values)))
        spread = "the same" if low == high else f"{low} to {high}"
        return f"{number} ({spread}{f' in {len(group)} runs' if counted else ''})"
    interval = group[0].interval
    return number if interval is None else f"{number} ({span(*interval, unit)})"


def _support(groups: Mapping[str, Sequence[Finding]]) -> str:
    """Return in which runs of each group the effect is supported."""
    counts = {
        name: (sum(each.verdict == "supported" for each in group), len(group))
        for name, group in groups.items()
    }
    if all(n == most for n, most in counts.values()):
        return "; supported in every run"
    if not any(n for n, _ in counts.values()):
        return "; supported in no run"
    parts = [
        ("every run" if n == most else f"{n} of {most} runs" if n else "no run")
        + (f" of {name}" if name else "")
        for name, (n, most) in counts.items()
    ]
    return f"; supported in {listing(parts, NAMED)}"


def changes(runs: Mapping[str, Sequence[Finding]]) -> tuple[Finding, ...]:
    """Return what changed from the first run to each other one, measure by measure.

    `runs` are the findings of each run, by its letter. The interval of a difference comes from the
    two intervals, as if the runs were independent; on the same texts it is too wide, not too
    narrow. Where it includes 0 and a run leaves its own number undecided, so is the difference.
    Differences that the data supports come first.
    """
    (first, before), *others = runs.items()
    found = [
        _change(first, old, letter, new, len(runs) > 2)
        for letter, after in others
        for old in before
        for new in after
        if old.measure == new.measure and None not in (old.value, new.value)
    ]
    return tuple(sorted(found, key=lambda each: VERDICTS.index(each.verdict)))


def _change(first: str, old: Finding, letter: str, new: Finding, several: bool) -> Finding:
    a, b = _present(old.value), _present(new.value)
    difference, interval = b - a, _of_difference(old, new)
    unit = old.unit
    change = signed(shown(difference, unit)) if difference else "no difference"
    if interval is not None:
        change += f", 95 % {span(*interval, unit)}"
    claim = (
        f"{capital(old.measure)}: {with_unit(a, unit)} in {first}, {with_unit(b, unit)} in "
        f"{letter} ({change})"
    )
    moved = any(
        new.keys[name] != value
        for name, value in old.keys.items()
        if name in new.keys and name not in OF_RUN
    )
    if moved:
        claim += f"; {_row(old, new)} in {first}, {_row(new, old)} in {letter}"
    is_count = old.null is None and unit not in SCALED and a.is_integer() and b.is_integer()
    is_fact = interval is None and (a == b or is_count)
    is_open = "undecided" in (old.verdict, new.verdict)
    verdict: Verdict
    if moved:  # the best of many in each run: a difference of the two is no test of either
        verdict = "undecided"
    elif interval is not None:
        differs = interval[0] > 0 or interval[1] < 0
        verdict = judged(differs, differs or not is_open)
    elif is_fact:  # a number of words needs no test; a mean does
        verdict = judged(a != b)
    else:
        verdict = "undecided"
    return Finding(
        f"{claim}.",
        difference,
        interval,
        None if is_fact else 0.0,
        verdict,
        old.table,
        new.keys,
        old.figure,
        measure=f"{old.measure}, {letter} {MINUS} {first}" if several else old.measure,
        unit="points" if unit == "%" else unit,
        decided_by=f"the number of {letter} at {_row(old, new)}, as in {first}"
        if moved
        else "runs with several seeds: these numbers have no intervals"
        if interval is None
        else (old if old.verdict == "undecided" else new).decided_by,
    )


def _row(finding: Finding, other: Finding) -> str:
    """Return where a number is, without what both rows share; a head has its layer."""
    own, place = finding.keys, place_name(finding.keys, finding.table)
    others = [
        name
        for name, value in own.items()
        if name in other.keys and name not in (*OF_RUN, *PLACE) and other.keys[name] != value
    ]
    if place and not {"stack", "kind"}.isdisjoint(others):  # as `head_name` names it
        cross = "cross-attention" if own.get("kind") == "cross" else ""
        place = " ".join(filter(None, [own.get("stack"), cross, place]))
        others = [name for name in others if name not in ("stack", "kind")]
    return " ".join(filter(None, [*(f"{name} {own[name]}" for name in others), place]))


def _of_difference(old: Finding, new: Finding) -> tuple[float, float] | None:
    """Return the 95 % interval of a difference from the intervals of both numbers."""
    if old.interval is None or new.interval is None:
        return None
    a, b = _present(old.value), _present(new.value)
    (low_a, high_a), (low_b, high_b) = old.interval, new.interval
    return (
        b - a - math.hypot(b - low_b, high_a - a),
        b - a + math.hypot(high_b - b, a - low_a),
    )
