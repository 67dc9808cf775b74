"""Which method explains one prediction, and where the methods agree.

The first choice is leave-one-out: what hiding each word changes, exactly, as the tab What if? shows
it. Where its order is not faithful for several words at once, a faithful method that names the same
word first is chosen instead, and any faithful method if no single word matters. Costs: the maps of
`compared`, and their faithfulness.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.analyses.attribution.faithfulness import (
    UNFIT,
    Faithfulness,
    faithfulness_of_each,
)
from workbench.analyses.attribution.methods import (
    PAIRED,
    UNEXPLAINED,
    Attribution,
    Method,
    OnProgress,
    attribute_prediction,
)
from workbench.analyses.attribution.removal import free_units
from workbench.analyses.predictions.prediction import Prediction
from workbench.analyses.predictions.target import Baseline, By, Segments, Target, units_of
from workbench.core.errors import WorkbenchError
from workbench.core.findings import capital, listing, percent
from workbench.core.stats import SIGNIFICANT

FIRST: Method = "leave-one-out"
PAIRS: Method = "leave-two-out"
OTHERS: tuple[Method, ...] = ("integrated-gradients", "gradient-x-input", "attention-rollout")
STEPS = 64  # maximum, of the integrated gradients of a comparison
SMALLEST = 0.01  # change of the value; a smaller one is none
NOTABLE = 0.05  # of what a pair changes beyond its words
LONG = 128  # units from which methods are compared only when asked for
LARGE = 20_000_000  # parameters of a model from which no path of gradients is computed
COSTLY = 5e11  # units times pieces times parameters: half a minute of leave-one-out on a core
QUICK: Method = "gradient-x-input"  # one backward pass, where leave-one-out is costly


@dataclass(frozen=True, eq=False)
class Compared:
    """Maps of one prediction by several methods, leave-one-out first, and their faithfulness."""

    maps: tuple[Attribution, ...]
    checks: tuple[Faithfulness, ...]

    @property
    def first(self) -> Attribution:
        return self.maps[0]

    def of(self, method: Method) -> Attribution | None:
        """The map of a method, if it fits the model."""
        return next((each for each in self.maps if each.method == method), None)

    @property
    def matters(self) -> bool:
        """Whether the removal of any single unit changes the value."""
        return matters(self.first)

    @property
    def chosen(self) -> Attribution:
        """The map that is shown: faithful if one is, and never against what hiding a word does."""
        if self.checks[0].verdict == "yes":
            return self.first
        n_tests = len(self.maps) - 1
        others = [
            (check.gain, each)
            for each, check in zip(self.maps[1:], self.checks[1:], strict=True)
            if check.verdict == "yes"
            and check.p * n_tests < SIGNIFICANT
            and each.missed <= UNEXPLAINED
            and (not self.matters or top_unit(each) == top_unit(self.first))
        ]
        return max(others, key=lambda pair: pair[0])[1] if others else self.first


def compared(
    prediction: Prediction,
    target: Target,
    by: By = "word",
    baseline: Baseline | None = None,
    *,
    segments: Segments | None = None,
    on_progress: OnProgress | None = None,
) -> Compared:
    """The maps of the methods that fit a prediction and are affordable for its text and model."""
    options: dict[str, Any] = {"by": by, "segments": segments}
    shown: dict[str, Any] = {**options, "baseline": baseline, "on_progress": on_progress}
    first = attribute_prediction(prediction, target, FIRST, **shown)
    maps = [first]
    is_small = prediction.model.parameters <= LARGE
    methods = (PAIRS, *(each for each in OTHERS if is_small or each != OTHERS[0]))
    for method in methods:
        if method == PAIRS and not 2 < len(free_units(first.units)) <= PAIRED:
            continue
        try:
            maps.append(attribute_prediction(prediction, target, method, max_steps=STEPS, **shown))
        except WorkbenchError as error:
            if error.code not in UNFIT:
                raise
    checks = faithfulness_of_each(prediction, target, maps, absence="removed", **options)
    return Compared(tuple(maps), checks)


def most_faithful(
    prediction: Prediction,
    target: Target,
    by: By = "word",
    baseline: Baseline | None = None,
    **options: Any,
) -> Attribution:
    """The map that is shown where no method is named; of a long text, leave-one-out."""
    if len(units_of(prediction, by, options.get("segments"))) > LONG:
        return attribute_prediction(prediction, target, FIRST, by=by, baseline=baseline, **options)
    return compared(prediction, target, by, baseline, **options).chosen


def top_unit(attribution: Attribution) -> int:
    """The index of the unit with the largest absolute score."""
    return int(np.abs(attribution.scores).argmax())


def top_text(attribution: Attribution) -> str:
    """The unit with the largest absolute score, in quotes."""
    return f"“{_text(attribution, top_unit(attribution))}”"


def is_costly(prediction: Prediction, by: By) -> bool:
    """Whether hiding each unit takes so long that it has to be chosen."""
    units, pieces = len(units_of(prediction, by)), prediction.text.ids.shape[1]
    work = units * pieces * prediction.model.parameters
    return prediction.model.device.type == "cpu" and work > COSTLY


# --- in words -------------------------------------------------------------------------------------


def matters(first: Attribution) -> bool:
    """Whether the removal of any single unit changes the value, by its leave-one-out map."""
    return bool(np.abs(first.scores).max() >= SMALLEST)


def headline(first: Attribution) -> str:
    """The unit whose removal changes the prediction most, by its leave-one-out map."""
    top = top_unit(first)
    change = abs(first.scores[top])
    what = _what(first)
    if not matters(first):
        return (
            f"No single word matters: without any one of them, {what} "
            f"({_shown(first, first.value)}) changes by at most {_points(first, change)}."
        )
    verb = "falls" if first.scores[top] > 0 else "rises"
    return (
        f"“{_text(first, top)}” matters most: without it, {what} {verb} from "
        f"{_shown(first, first.value)} to {_without(first, top)}."
    )


def agreement(found: Compared) -> str:
    """Where the methods name the same unit first, and where they do not."""
    top = top_unit(found.first)
    same = [each for each in found.maps[1:] if top_unit(each) == top]
    others = [each for each in found.maps[1:] if top_unit(each) != top]
    sentences = []
    if same and found.matters:
        first = [each.method for each in (found.first, *same)]
        sentences.append(f"{listing(first, len(first))} name it first.")
    if others:
        parts = [
            f"“{_text(each, top_unit(each))}” by {each.method} "
            f"(without it: {_without(found.first, top_unit(each))})"
            for each in others
        ]
        sentences.append(f"Named first by other methods: {listing(parts, len(parts))}.")
    faithful = [
        each.method
        for each, check in zip(found.maps, found.checks, strict=True)
        if check.verdict == "yes"
    ]
    if faithful:
        names = listing(faithful, len(faithful))
        sentences.append(f"Faithful for several words at once: {names}.")
    elif all(check.verdict == "no" for check in found.checks):
        sentences.append("No method is faithful for several words at once.")
    return " ".join(map(capital, sentences))


def pair(found: Compared) -> str:
    """The pair of units that changes the value most beyond its units; "" for none."""
    both = found.of(PAIRS)
    if both is None or both.without_two is None:
        return ""
    lost = both.without_two
    single = found.first.scores
    beyond = np.triu(lost - single[:, None] - single[None, :], 1)  # [units, units]
    free = np.zeros(len(single), dtype=np.bool_)
    free[free_units(both.units)] = True
    beyond[~(free[:, None] & free[None, :])] = 0.0
    one, other = map(int, np.unravel_index(np.abs(beyond).argmax(), beyond.shape))
    if abs(beyond[one, other]) < NOTABLE:
        return ""
    stands_in = abs(lost[one, other]) > max(abs(single[one]), abs(single[other])) + NOTABLE
    how = "change more together than alone" if stands_in else "depend on each other"
    first, what = found.first, _what(found.first)
    return (
        f"“{_text(first, one)}” and “{_text(first, other)}” {how}: without both, {what} is "
        f"{_shown(first, first.value - lost[one, other])}; without one of them, "
        f"{_without(first, one)} and {_without(first, other)}."
    )


def _what(found: Attribution) -> str:
    if found.prediction.kind == "score":
        return "the score"
    return f"the {found.target.measure} of {_choice(found)}"


def _choice(found: Attribution) -> str:
    names = found.prediction.names(
        [c for c in (found.target.choice, found.target.against) if c is not None]
    )
    return " minus that of ".join(f"“{name.strip() or name}”" for name in names)


def _is_share(found: Attribution) -> bool:
    return found.prediction.kind != "score" and found.target.measure == "probability"


def _shown(found: Attribution, value: float) -> str:
    return percent(value, 1) if _is_share(found) else f"{value:.3g}"


def _points(found: Attribution, change: float) -> str:
    return f"{100 * change:.1f} points" if _is_share(found) else f"{change:.3g}"


def _without(first: Attribution, unit: int) -> str:
    return _shown(first, first.value - float(first.scores[unit]))


def _text(found: Attribution, unit: int) -> str:
    text = " ".join(found.units[unit].text.split())
    return text if len(text) <= 40 else f"{text[:39]}…"
