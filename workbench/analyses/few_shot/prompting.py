"""Texts labelled after demonstrations in a prompt, without training, next to controls.

Controls take away one thing after the other: the right labels, the texts of the task, and the words
of its labels; what then is left of a gain is that of the format (Min et al. 2022). Demonstrations
are drawn from the shorter half of train, equally many of each class. A prompt is never cut: where
the model cannot read all prompts with so many demonstrations, fewer are used, and texts that it
cannot read without any are left out. Costs: for each seed, template and set of label words a
forward pass over each text with each label, by number of demonstrations and by control; then what
is looked at inside.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from math import factorial
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import chi2

from workbench.analyses.few_shot.experiments import FewShot
from workbench.analyses.few_shot.inside import head_table, layer_table
from workbench.analyses.few_shot.origins import origin_tables
from workbench.core.arrays import Floats, Ints
from workbench.core.errors import WorkbenchError
from workbench.core.groups import grouped
from workbench.core.stats import (
    difference,
    holm,
    interval_around,
    resampled,
    share,
    wilson_interval,
)
from workbench.corpora import read
from workbench.corpora.splits import SplitSizes
from workbench.corpora.tasks import Examples, Split, corpora_of, split_of, task_of
from workbench.engine.batch import batch_of
from workbench.engine.model import Model, UnsupportedError
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.huggingface import require_transformer
from workbench.models.scoring.lm_scoring import start_of
from workbench.models.scoring.prompts import (
    CALIBRATIONS,
    Calibration,
    Demonstration,
    LabelProbabilities,
    PromptDesign,
    Text,
    fit,
    label_probabilities,
)

if TYPE_CHECKING:
    from workbench.corpora import Corpus
    from workbench.engine.task import Task

POOL = 1000  # texts of train that demonstrations are drawn from
OTHERS = 500  # sentences of primer, from which other texts and other words are drawn
SHOWN = 200  # characters of a text in a table
LONGEST = 10  # texts, in characters, that are tried with fewer and fewer demonstrations
DRAWS = 4000  # bootstrap samples: a p-value is at least 0.0005
NONE, TRUE, NO_TEXT, MAJORITY = "none", "demonstrations", "no text", "majority"
RANDOM, OTHER_TEXTS, OTHER_WORDS = "random labels", "other texts", "other words"
STEPS = (  # from no demonstrations to all that they have
    ("format", NONE, OTHER_WORDS),
    ("label words", OTHER_WORDS, OTHER_TEXTS),
    ("texts of the task", OTHER_TEXTS, RANDOM),
    ("right labels", RANDOM, TRUE),
)

Shown = Sequence[Demonstration]
Arm = tuple[int, str]  # number of demonstrations, and what they are
Choices = dict[Calibration, Ints]  # by calibration: [seeds, designs, texts], index of the label
Row = tuple[Arm, Calibration]


@dataclass(frozen=True)
class Trial:
    """What all prompts of a run have in common."""

    model: Model
    designs: tuple[PromptDesign, ...]
    texts: tuple[Text, ...]
    gold: Ints  # [texts], index of the label
    start: int | None

    def fitting(self, design: PromptDesign, shown: Shown = ()) -> NDArray[np.bool_]:
        """Whether the model reads each text after these demonstrations.  # [texts]"""
        prompts = [design.prompt(shown, text) for text in self.texts]
        return fit(self.model, design, prompts, self.start)


def fits(corpus: "Corpus", settings: FewShot) -> None:
    """Raise an error if the corpus has no classes, or if a template or label words are wrong."""
    _, task = task_with_classes(corpus, settings.task)
    designs_of(settings, task)


def task_with_classes(corpus: "Corpus", name: str) -> "tuple[Corpus, Task]":
    """The task of a name, or the first whose labels are classes, with its corpus."""
    kinds = []
    for own, each in corpora_of(corpus, [name] if name else []):
        task = task_of(own, each)  # reads the corpus, so of no more than are needed
        if task.kind == "class":
            return own, task
        kinds.append(str(task))
    raise WorkbenchError(
        f"the corpus has no label with classes, but {', '.join(kinds)}.",
        code="task-not-found",
        where=corpus.name,
        remedy="Choose a corpus whose texts have classes, such as primer/sentiment.",
    )


