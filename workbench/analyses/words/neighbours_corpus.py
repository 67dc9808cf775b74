"""The experiment `neighbours`: what the nearest neighbours of words share, layer by layer.

Words are drawn from the texts, and their nearest occurrences are found in every layer. What they
share is compared with labels exchanged between forms, and with random-weight models of the same
architecture: a layer without any training also mixes a word with its context. Then the senses of
forms with several labels are clustered and compared with their nearest occurrences. Costs: a pass
over the texts for the model and for each random model, 4 bytes per number on disk for the states of
the words that are compared, and for each layer a product of queries by occurrences by width.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.analyses.words.experiments import NeighboursOverCorpus
from workbench.analyses.words.nearest import Pairs, nearest, nearest_pairs
from workbench.analyses.words.occurrences import (
    Occurrences,
    Words,
    in_context,
    lowered_codes,
    states_of,
    tabulated,
)
from workbench.analyses.words.senses import Clustered, Separation, k_means, permutations, separation
from workbench.core.arrays import Floats, Ints
from workbench.core.cluster_sample import ClusterSample
from workbench.core.comparisons import Comparison, comparison_table
from workbench.core.errors import WorkbenchError
from workbench.core.files import folder_or_temporary
from workbench.core.findings import plural
from workbench.core.stats import p_value, prediction_p_value
from workbench.corpora.layers import FEW_DOCUMENTS
from workbench.corpora.splits import few_sentences_caveat
from workbench.engine.model import Model, UnsupportedError
from workbench.engine.taps import StackName
from workbench.experiment.definition import Caveat, Inputs, Progress, Result

Mask = NDArray[np.bool_]

ALL, OTHER = "all words", "other forms"  # candidates
TESTED = ("tag", "relation")  # properties whose best layer is tested
MAPPED = 3  # forms on a map
LISTED = 5  # neighbours of an example
Point = tuple[StackName, int]  # a layer of a stack


# --- words, labels and senses ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Labels:
    """A property of the candidates, and whose label each gets in a permutation; -1: no label."""

    codes: Ints  # [candidates]
    exchange: NDArray[np.int32]  # [permutations, candidates], indices of candidates


class _Form(NamedTuple):
    """A form with several senses."""

    name: str
    rows: Ints  # [occurrences], of the index
    gold: Ints  # [occurrences], the sense of each
    senses: Sequence[str]
    permuted: Ints  # [permutations, occurrences]

    @property
    def shown(self) -> str:
        counts = np.bincount(self.gold, minlength=len(self.senses))
        order = np.argsort(-counts, kind="stable")
        return ", ".join(f"{self.senses[n] or '(none)'} {counts[n]}" for n in order)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """What is compared: candidates, the queries among them, their labels, and forms with senses."""

    words: Words
    candidates: Ints  # [candidates], rows of the index
    queries: Ints  # [queries], indices of candidates
    sample: ClusterSample  # the queries in documents
    apart: Mapping[str, Sequence[Ints]]  # codes that neighbours do not share, by candidates
    labels: Mapping[str, _Labels]
    forms: Sequence[_Form]

    @property
    def sample_of_forms(self) -> ClusterSample:
        return ClusterSample.of(np.arange(len(self.forms)), self.sample.seed)

    def properties(self, candidates: str) -> list[str]:
        return [name for name in self.labels if name != "form" or candidates == ALL]


def run(inputs: Inputs, settings: NeighboursOverCorpus, progress: Progress) -> Result:
    """Compute the tables of `neighbours`."""
    model = inputs.model
    extra = [] if settings.senses in ("tag", "lemma", "relation") else [settings.senses]
    everything = tabulated(((inputs.split or "", doc) for doc in inputs.docs()), extra)
    words, chosen, forms = _chosen(everything, settings, inputs.seed)
    n_layers = sum(stack.layers + 1 for stack in model.stacks)
    total = n_layers * (1 + settings.random_models)
    notes: list[str] = []

    def counted(begun: int) -> Callable[[int], object]:
        return lambda done: progress(begun + done, total, "comparing neighbours")

    with folder_or_temporary(inputs.scratch) as home:
        progress(0, None, "encoding sentences")
        stacks = states_of(model, words, home)
        progress(0, total, "comparing neighbours")
        index = Occurrences(model.name, inputs.corpus.name, words.table, words.sentences, stacks)
        drawn = _drawn(index, words, chosen, forms, settings, inputs.seed)
        read = _read(index, drawn, settings, inputs.seed, counted(0))
        examples = _examples(index, drawn, settings.max_examples, inputs.seed)
        random: list[_Read] = []
        try:
            for number in range(settings.random_models):
                begun = n_layers * (1 + number)
                with tempfile.TemporaryDirectory(dir=home) as folder:
                    twin = _twin(model, words, Path(folder), inputs.seed + number + 1)
                    random.append(_read(twin, drawn, settings, inputs.seed, counted(begun)))
        except UnsupportedError as error:
            notes.append(f"There is no random-weight baseline: {error.what}")
        tables = {
            "neighbours": _neighbours(drawn, read, random),
            "separation": _separation(drawn, read, random),
            "senses": _senses(drawn, read, random),
            "map": _map(index, drawn, read, inputs.seed),
            "examples": examples,
            "tests": _tests(drawn, read, random),
        }
    notes += _caveats(words, drawn, everything, chosen, settings)
    return Result(tables, caveats=tuple(map(Caveat, notes)))


def _twin(model: Model, words: Words, home: Path, seed: int) -> Occurrences:
    twin = model.reinitialised(seed)
    stacks = states_of(twin, words, home)
    return Occurrences(twin.name, "", words.table, words.sentences, stacks)


def _chosen(
    everything: Words, settings: NeighboursOverCorpus, seed: int
) -> tuple[Words, Ints, dict[str, tuple[Ints, list[str]]]]:
    """The words to index: candidates, and the occurrences of forms with several senses.

    Returns the words, the rows of candidates among them, and the rows and senses of each form.
    """
    table = everything.table
    codes, names = lowered_codes(table["form"])
    is_word = np.array([any(map(str.isalnum, name)) for name in names], dtype=bool)
    lexical = np.flatnonzero(is_word[codes]) if len(table) else np.zeros(0, np.int64)
    random = np.random.default_rng([seed, len(table)])
    candidates = lexical
    if len(lexical) > settings.max_occurrences:
        candidates = np.sort(random.choice(lexical, settings.max_occurrences, replace=False))
    forms = _ambiguous(table, lexical, codes, names, settings, random)
    rows = np.unique(np.concatenate([candidates, *(own for own, _ in forms.values())]))
    placed = {name: (np.searchsorted(rows, own), senses) for name, (own, senses) in forms.items()}
    return everything.only(rows), np.searchsorted(rows, candidates), placed


def _ambiguous(
    table: pd.DataFrame,
    lexical: Ints,
    codes: Ints,
    names: Sequence[str],
    settings: NeighboursOverCorpus,
    random: np.random.Generator,
) -> dict[str, tuple[Ints, list[str]]]:
    """Occurrences of the forms with two or more frequent senses, and the sense of each."""
    senses = table[settings.senses].astype(str).to_numpy()
    counts = (
        pd.DataFrame({"form": codes[lexical], "sense": senses[lexical]})
        .query("sense != ''")
        .value_counts(["form", "sense"])
    )
    frequent = counts[counts >= settings.min_count].reset_index()
    several = frequent[frequent.duplicated("form", keep=False)]
    second = several.groupby("form")["count"].nlargest(2).groupby("form").min()
    order = sorted(second.index, key=lambda code: (-second[code], names[code]))
    found: dict[str, tuple[Ints, list[str]]] = {}
    for code in order[: settings.max_forms]:
        parts = []
        for sense in sorted(several.loc[several["form"] == code, "sense"]):
            own = lexical[(codes[lexical] == code) & (senses[lexical] == sense)]
            if len(own) > settings.max_per_sense:
                own = random.choice(own, settings.max_per_sense, replace=False)
            parts.append(own)
        rows = np.sort(np.concatenate(parts))
        found[names[code]] = rows, senses[rows].tolist()
    return found


def _drawn(
    index: Occurrences,
    words: Words,
    chosen: Ints,
    forms: Mapping[str, tuple[Ints, list[str]]],
    settings: NeighboursOverCorpus,
    seed: int,
) -> _Drawn:
    """The candidates with a state in every layer, the queries, their labels, and the forms."""
    real = np.ones(len(index), dtype=bool)
    for stack, layers in index.stacks.items():
        for layer in range(len(layers)):
            real &= (index.rows(stack, layer).norms > 0).numpy()
    candidates = chosen[real[chosen]]
    sentences = words.table["sentence"].to_numpy(np.int64)
    if len(np.unique(sentences[candidates])) < 2:
        raise WorkbenchError(
            f"{plural(len(candidates), 'word')} of {plural(len(words.sentences), 'sentence')} have "
            "states: there are no neighbours in other sentences.",
            code="too-few-sentences",
            where=index.corpus,
            remedy="Use a corpus with more sentences, or in the language of the model.",
        )
    random = np.random.default_rng([seed, len(candidates), 1])
    queries = np.sort(random.permutation(len(candidates))[: settings.max_queries])
    documents, names = pd.factorize(words.sentences["document"])
    documents = documents.astype(np.int64)[sentences[candidates]]
    resampled = documents if len(names) >= FEW_DOCUMENTS else sentences[candidates]
    table = words.table.iloc[candidates]
    codes, _ = lowered_codes(table["form"])
    known = []
    for name, (rows, senses) in forms.items():
        kept = real[rows]
        gold, labels = pd.factorize(np.array(senses, dtype=object)[kept], sort=True)
        if len(labels) > 1 and np.bincount(gold).min() > 1:
            gold = gold.astype(np.int64)
            permuted = permutations(gold, settings.n_permutations, seed)
            known.append(_Form(name, rows[kept], gold, list(labels), permuted))
    return _Drawn(
        words,
        candidates,
        queries,
        ClusterSample.of(resampled[queries], seed),
        {ALL: [sentences[candidates]], OTHER: [sentences[candidates], codes]},
        _labels(table, codes, documents, settings.n_permutations, random),
        known,
    )


def _labels(
    table: pd.DataFrame, forms: Ints, documents: Ints, number: int, random: np.random.Generator
) -> dict[str, _Labels]:
    """The properties that differ between words, with labels exchanged."""
    codes: dict[str, Ints] = {"form": forms}
    for name in ("lemma", "tag", "relation"):
        values = table[name].cat.codes.to_numpy(np.int64)
        empty = table[name].cat.categories == ""
        codes[name] = np.where(np.append(empty, False)[values], -1, values)
    codes["position"] = table["position"].to_numpy(np.int64)
    if 1 < len(np.unique(documents)) < table["sentence"].nunique():
        codes["document"] = documents
    exchange = exchanged_rows(forms, number, random)  # [permutations, candidates]
    everyone = np.tile(np.arange(len(forms), dtype=np.int32), (number, 1))
    shuffled = random.permuted(everyone, axis=1)
    return {
        name: _Labels(own, shuffled if name == "form" else exchange)
        for name, own in codes.items()
        if len(np.unique(own[own >= 0])) > 1
    }


def exchanged_rows(forms: Ints, number: int, random: np.random.Generator) -> NDArray[np.int32]:
    """For each occurrence a random occurrence of another form, the same one for all of its form.

    Forms are exchanged among those with about the same number of occurrences (powers of two), so
    that labels stay about as frequent, and what occurrences of one form share stays shared.
    # [occurrences] -> [number, occurrences]
    """
    order = np.argsort(forms, kind="stable")
    names, place, counts = np.unique(forms, return_inverse=True, return_counts=True)
    starts = np.cumsum(counts) - counts
    strata = np.log2(counts).astype(np.int64)
    rows = np.empty((number, len(forms)), dtype=np.int32)
    for draw in range(number):
        other = np.arange(len(names))
        for stratum in np.unique(strata):
            own = np.flatnonzero(strata == stratum)
            other[own] = random.permutation(own)
        of = other[place]  # [occurrences], the form whose labels it gets
        rows[draw] = order[starts[of] + (random.random(len(forms)) * counts[of]).astype(int)]
    return rows


def _caveats(
    words: Words,
    drawn: _Drawn,
    everything: Words,
    chosen: Ints,
    settings: NeighboursOverCorpus,
) -> list[str]:
    sentences = words.table["sentence"].to_numpy()[drawn.candidates[drawn.queries]]
    notes = [*few_sentences_caveat(len(np.unique(sentences)))]
    if missing := len(chosen) - len(drawn.candidates):
        notes.append(
            f"{missing:,} of {len(chosen):,} words have no state, because they are unknown to the "
            "model, have no piece of their own, or are beyond the end of what it reads. They are "
            "left out."
        )
    if len(everything.table) > len(chosen):
        sample = ", a random sample of them" if len(chosen) == settings.max_occurrences else ""
        notes.append(
            f"{len(drawn.candidates):,} of {len(everything.table):,} words are searched: those "
            f"with a letter or digit{sample}."
        )
    if "tag" not in drawn.labels:
        notes.append("The corpus has no parts of speech, so neighbours are not compared by them.")
    if not drawn.forms and settings.max_forms:
        notes.append(
            f"No form has two values of {settings.senses} with {settings.min_count} occurrences "
            "each, so senses are not compared. Use more sentences, or a smaller min_count."
        )
    return notes


# --- what a model's layers have -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Read:
    """What a model has at each layer."""

    points: Sequence[Point]
    shares: dict[tuple[Point, str, str], Floats] = field(default_factory=dict)  # [queries] each
    chances: dict[tuple[Point, str, str], Floats] = field(default_factory=dict)  # [permutations]
    senses: dict[tuple[Point, str], Separation] = field(default_factory=dict)

    @property
    def stacks(self) -> list[StackName]:
        return list(dict.fromkeys(stack for stack, _ in self.points))

    def of(self, stack: StackName) -> list[Point]:
        return [point for point in self.points if point[0] == stack]

    def share(self, point: Point, candidates: str, name: str) -> float:
        return float(np.nanmean(self.shares[point, candidates, name]))

    def chance(self, point: Point, candidates: str, name: str) -> float:
        return float(self.chances[point, candidates, name].mean())

    def separations(self, point: Point, measure: str, forms: Sequence[_Form]) -> Floats:
        """A measure of each form.  # [forms]"""
        return np.array([getattr(self.senses[point, form.name], measure) for form in forms])


