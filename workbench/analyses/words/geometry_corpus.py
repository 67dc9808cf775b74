"""The experiment `geometry`: how contextual the states of words are, by layer.

Words are drawn from the texts, and their states read from the activation store. Models of the same
architecture with random weights read the same words: their states depend on context too, and may
lie in a narrow cone, so that only a difference from theirs was learnt. Costs: a pass over the texts
for the model and for each random model, disk space for the states of the words, and the measures
of each layer (see `geometry`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata
from spacy.tokens import Doc

from workbench.analyses.words.experiments import GeometrySettings
from workbench.analyses.words.geometry import Layer, Sample, layer_measures
from workbench.core.arrays import Floats, Ints
from workbench.core.cluster_sample import ClusterSample
from workbench.core.comparisons import Comparison, comparison_table
from workbench.core.errors import WorkbenchError
from workbench.core.files import folder_or_temporary
from workbench.core.stats import (
    DRAWS,
    bootstrap_weights,
    interval_around,
    p_value_beyond,
    ratio,
)
from workbench.corpora.encode import encode
from workbench.corpora.layers import document_numbers
from workbench.corpora.splits import few_sentences_caveat
from workbench.corpora.word_groups import CONTENT, FUNCTION
from workbench.engine.activation_store import Store, word_states
from workbench.engine.batch import Batch
from workbench.engine.model import Model, UnsupportedError, not_a_number
from workbench.experiment.definition import Caveat, Inputs, Progress, Result

NONE = -1  # no more contexts
MIN_FORMS = 3  # of a correlation with frequency
SAME = 5  # decimals, relative to the largest, that make two values differ in rank
TWO_SIDED = ("anisotropy", "intra-sentence")  # tests of more or less than with random weights
CLASSES: Mapping[str, frozenset[str]] = {"function words": FUNCTION, "content words": CONTENT}


# --- words ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Words:
    """All tokens of the texts, in the order of the store's rows."""

    forms: list[str]  # as written
    tags: list[str]
    is_word: NDArray[np.bool_]  # with a letter or a digit
    sentences: Ints  # index of its sentence
    contexts: Ints  # index of its sentence; equal sentences have the same
    documents: Ints

    @property
    def n_documents(self) -> int:
        return int(self.documents.max(initial=-1)) + 1


def _words(docs: Sequence[Doc]) -> _Words:
    numbers = document_numbers(docs)
    forms: list[str] = []
    tags: list[str] = []
    sentences: list[int] = []
    contexts: list[int] = []
    documents: list[int] = []
    same: dict[str, int] = {}
    n_sentences = 0
    for doc, number in zip(docs, numbers, strict=True):
        for sentence in doc.sents if doc.has_annotation("SENT_START") else [doc[:]]:
            context = same.setdefault(sentence.text, len(same))
            for token in sentence:
                forms.append(token.text)
                tags.append(token.pos_)
                sentences.append(n_sentences)
                contexts.append(context)
                documents.append(number)
            n_sentences += 1
    return _Words(
        forms,
        tags,
        np.array([any(map(str.isalnum, form)) for form in forms], dtype=bool),
        *(np.array(each, dtype=np.int64) for each in (sentences, contexts, documents)),
    )


class _Form(NamedTuple):
    """A word form whose contexts are compared."""

    text: str
    tag: str  # the most frequent one of its words
    frequency: int  # in the texts


@dataclass(frozen=True, eq=False)
class _Drawn:
    """What is compared."""

    sample: Sample
    forms: Sequence[_Form]
    n_words: int
    n_sentences: int

    @cached_property
    def log_counts(self) -> Floats:
        """The logarithm of each form's frequency.  # [forms]"""
        return np.log(np.array([form.frequency for form in self.forms], dtype=np.float64))

    @cached_property
    def classes(self) -> dict[str, NDArray[np.bool_]]:
        """Function and content words, where both have forms.  # [forms] each"""
        tags = [form.tag for form in self.forms]
        found = {name: np.isin(tags, [*each]) for name, each in CLASSES.items()}
        return found if all(each.any() for each in found.values()) else {}