def designs_of(settings: FewShot, task: "Task") -> tuple[PromptDesign, ...]:
    """Each template with each set of label words."""
    sets = [_words(each, task.names) for each in settings.label_words]
    sets = sets or [{name: name.replace("_", " ") for name in task.names}]
    return tuple(
        PromptDesign(template, words, settings.separator, settings.whole_output)
        for template in settings.templates
        for words in sets
    )


def _words(written: str, names: Sequence[str]) -> dict[str, str]:
    pairs = [part.partition("=") for part in written.split(";")]
    words = {name.strip(): word.strip() for name, _, word in pairs}
    if set(words) != set(names):
        raise WorkbenchError(
            f"the label words {written!r} are not those of {', '.join(names)}.",
            code="label-words-invalid",
            remedy=f"Name every label once: {'; '.join(f'{name}=WORD' for name in names)}.",
        )
    return {name: words[name] for name in names}


def run(inputs: Inputs, settings: FewShot, progress: Progress) -> Result:
    """Compute the tables of `few-shot`."""
    corpus, task = task_with_classes(inputs.corpus, settings.task)
    sizes = SplitSizes(POOL, 1, settings.max_sentences)
    split = split_of(corpus, task, inputs.split, inputs.seed, sizes)
    trial, notes = _trial(inputs.model, designs_of(settings, task), split)
    wanted = max(settings.shots)
    drawn = {seed: _drawn(split, wanted, seed) for seed in settings.seeds}
    most = _most(trial, drawn, wanted)
    if most < wanted:
        notes.append(
            f"{trial.model.name} reads {trial.model.max_pieces} pieces: not every prompt with "
            f"{wanted} demonstrations fits, so they have at most {most}."
        )
    shots = sorted({min(k, most) for k in settings.shots})
    orders = {
        seed: _orders(shown[TRUE][:most], settings.orders, seed) for seed, shown in drawn.items()
    }
    n_prompts = len(trial.designs) * (1 + len(drawn) * (len(shots) + 3))
    total = n_prompts + sum(map(len, orders.values())) - len(orders)
    done = iter(range(total))

    def scored(design: PromptDesign, shown: Shown) -> LabelProbabilities:
        progress(next(done), total, "scoring prompts")
        return label_probabilities(trial.model, design, shown, trial.texts, trial.start)

    first = [scored(design, ()) for design in trial.designs]
    names = _calibrations(first, settings.calibration)
    arms = {(0, NONE): _choices([first] * len(drawn), names)}
    for k in shots:
        found = [
            [scored(each, shown[TRUE][:k]) for each in trial.designs] for shown in drawn.values()
        ]
        arms[k, TRUE] = _choices(found, names)
    shown_last = found[0][0].probabilities(settings.calibration)
    for control in (RANDOM, OTHER_TEXTS, OTHER_WORDS):
        found = [
            [scored(each, shown[control][:most]) for each in trial.designs]
            for shown in drawn.values()
        ]
        arms[most, control] = _choices(found, names)
    ordered = {
        seed: np.stack(
            [arms[most, TRUE][settings.calibration][index, 0]]
            + [_choice(scored(trial.designs[0], shown), settings.calibration) for shown in own[1:]]
        )
        for index, (seed, own) in enumerate(orders.items())
    }
    majority = Counter(split.train.gold).most_common(1)[0][0]
    constant = np.full_like(arms[0, NONE]["none"], majority)
    arms[0, MAJORITY] = {"none": constant}
    if "domain" in names:
        prior = np.array([each.domain.argmin() for each in first])[:, None]  # [designs, 1]
        arms[0, NO_TEXT] = {"none": np.zeros_like(constant) + prior}
    tables = {
        **_scores(arms, trial.gold, settings.calibration, most, inputs.seed),
        "designs": _designs(arms, trial, settings),
        "items": _items(arms, trial, settings, most, shown_last),
    }
    if most > 1:
        tables["orders"] = _order_table(ordered, trial.gold, most)
    chosen = arms[most, TRUE][settings.calibration][0, 0]
    tables |= _inside(
        trial, drawn[settings.seeds[0]][TRUE][:most], settings, chosen, inputs.seed, progress
    )
    return Result(tables, caveats=tuple(Caveat(each) for each in notes))