def _read(
    index: Occurrences,
    drawn: _Drawn,
    settings: NeighboursOverCorpus,
    seed: int,
    on_layer: Callable[[int], object],
) -> _Read:
    points = [(stack, layer) for stack, own in index.stacks.items() for layer in range(len(own))]
    read = _Read(points)
    sentences = index.table["sentence"].to_numpy(np.int64)
    for number, point in enumerate(points, 1):
        rows = index.rows(*point)
        own = rows.take(drawn.candidates)
        for candidates, apart in drawn.apart.items():
            pairs = nearest_pairs(own, drawn.queries, settings.k, apart)
            for name in drawn.properties(candidates):
                key = point, candidates, name
                read.shares[key], read.chances[key] = _shared(drawn, pairs, drawn.labels[name])
        for form in drawn.forms:
            of_form = rows.take(form.rows)
            clusters = k_means(of_form.unit.numpy(), len(form.senses), seed)
            read.senses[point, form.name] = separation(
                of_form, clusters, form.gold, sentences[form.rows], form.permuted
            )
        on_layer(number)
    return read


def _shared(drawn: _Drawn, pairs: Pairs, labels: _Labels) -> tuple[Floats, Floats]:
    """The share of neighbours with the label of each query, and the mean with labels exchanged.

    NaN for a query without a label or without neighbours.  # [queries], [permutations]
    """
    first, second, weights = pairs.queries, pairs.neighbours, pairs.weights
    codes, n = labels.codes, len(drawn.candidates)
    shares = pairs.shares(codes[first] == codes[second], n)
    shares[codes < 0] = np.nan
    null = np.empty(len(labels.exchange))
    for draw, rows in enumerate(labels.exchange):
        given = codes[rows[first]]
        labelled = given >= 0
        matches = labelled & (given == codes[rows[second]])
        null[draw] = (weights @ matches) / max(float(weights @ labelled), 1e-12)
    return shares[drawn.queries], null