def _drawn(
    words: _Words, usable: NDArray[np.bool_], settings: GeometrySettings, seed: int
) -> _Drawn:
    """Random words, and forms in several contexts; `usable` words have a state.  # [words]"""
    rows = np.flatnonzero(words.is_word & usable)
    n_forms = len({words.forms[row] for row in rows})
    if n_forms < 2:
        raise WorkbenchError(
            f"the texts have {n_forms} word forms that the model knows; two are needed.",
            code="too-few-words",
            remedy="Choose a corpus or a split with more sentences, or raise max_sentences.",
        )
    draw = np.random.default_rng([seed, len(rows)])
    index = {form: number for number, form in enumerate(dict.fromkeys(words.forms))}
    form_of = np.array([index[form] for form in words.forms], dtype=np.int64)
    random = np.sort(draw.permutation(rows)[: settings.sample_size])
    if len(np.unique(form_of[random])) < 2:  # nearly all words are of one form
        other = rows[form_of[rows] != form_of[random[0]]]
        random = np.sort([*random[1:], other[0]] if len(random) > 1 else [random[0], other[0]])
    contexts, forms = _contexts(words, rows, settings, draw)
    sentences = rows[np.bincount(words.sentences[rows])[words.sentences[rows]] > 1]
    _, sentence_of = np.unique(words.sentences[sentences], return_inverse=True)
    sample = Sample(
        random=random,
        random_forms=form_of[random],
        contexts=contexts,
        baseline=_baseline(contexts, rows, form_of, draw),
        sentences=sentences,
        sentence_of=sentence_of.astype(np.int64),
        documents=words.documents,
        n_documents=words.n_documents,
    )
    return _Drawn(sample, forms, len(rows), len(np.unique(words.sentences[rows])))


def _contexts(
    words: _Words, rows: Ints, settings: GeometrySettings, draw: np.random.Generator
) -> tuple[Ints, list[_Form]]:
    """Rows of each drawn form in different contexts: one word of each sentence."""
    by_form: dict[str, dict[int, int]] = {}
    counts: Counter[str] = Counter()
    tags: dict[str, Counter[str]] = {}
    for row in rows.tolist():
        form = words.forms[row]
        by_form.setdefault(form, {}).setdefault(int(words.contexts[row]), row)
        counts[form] += 1
        tags.setdefault(form, Counter())[words.tags[row]] += 1
    enough = [form for form in sorted(by_form) if len(by_form[form]) >= settings.min_contexts]
    chosen = sorted(draw.permutation(len(enough))[: settings.max_forms].tolist())
    found = np.full((len(chosen), settings.max_contexts), NONE, dtype=np.int64)
    for number, place in enumerate(chosen):
        own = np.array([*by_form[enough[place]].values()])
        own = np.sort(draw.permutation(own)[: settings.max_contexts])
        found[number, : len(own)] = own
    longest = int((found >= 0).sum(1).max(initial=0))
    names = [enough[place] for place in chosen]
    return found[:, :longest], [
        _Form(name, tags[name].most_common(1)[0][0], counts[name]) for name in names
    ]


def _baseline(contexts: Ints, rows: Ints, form_of: Ints, draw: np.random.Generator) -> Ints:
    """As many random words as each form has contexts, each of another form where there are enough.

    # [forms, contexts]
    """
    found = np.full_like(contexts, NONE)
    for number, size in enumerate((contexts >= 0).sum(1).tolist()):
        order = draw.permutation(rows)
        first = np.unique(form_of[order], return_index=True)[1]
        chosen = order[np.sort(first)][:size]  # the first word of each form
        more = np.setdiff1d(order, chosen)[: size - len(chosen)]
        found[number, :size] = np.sort([*chosen, *more])
    return found


# --- the run --------------------------------------------------------------------------------------


class _Place(NamedTuple):
    stack: str
    layer: int


_Measured = Mapping[_Place, Layer]
_Measure = tuple[_Place, str]  # and its name


def run(inputs: Inputs, settings: GeometrySettings, progress: Progress) -> Result:
    """Compute the tables of `geometry`."""
    model = inputs.model
    docs = list(inputs.docs())
    batch = encode(docs)
    words = _words(docs)
    n_passes = 1 + settings.random_models
    notes: list[str] = []
    with folder_or_temporary(inputs.scratch) as home:
        stores = _stores(model, batch, home, progress, 0, n_passes)
        usable = _usable(stores)
        drawn = _drawn(words, usable, settings, inputs.seed)
        read = _measured(model, stores, drawn.sample, settings.n_components)
        random: list[_Measured] = []
        try:
            for number in range(settings.random_models):
                twin = model.reinitialised(inputs.seed + number + 1)
                with TemporaryDirectory(dir=home) as folder:
                    stores = _stores(twin, batch, Path(folder), progress, number + 1, n_passes)
                    random.append(_measured(twin, stores, drawn.sample, settings.n_components))
        except UnsupportedError as error:
            notes.append(f"There is no random-weight baseline: {error.what}")
    progress(n_passes, n_passes, "measuring geometry")
    tables = _Tables(drawn, read, random, settings, inputs.seed)
    notes += _notes(words, usable, drawn, settings)
    return Result(tables.all(), caveats=tuple(Caveat(note) for note in notes))