def _trial(
    model: Model, designs: tuple[PromptDesign, ...], split: Split
) -> tuple[Trial, list[str]]:
    """The texts that the model reads whole in every design, and notes."""
    notes = [*split.notes]
    texts, gold = _texts(split.test), np.array(split.test.gold, dtype=np.int64)
    start = start_of(model, split.test.batch)
    trial = Trial(model, designs, tuple(texts), gold, start)
    read_whole = np.all([trial.fitting(design) for design in designs], axis=0)  # [texts]
    if not read_whole.any():
        raise WorkbenchError(
            f"every text is longer than the {model.max_pieces} pieces that {model.name} reads.",
            code="prompt-too-long",
            remedy="Choose a corpus of shorter texts, or a model that reads longer ones.",
        )
    if not read_whole.all():
        notes.append(
            f"{(~read_whole).sum():,} of {len(texts):,} texts are longer than the model reads: "
            "left out."
        )
    kept = np.flatnonzero(read_whole)
    words = [word for design in designs for word in design.words.values()]
    batch = batch_of(words, [[(0, len(word))] for word in words])
    pieces = model.encode(batch)
    unknown = (model.unknown_pieces(pieces) & ~pieces.special).any(1).tolist()
    if any(unknown):
        these = ", ".join(dict.fromkeys(w for w, is_ in zip(words, unknown, strict=True) if is_))
        notes.append(
            f"{model.name} does not know all of these words of labels, so it cannot predict them: "
            f"{these}. Choose others with label_words."
        )
    return Trial(model, designs, tuple(texts[n] for n in kept), gold[kept], start), notes


def _texts(examples: Examples) -> list[Text]:
    """The texts, or the two texts of each pair."""
    batch, texts = examples.batch, list[Text]()
    for n in range(len(batch)):
        text = batch.text_of(n)
        second = np.flatnonzero(batch.segments[slice(*batch.word_offsets[n : n + 2])])
        if len(second):
            begins = batch.words_of(n)[second[0], 0]
            texts.append((text[:begins].rstrip(), text[begins:]))
        else:
            texts.append(text)
    return texts


# --- demonstrations -------------------------------------------------------------------------------


@cache
def _others() -> tuple[Sequence[str], frozenset[str]]:
    """Sentences of the primer, and the nouns in them."""
    docs = list(islice(read("primer").docs("train"), OTHERS))
    nouns = frozenset(word.text for doc in docs for word in doc if word.pos_ == "NOUN")
    return [doc.text for doc in docs], nouns


def _drawn(split: Split, number: int, seed: int) -> dict[str, list[Demonstration]]:
    """Demonstrations and their controls; the first k of each are those of k demonstrations.

    Each round of the draw has one text of every class, in random order.
    """
    random, names = Random(f"demonstrations {seed}"), split.task.names
    texts, gold = _texts(split.train), [names[n] for n in split.train.gold]  # type: ignore[index]
    middle = np.median([len(" ".join(_parts(text))) for text in texts])
    left = grouped(
        (label, text)
        for text, label in random.sample([*zip(texts, gold, strict=True)], len(texts))
        if len(" ".join(_parts(text))) <= middle
    )
    true: list[Demonstration] = []
    while len(true) < number and left:
        for name in random.sample([*left], len(left)):
            true.append(Demonstration(left[name].pop(), name))
            if not left[name]:
                del left[name]
    true = true[:number]
    at_random = [random.choice(names) for _ in true]
    longest = max(len(" ".join(_parts(each.text))) for each in true)  # in characters
    sentences, nouns = _others()
    short = [text for text in sentences if len(text) <= longest] or [sentences[0]]
    sentences = random.choices(short, k=2 * len(true))
    words = dict(zip(names, random.sample(sorted(nouns - {*names}), len(names)), strict=True))
    others: list[Text] = [
        (one, two) if isinstance(each.text, tuple) else one
        for each, one, two in zip(true, sentences[::2], sentences[1::2], strict=True)
    ]
    return {
        TRUE: true,
        RANDOM: [Demonstration(e.text, label) for e, label in zip(true, at_random, strict=True)],
        OTHER_TEXTS: [Demonstration(*pair) for pair in zip(others, at_random, strict=True)],
        OTHER_WORDS: [Demonstration(t, words[n]) for t, n in zip(others, at_random, strict=True)],
    }


def _parts(text: Text) -> tuple[str, ...]:
    """The texts of a pair, or the one text."""
    return text if isinstance(text, tuple) else (text,)