# --- tables ---------------------------------------------------------------------------------------


def _known(values: Floats) -> tuple[Floats, Mask]:
    """Values without NaN, and where they are known.  # [..., units] -> [units, ...] twice"""
    return np.nan_to_num(values).T, ~np.isnan(values).T


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _neighbours(drawn: _Drawn, read: _Read, random: Sequence[_Read]) -> pd.DataFrame:
    keys = [key for key, own in read.shares.items() if not np.isnan(own).all()]
    columns = [
        "stack", "layer", "candidates", "property", "share", "lower", "upper", "chance", "p",
        "random", "n",
    ]  # fmt: skip
    if not keys:
        return pd.DataFrame(columns=columns)
    values = np.stack([read.shares[key] for key in keys])
    lower, upper = drawn.sample.ratio_interval(*_known(values))
    rows = []
    for number, key in enumerate(keys):
        share, null = read.share(*key), read.chances[key]
        p = (1 + (null >= share - 1e-9).sum()) / (1 + len(null))
        twins = [each.share(*key) for each in random]
        n = int((~np.isnan(values[number])).sum())
        rows.append(
            (*key[0], key[1], key[2], share, lower[number], upper[number], null.mean(), p,
             _mean(twins), n)
        )  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


MEASURES = {"v_measure": "v_chance", "accuracy": "chance"}  # and what permuted senses have