def _stores(
    model: Model, batch: Batch, home: Path, progress: Progress, done: int, total: int
) -> list[Store]:
    """The states of every word, and the progress of the passes."""
    name = "encoding sentences" if not done else f"encoding with random weights: model {done}"
    stores, _ = word_states(
        model,
        batch,
        home,
        kind="fp32",
        progress=lambda now: progress(done * now.total + now.done, total * now.total, name),
    )
    return list(stores.values())


def _usable(stores: Sequence[Store]) -> NDArray[np.bool_]:
    """Words with a piece and a state that is not all zero, as of unknown words.  # [words]"""
    usable: NDArray[np.bool_] = ~np.any([store.missing for store in stores], axis=0)
    for store in stores:
        usable &= store.layer(0).any(1).numpy()
    return usable


def _measured(
    model: Model, stores: Sequence[Store], sample: Sample, n_components: int
) -> _Measured:
    found = {}
    for store in stores:
        for layer in range(store.description.layers + 1):
            states = store.layer(layer)
            if not bool(states.isfinite().all()):
                raise not_a_number(model.name, "texts of the corpus")
            place = _Place(store.description.stack, layer)
            found[place] = layer_measures(states, sample, n_components)
    return found


def _notes(
    words: _Words, usable: NDArray[np.bool_], drawn: _Drawn, settings: GeometrySettings
) -> Iterator[str]:
    left_out = int((words.is_word & ~usable).sum())
    if left_out:
        yield (
            f"{left_out:,} of {int(words.is_word.sum()):,} words are left out: the model has no "
            "state of them, because they are unknown or lie beyond its maximum length."
        )
    if not drawn.forms:
        yield (
            f"No word form occurs in {settings.min_contexts} different contexts, so "
            "self-similarity and explained variance are not measured. Choose more sentences, or "
            "lower min_contexts."
        )
    elif not drawn.classes:
        yield "Function and content words are not compared: there are no forms of one of them."
    if drawn.sample.n_documents == 1 and drawn.n_sentences > 1:
        yield "All sentences are of one document, so intervals over documents have no width."
    yield from few_sentences_caveat(drawn.n_sentences)


# --- tables ---------------------------------------------------------------------------------------


def _compared(
    stack: str, name: str, first: float, second: float, draws: Floats, random: Floats, n: int,
    p_permuted: float = 0.0,
) -> Comparison:  # fmt: skip
    """A comparison of n words, sentences or forms.

    `p_permuted` is of a second null, which must be excluded too.
    """
    p = max(p_value_beyond(first - second, random, draws), p_permuted)
    about = {"stack": stack, "comparison": name, "n": n}
    return Comparison(about, first, second, _known(draws), random, p, "different")