def _most(trial: Trial, drawn: Mapping[int, Mapping[str, Shown]], wanted: int) -> int:
    """The largest number of demonstrations with which the model reads every prompt."""
    by_length = sorted(trial.texts, key=lambda text: -len(" ".join(_parts(text))))
    longest = replace(trial, texts=tuple(by_length[:LONGEST]))
    most = next(
        (
            k for k in range(wanted, 0, -1)
            if all(
                longest.fitting(design, shown[:k]).all()
                for own in drawn.values() for shown in own.values() for design in trial.designs
            )
        ),
        0,
    )  # fmt: skip
    if not most:
        raise WorkbenchError(
            f"{trial.model.name} reads {trial.model.max_pieces} pieces: not even one demonstration "
            "fits before each text.",
            code="prompt-too-long",
            remedy="Choose a corpus of shorter texts, a shorter template, or a model that reads "
            "longer texts.",
        )
    return most


def _orders(shown: Shown, number: int, seed: int) -> list[Shown]:
    """Different orders of the demonstrations, the drawn one first."""
    random, found = Random(f"orders {seed}"), {tuple(range(len(shown))): None}
    while len(found) < min(number, factorial(len(shown))):
        found[tuple(random.sample(range(len(shown)), len(shown)))] = None
    return [[shown[n] for n in order] for order in found]


def _inside(
    trial: Trial, shown: Shown, settings: FewShot, chosen: Ints, seed: int, progress: Progress
) -> dict[str, pd.DataFrame]:
    """The tables of attribution, `layers` and `heads`, where the model has them."""
    model, own = trial.model, (trial.designs[0], shown, trial.texts, trial.gold)
    tables: dict[str, pd.DataFrame] = {}
    if settings.whole_output:
        return tables
    if settings.attributed:
        tables |= origin_tables(
            model, *own[:3], chosen, trial.start, settings.attributed, seed, progress
        )
    with suppress(UnsupportedError):
        tables["layers"] = layer_table(model, *own)
    if settings.heads and model.objective == "causal":
        with suppress(UnsupportedError):
            net = require_transformer(model, "has no heads", "Set heads=0.")
            how = (settings.heads, settings.calibration, trial.start, settings.seeds[0])
            tables["heads"] = head_table(net, *own, *how)
    return {name: table for name, table in tables.items() if len(table)}


# --- predictions ----------------------------------------------------------------------------------


def _calibrations(found: Sequence[LabelProbabilities], wanted: Calibration) -> list[Calibration]:
    """The calibrations that every design has."""
    names = [
        name for name in CALIBRATIONS
        if not any(np.isnan(each.probabilities(name)).any() for each in found)
    ]  # fmt: skip
    if wanted not in names:
        raise WorkbenchError(
            f"a template has nothing but the text before the label, so no calibration {wanted}.",
            code="setting-invalid",
            remedy="Write words before {label}, as in '{text} It was {label}.', or set calibration "
            "to contextual.",
        )
    return names


def _choice(found: LabelProbabilities, calibration: Calibration) -> Ints:
    chosen: Ints = found.probabilities(calibration).argmax(-1)
    return chosen


def _choices(
    found: Sequence[Sequence[LabelProbabilities]], names: Sequence[Calibration]
) -> Choices:
    return {
        name: np.array([[_choice(each, name) for each in designs] for designs in found])
        for name in names
    }


# --- tables ---------------------------------------------------------------------------------------


def _scores(
    arms: Mapping[Arm, Choices], gold: Ints, calibration: Calibration, most: int, seed: int
) -> dict[str, pd.DataFrame]:
    """The tables `scores` and `gains`, from the same bootstrap samples of texts and seeds."""
    rows = [(arm, name) for arm, choices in arms.items() for name in choices]
    right = [(arms[arm][name] == gold) for arm, name in rows]  # [seeds, designs, texts] each
    counts = np.stack(
        [np.stack([r.sum(1), np.full_like(r[:, 0], r.shape[1], int)], -1) for r in right]
    )
    values = share(counts.sum(2)).mean(1)  # [rows]
    draws = resampled(counts, share, seed, DRAWS)  # [rows, draws]
    lower, upper = interval_around(values, draws)
    scores = [
        {
            "shots": arm[0], "prompt": arm[1], "calibration": name, "accuracy": values[n],
            "lower": lower[n], "upper": upper[n], "n": len(gold),
        }
        for n, (arm, name) in enumerate(rows)
    ]  # fmt: skip
    index = {row: n for n, row in enumerate(rows)}
    gains = []
    for k, gain, name, less, more in _pairs(arms, calibration, most):
        a, b = index[less], index[more]
        low, high, p = difference(draws[a], draws[b])
        value = values[b] - values[a]
        gains.append(
            {
                "shots": k, "gain": gain, "calibration": name, "difference": value,
                "lower": min(low, value), "upper": max(high, value), "p": p, "n": len(gold),
            }
        )  # fmt: skip
    table = pd.DataFrame(gains)
    table["p"] = holm(table["p"].to_numpy())
    return {"scores": pd.DataFrame(scores), "gains": table}