def _separation(drawn: _Drawn, read: _Read, random: Sequence[_Read]) -> pd.DataFrame:
    columns = ["stack", "layer", "measure", "value", "lower", "upper", "chance", "random", "n"]
    if not drawn.forms:
        return pd.DataFrame(columns=columns)
    keys = [(point, measure) for point in read.points for measure in MEASURES]
    values = np.stack([read.separations(*key, drawn.forms) for key in keys])  # [rows, forms]
    lower, upper = drawn.sample_of_forms.ratio_interval(*_known(values))
    rows = []
    for number, (point, measure) in enumerate(keys):
        chance = read.separations(point, MEASURES[measure], drawn.forms)
        twins = [float(each.separations(point, measure, drawn.forms).mean()) for each in random]
        rows.append(
            (*point, measure, values[number].mean(), lower[number], upper[number], chance.mean(),
             _mean(twins), len(drawn.forms))
        )  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def _senses(drawn: _Drawn, read: _Read, random: Sequence[_Read]) -> pd.DataFrame:
    rows = []
    for form in drawn.forms:
        for point in read.points:
            own = read.senses[point, form.name]
            twins = [each.senses[point, form.name] for each in random]
            rows.append(
                (form.name, *point, form.shown, len(form.gold), own.v_measure, own.v_chance,
                 own.v_p, _mean([each.v_measure for each in twins]), own.accuracy, own.chance,
                 own.p, _mean([each.accuracy for each in twins]))
            )  # fmt: skip
    columns = [
        "form", "stack", "layer", "senses", "n", "v_measure", "v_chance", "v_p", "v_random",
        "accuracy", "chance", "p", "random",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def _map(index: Occurrences, drawn: _Drawn, read: _Read, seed: int) -> pd.DataFrame:
    """The most frequent forms with several senses, where their senses are separated best."""
    stack = read.stacks[0]
    rows = []
    for form in drawn.forms[:MAPPED]:
        point = max(read.of(stack), key=lambda each: read.senses[each, form.name].accuracy)
        points = Clustered.of(index.rows(*point).take(form.rows), len(form.senses), seed)
        about = index.described(form.rows)
        for number, row in enumerate(about.to_dict("records")):
            context = in_context(row["sentence"], row["start"], row["end"])
            x, y = points.map[number].tolist()
            sense = form.senses[form.gold[number]]
            rows.append(
                (form.name, *point, number, x, y, sense, int(points.clusters[number]), context)
            )
    columns = ["form", "stack", "layer", "occurrence", "x", "y", "sense", "cluster", "context"]
    return pd.DataFrame(rows, columns=columns)


def _examples(index: Occurrences, drawn: _Drawn, number: int, seed: int) -> pd.DataFrame:
    """Words of each sense of the first forms, and further words, with their neighbours."""
    chosen: list[int] = []
    for form in drawn.forms:
        first = [int(form.rows[np.argmax(form.gold == sense)]) for sense in (0, 1)]
        chosen += first
    random = np.random.default_rng([seed, len(drawn.queries), 2])
    chosen += drawn.candidates[random.permutation(drawn.queries)].tolist()
    sentences = index.table["sentence"].to_numpy()
    is_candidate = np.zeros(len(index), dtype=bool)
    is_candidate[drawn.candidates] = True
    listed = []
    for example, query in enumerate(list(dict.fromkeys(chosen))[:number]):
        allowed = is_candidate & (sentences != sentences[query])
        for stack, layers in index.stacks.items():
            for layer in range(len(layers)):
                own = index.rows(stack, layer)
                similarities, found = nearest(own, own.states[query], LISTED, allowed)
                near = zip(similarities.tolist(), found.tolist(), strict=True)
                for rank, (value, neighbour) in enumerate(near, 1):
                    listed.append((example, stack, layer, rank, query, value, neighbour))
    told = list(dict.fromkeys(n for row in listed for n in (row[4], row[6])))
    about = dict(zip(told, index.described(told).to_dict("records"), strict=True))
    context = {n: in_context(w["sentence"], w["start"], w["end"]) for n, w in about.items()}
    rows = [
        (example, stack, layer, rank, about[query]["form"], about[query]["tag"], context[query],
         value, about[other]["form"], about[other]["tag"], context[other])
        for example, stack, layer, rank, query, value, other in listed
    ]  # fmt: skip
    columns = [
        "example", "stack", "layer", "rank", "form", "tag", "context", "similarity", "neighbour",
        "neighbour_tag", "neighbour_context",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


# --- tests ----------------------------------------------------------------------------------------


def _tests(drawn: _Drawn, read: _Read, random: Sequence[_Read]) -> pd.DataFrame:
    tests: list[Comparison] = []
    for stack in read.stacks:
        for name in (name for name in TESTED if name in drawn.labels):
            tests += _tests_of_shares(drawn, read, random, stack, name)
        for measure in MEASURES if drawn.forms else ():
            tests.append(_test_of_senses(drawn, read, random, stack, measure))
    columns = [
        "stack", "comparison", "layer", "first", "second", "difference", "lower", "upper",
        "random", "p", "holds", "n", "random_models",
    ]  # fmt: skip
    return comparison_table(tests, columns)


def _of_best(
    point: Point, name: str, tried: int, numbers: tuple[float, float], draws: Floats,
    random: Floats, n: int,
) -> Comparison:  # fmt: skip
    """Two numbers at the best of several layers, and the difference at those of random models.

    Its p-value is of being above those of random weights; 1 without several. Where they are all
    equal, it is the bootstrap's, times the number of layers.
    """
    first, second = numbers
    if len(random) < 2:
        p = 1.0
    elif np.ptp(random) < 1e-12:
        p = min(1.0, tried * float(p_value(draws - random[0])))
    else:
        p = prediction_p_value(second - first, -random)
    about = {"stack": point[0], "comparison": name, "layer": point[1], "n": n}
    return Comparison(about, first, second, draws, random, p, "higher")


def _best(read: _Read, points: Sequence[Point], name: str) -> Point:
    return max(points, key=lambda point: read.share(point, OTHER, name))


def _tests_of_shares(
    drawn: _Drawn, read: _Read, random: Sequence[_Read], stack: StackName, name: str
) -> list[Comparison]:
    """The best layer for a property of other forms against chance, and the best above layer 0."""
    points = read.of(stack)
    if np.isnan(read.shares[points[0], OTHER, name]).all():
        return []

    def against_chance(each: _Read) -> tuple[Point, Floats]:
        best = _best(each, points, name)
        return best, np.full(len(drawn.queries), each.chance(best, OTHER, name))

    def against_layer_0(each: _Read) -> tuple[Point, Floats]:
        return _best(each, points[1:], name), each.shares[points[0], OTHER, name]

    def gain(each: _Read, best: Point, second: Floats) -> Floats:
        return each.shares[best, OTHER, name] - second

    tests = []
    comparisons = {name: (against_chance, points)}
    if len(points) > 1:
        comparisons[f"{name} above layer 0"] = against_layer_0, points[1:]
    for comparison, (against, tried) in comparisons.items():
        best, second = against(read)
        draws = drawn.sample.ratio_draws(*_known(gain(read, best, second)))
        known = ~np.isnan(read.shares[best, OTHER, name])
        twins = [float(np.nanmean(gain(each, *against(each)))) for each in random]
        tests.append(
            _of_best(best, comparison, len(tried),
                     (read.share(best, OTHER, name), float(second[known].mean())),
                     draws, np.array(twins), int(known.sum()))
        )  # fmt: skip
    return tests


def _test_of_senses(
    drawn: _Drawn, read: _Read, random: Sequence[_Read], stack: StackName, measure: str
) -> Comparison:
    """The layer that separates the senses of forms best, against permuted senses."""

    def gains(each: _Read, point: Point) -> Floats:
        value = each.separations(point, measure, drawn.forms)
        return value - each.separations(point, MEASURES[measure], drawn.forms)

    def best(each: _Read) -> Point:
        return max(each.of(stack), key=lambda point: float(np.nanmean(gains(each, point))))

    point = best(read)
    own = gains(read, point)  # [forms]
    draws = drawn.sample_of_forms.ratio_draws(*_known(own))
    first = read.separations(point, measure, drawn.forms)
    return _of_best(
        point,
        f"sense {measure.replace('_', '-')}",
        len(read.of(stack)),
        (float(np.nanmean(first)), float(np.nanmean(first - own))),
        draws,
        np.array([float(np.nanmean(gains(each, best(each)))) for each in random]),
        len(own),
    )