class _Tables:
    """The tables, from the measures of the model and of the random models."""

    def __init__(
        self,
        drawn: _Drawn,
        read: _Measured,
        random: Sequence[_Measured],
        settings: GeometrySettings,
        seed: int,
    ) -> None:
        self.drawn, self.read, self.random, self.seed = drawn, read, random, seed
        self.n_permutations = settings.n_permutations
        documents, n_documents = drawn.sample.documents, drawn.sample.n_documents
        self.weights = ClusterSample(documents, seed, n_documents).weights  # [draws, documents]
        self.similarities = {
            place: _complete(layer.forms.drawn(self.weights), layer.forms.similarity())
            for place, layer in read.items()
        }  # [draws, forms] each
        self.values = {place: self._values(layer) for place, layer in read.items()}
        self.draws = {place: self._draws(place) for place in read}
        self.null = [
            {place: self._values(layer) for place, layer in each.items()} for each in random
        ]

    def all(self) -> dict[str, pd.DataFrame]:
        return {
            "layers": self.layers(),
            "frequency": self.frequency,
            "groups": self.groups(),
            "dimensions": self.dimensions(),
            "forms": self.forms(),
            "tests": self.tests(),
        }

    @cached_property
    def form_weights(self) -> Floats:
        """How often each form is in each bootstrap sample of forms.  # [draws, forms]"""
        n = len(self.drawn.forms)
        return bootstrap_weights(n, np.random.default_rng([self.seed, n, 1]))

    # the measures of a layer

    def _values(self, layer: Layer) -> dict[str, float]:
        once = np.ones(self.drawn.sample.n_documents)
        anisotropy = float(layer.raw.mean(once))
        values = {
            "anisotropy": anisotropy,
            "anisotropy_standardised": float(layer.standardised.mean(once)),
            "anisotropy_without_top": float(layer.without_top.mean(once)),
        }
        if len(layer.sentences):
            values["intra_sentence"] = float(layer.sentences.mean())
            values["intra_sentence_corrected"] = values["intra_sentence"] - anisotropy
        if len(self.drawn.forms):
            similarity = float(layer.forms.similarity().mean())
            explained, null = layer.explained.mean(), layer.explained_random.mean()
            values |= {
                "self_similarity": similarity,
                "self_similarity_corrected": similarity - anisotropy,
                "self_similarity_standardised": float(layer.standardised_forms.similarity().mean()),
                "explained_variance": float(explained),
                "explained_variance_random": float(null),
                "explained_variance_corrected": float(explained - null),
            }
        return values

    def _draws(self, place: _Place) -> dict[str, Floats]:
        """Each measure in each bootstrap sample.  # [draws] each"""
        layer = self.read[place]
        anisotropy = layer.raw.mean(self.weights)
        found = {
            "anisotropy": anisotropy,
            "anisotropy_standardised": layer.standardised.mean(self.weights),
            "anisotropy_without_top": layer.without_top.mean(self.weights),
        }
        if len(layer.sentences):
            times = self.weights[:, self.drawn.sample.sentence_documents]  # [draws, sentences]
            means = ratio(times @ layer.sentences, times.sum(1), np.nan)
            found |= {
                "intra_sentence": means,
                "intra_sentence_corrected": means - anisotropy,
            }
        if len(self.drawn.forms):
            similarity = self.similarities[place].mean(1)
            over = self.form_weights / len(self.drawn.forms)
            explained, null = over @ layer.explained, over @ layer.explained_random
            same = layer.standardised_forms
            of_standardised = _complete(same.drawn(self.weights), same.similarity())
            found |= {
                "self_similarity": similarity,
                "self_similarity_corrected": similarity - anisotropy,
                "self_similarity_standardised": of_standardised.mean(1),
                "explained_variance": explained,
                "explained_variance_random": null,
                "explained_variance_corrected": explained - null,
            }
        return found

    def _size(self, measure: str) -> int:
        """The number of words, sentences or forms of a measure."""
        sample = self.drawn.sample
        sizes = {"anisotropy": len(sample.random), "intra": len(sample.sentence_documents)}
        return sizes.get(measure.split("_")[0], len(self.drawn.forms))

    def layers(self) -> pd.DataFrame:
        rows = []
        for place, values in self.values.items():
            for measure, value in values.items():
                ends = _ends(self.draws[place][measure], value)
                rows.append(("model", *place, measure, value, *ends, self._size(measure)))
        for place in self.values if self.null else ():
            for measure in self.values[place]:
                over = np.array([each[place][measure] for each in self.null])
                ends = over.min(), over.max()
                rows.append(("random", *place, measure, over.mean(), *ends, self._size(measure)))
        columns = ["weights", "stack", "layer", "measure", "value", "lower", "upper", "n"]
        return pd.DataFrame(rows, columns=columns)

    # frequency

    def _of_forms(self, layer: Layer) -> dict[str, Floats]:
        """What is correlated with frequency.  # [forms] each"""
        return {"self_similarity": layer.forms.similarity(), "norm": layer.norms}

    @cached_property
    def frequency(self) -> pd.DataFrame:
        columns = ["stack", "layer", "measure", "rho", "lower", "upper", "random", "p", "n"]
        rows = []
        counts = self.drawn.log_counts
        n = len(counts)
        ranks = _ranks(counts) if n >= MIN_FORMS else counts
        draw = np.random.default_rng([self.seed, n, 2])
        permuted = ranks[np.argsort(draw.random((self.n_permutations, n)), axis=1)]
        for place, layer in self.read.items():
            for measure, values in self._of_forms(layer).items():
                value = float(_spearman(counts, values))
                if np.isnan(value):
                    continue
                ends = _ends(self._correlations(place, measure), value)
                own = _ranks(values)
                null = permuted @ own / np.sqrt((ranks @ ranks) * (own @ own))
                beyond = np.abs(null) >= abs(value) - 1e-9
                p = float((1 + beyond.sum()) / (1 + len(null)))
                known = self._random_correlations(place, measure)
                mean = known.mean() if len(known) else np.nan
                rows.append((*place, measure, value, *ends, mean, p, n))
        found = pd.DataFrame(rows, columns=columns)
        return found.astype({"layer": "int64", "rho": "float64", "n": "int64"})

    def _correlations(self, place: _Place, measure: str) -> Floats:
        """The correlation in each bootstrap sample: of documents, or for norms of forms."""
        counts = self.drawn.log_counts
        if measure == "self_similarity":
            return _spearman(counts, self.similarities[place])
        values = self._of_forms(self.read[place])[measure]
        draw = np.random.default_rng([self.seed, len(counts), 3])
        chosen = draw.integers(0, len(counts), (DRAWS, len(counts)))
        return _spearman(counts[chosen], values[chosen])

    def _random_correlations(self, place: _Place, measure: str) -> Floats:
        counts = self.drawn.log_counts
        known = [
            float(_spearman(counts, self._of_forms(each[place])[measure])) for each in self.random
        ]
        return np.array([0.0 if np.isnan(each) else each for each in known])

    # groups of forms

    def groups(self) -> pd.DataFrame:
        rows = []
        tags = np.array([form.tag for form in self.drawn.forms])
        groups = [("class", name, own) for name, own in self.drawn.classes.items()]
        groups += [("tag", tag, tags == tag) for tag in sorted({*tags.tolist()} - {""})]
        for place, layer in self.read.items():
            values = layer.forms.similarity()
            for by, name, own in groups:
                value = values[own].mean()
                ends = _ends(self.similarities[place][:, own].mean(1), value)
                known = [each[place].forms.similarity()[own].mean() for each in self.random]
                mean = np.mean(known) if known else np.nan
                rows.append((*place, by, name, value, *ends, mean, int(own.sum())))
        columns = [
            "stack", "layer", "by", "group", "self_similarity", "lower", "upper", "random", "n",
        ]  # fmt: skip
        return pd.DataFrame(rows, columns=columns).astype({"layer": "int64", "n": "int64"})

    def dimensions(self) -> pd.DataFrame:
        rows = []
        once = np.ones(self.drawn.sample.n_documents)
        for place, layer in self.read.items():
            whole = float(layer.raw.mean(once))
            drawn = layer.largest.mean(self.weights)
            total = layer.raw.mean(self.weights)
            for rank, (dimension, part) in enumerate(layer.dimensions, 1):
                share = part / whole if whole > 0 else np.nan
                rows.append((*place, str(rank), dimension, part, share, np.nan, np.nan))
            part = sum(each for _, each in layer.dimensions)
            is_defined = bool(whole > 0 and (total > 0).all())
            value = part / whole if is_defined else np.nan
            ends = _ends(drawn / total, value) if is_defined else (np.nan, np.nan)
            rows.append((*place, "all", -1, part, value, *ends))
        columns = ["stack", "layer", "rank", "dimension", "cosine", "share", "lower", "upper"]
        return pd.DataFrame(rows, columns=columns)

    def forms(self) -> pd.DataFrame:
        sizes = self.drawn.sample.exists.sum(1)
        rows = [
            (*place, form.text, form.tag, form.frequency, int(sizes[n]), values[n],
             layer.explained[n], layer.norms[n])
            for place, layer in self.read.items()
            for values in [layer.forms.similarity()]
            for n, form in enumerate(self.drawn.forms)
        ]  # fmt: skip
        columns = [
            "stack", "layer", "form", "tag", "count", "contexts", "self_similarity",
            "explained_variance", "norm",
        ]  # fmt: skip
        kinds = {"layer": "int64", "count": "int64", "contexts": "int64"}
        return pd.DataFrame(rows, columns=columns).astype(kinds)

    # tests

    def tests(self) -> pd.DataFrame:
        stacks = dict.fromkeys(place.stack for place in self.read)
        columns = [
            "stack", "comparison", "first", "second", "difference", "lower", "upper", "random",
            "p", "holds", "random_models", "n",
        ]  # fmt: skip
        tests = [test for stack in stacks for test in self._tests_of(stack)]
        table = comparison_table(tests, columns)
        beyond = (table["difference"] - table["random"]) * table["difference"] > 0
        return table.assign(holds=table["holds"] & (beyond | table["comparison"].isin(TWO_SIDED)))

    def _tests_of(self, stack: str) -> Iterator[Comparison]:
        places = [place for place in self.read if place.stack == stack]
        first, last = places[0], places[-1]

        def number(place: _Place, measure: str) -> tuple[float, Floats, Floats]:
            null = np.array([each[place][measure] for each in self.null])
            return self.values[place][measure], self.draws[place][measure], null

        def test(name: str, a: _Measure, b: _Measure | None) -> Comparison | None:
            if a[1] not in self.values[a[0]]:
                return None
            value, draws, null = number(*a)
            less, its_draws, its_null = number(*b) if b else (0.0, 0.0, 0.0)
            n = self._size(a[1])
            return _compared(stack, name, value, less, draws - its_draws, null - its_null, n)

        depth = {"depth": "corrected", "depth, standardised": "standardised"}
        found = [
            *(
                test(name, (last, f"self_similarity_{kind}"), (first, f"self_similarity_{kind}"))
                for name, kind in depth.items()
                if len(places) > 1
            ),
            test("anisotropy", (last, "anisotropy"), None),
            test("intra-sentence", (last, "intra_sentence"), (last, "anisotropy")),
            *(self._frequency_test(last, measure) for measure in ("self_similarity", "norm")),
            self._class_test(last),
        ]
        yield from (each for each in found if each is not None)

    def _frequency_test(self, place: _Place, measure: str) -> Comparison | None:
        values = self._of_forms(self.read[place])[measure]
        rho = float(_spearman(self.drawn.log_counts, values))
        if np.isnan(rho):
            return None
        name = "frequency" if measure == "self_similarity" else "frequency and norm"
        table = self.frequency.set_index(["stack", "layer", "measure"])
        p = float(table["p"].to_dict()[*place, measure])
        draws, null = self._correlations(place, measure), self._random_correlations(place, measure)
        return _compared(place.stack, name, rho, 0.0, draws, null, len(values), p)

    def _class_test(self, place: _Place) -> Comparison | None:
        if not self.drawn.classes:
            return None
        one, other = self.drawn.classes.values()

        def both(values: Floats) -> tuple[Floats, Floats]:
            return values[..., one].mean(-1), values[..., other].mean(-1)

        first, second = both(self.read[place].forms.similarity())
        a, b = both(self.similarities[place])
        null = [np.subtract(*both(each[place].forms.similarity())) for each in self.random]
        return _compared(
            place.stack, "function words", float(first), float(second), a - b, np.array(null),
            int((one | other).sum()),
        )  # fmt: skip