def _pairs(
    arms: Mapping[Arm, Choices], calibration: Calibration, most: int
) -> Iterator[tuple[int, str, Calibration, Row, Row]]:
    """What is compared: number of demonstrations, name, calibration, the less and the more."""
    majority: Row = ((0, MAJORITY), "none")
    zero: Row = ((0, NONE), calibration)
    yield 0, "above majority", calibration, majority, zero
    for arm in arms:
        if arm[1] == TRUE:
            yield arm[0], "demonstrations", calibration, zero, (arm, calibration)
            yield arm[0], "above majority", calibration, majority, (arm, calibration)
    for name, less, more in STEPS:
        lower = zero if less == NONE else ((most, less), calibration)
        yield most, name, calibration, lower, ((most, more), calibration)
    for other in arms[most, TRUE]:
        if other != "none":
            yield most, "calibration", other, ((most, TRUE), "none"), ((most, TRUE), other)


def _designs(arms: Mapping[Arm, Choices], trial: Trial, settings: FewShot) -> pd.DataFrame:
    rows = []
    for (k, prompt), choices in arms.items():
        if prompt not in (NONE, TRUE):
            continue
        right = (choices[settings.calibration] == trial.gold).mean(-1)  # [seeds, designs]
        for index, design in enumerate(trial.designs):
            rows += [
                {
                    "shots": k, "template": design.template,
                    "words": ", ".join(design.words.values()), "seed": seed,
                    "accuracy": right[row, index],
                }
                for row, seed in enumerate(settings.seeds if k else settings.seeds[:1])
            ]  # fmt: skip
    return pd.DataFrame(rows)


def _items(
    arms: Mapping[Arm, Choices], trial: Trial, settings: FewShot, most: int, shares: Floats
) -> pd.DataFrame:
    labels, name = trial.designs[0].labels, settings.calibration
    before, after = (arms[arm][name][0, 0] for arm in ((0, NONE), (most, TRUE)))
    said = [" | ".join(_parts(text)) for text in trial.texts]
    return pd.DataFrame(
        {
            "text": np.arange(1, len(said) + 1),
            "said": [text if len(text) <= SHOWN else f"{text[:SHOWN]} …" for text in said],
            "label": [labels[n] for n in trial.gold],
            "without": [labels[n] for n in before],
            "with": [labels[n] for n in after],
            "probability": shares.max(-1),
        }
    )


def _order_table(ordered: Mapping[int, Ints], gold: Ints, most: int) -> pd.DataFrame:
    """How much orders differ; predictions of each seed are [orders, texts]."""
    rows = []
    for seed, chosen in ordered.items():
        right = chosen == gold  # [orders, texts]
        changed = int((chosen != chosen[0]).any(0).sum())
        lower, upper = wilson_interval(changed, len(gold))
        rows.append(
            {
                "seed": seed, "shots": most, "orders": len(chosen),
                "lowest": right.mean(1).min(), "highest": right.mean(1).max(),
                "changed": changed / len(gold), "lower": lower, "upper": upper, "n": len(gold),
                "p": cochran_p_value(right),
            }
        )  # fmt: skip
    table = pd.DataFrame(rows)
    table["p"] = holm(table["p"].to_numpy())
    return table


def cochran_p_value(right: NDArray[np.bool_]) -> float:
    """Cochran's Q: the p-value of orders being equally accurate.  # [orders, texts]"""
    orders = len(right)
    per_order, per_text = right.sum(1), right.sum(0)
    varying = float((per_text * (orders - per_text)).sum())
    if not varying:
        return 1.0
    q = orders * (orders - 1) * float(((per_order - per_order.mean()) ** 2).sum()) / varying
    return float(chi2.sf(q, orders - 1))