def _complete(draws: Floats, values: Floats) -> Floats:
    """Draws with the value of a form where a sample has not two of its contexts.

    # [draws, forms], [forms]
    """
    return np.where(np.isnan(draws), values, draws)


def _known(draws: Floats) -> Floats:
    """The samples that have the measure, if there are some."""
    known = draws[~np.isnan(draws)]
    return known if len(known) else draws


def _ends(draws: Floats, value: float) -> tuple[Floats, Floats]:
    """The bootstrap interval, which contains the value, of the samples that have the measure."""
    return interval_around(value, _known(draws))


def _spearman(x: Floats, y: Floats) -> Floats:
    """Rank correlations along the last axis; NaN with few or with equal values.

    # [..., n], [..., n] -> [...]
    """
    shape = np.broadcast_shapes(x.shape, y.shape)
    if shape[-1] < MIN_FORMS:
        return np.full(shape[:-1], np.nan)
    a, b = (_ranks(each) for each in (x, y))
    part = (a * b).sum(-1)
    whole = np.sqrt(np.square(a).sum(-1) * np.square(b).sum(-1))
    return ratio(np.broadcast_to(part, shape[:-1]), np.broadcast_to(whole, shape[:-1]), np.nan)


def _ranks(values: Floats) -> Floats:
    """Centred ranks along the last axis; values that differ by rounding only are equal."""
    largest = np.abs(values).max(-1, keepdims=True)
    close = np.round(values / np.where(largest > 0, largest, 1.0), SAME)
    ranks: Floats = rankdata(close, axis=-1)
    ranks -= ranks.mean(-1, keepdims=True)
    return ranks
