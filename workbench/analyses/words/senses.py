"""The senses of a word form: a map of its occurrences, clusters, and how well they fit labels.

    wb.senses(model, corpus, "play")

Occurrences are compared by their states with norm 1. The map is their first two principal
components, which are the same each time and keep large distances. Clusters are of k-means, as many
as have the largest silhouette (Rousseeuw 1987). Where occurrences differ in their tags or lemmas,
or in labels of your own, the V-measure (Rosenberg and Hirschberg 2007) says whether clusters are
senses, and the accuracy whether the nearest other occurrence has the same one. Both are tested
against permuted labels. Costs: an index of the corpus, the first time; then a second for 500
occurrences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from workbench.analyses.words.nearest import Pairs, Rows, nearest_pairs
from workbench.analyses.words.occurrences import (
    MOST,
    Occurrences,
    OnProgress,
    in_context,
    occurrences,
    require_counts,
)
from workbench.core.arrays import Floats, Ints
from workbench.core.display import Displayed, figure_by
from workbench.core.errors import WorkbenchError, did_you_mean, listed
from workbench.core.findings import plural
from workbench.core.head_names import state_name
from workbench.core.public import public
from workbench.corpora.corpus import Corpus
from workbench.engine.model import Model
from workbench.engine.taps import StackName

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure


FEWEST = 4  # occurrences of a map, and of a label
CLUSTERS = 8  # maximum number of clusters that is tried
RESTARTS = 4  # of k-means
STRUCTURE = 0.25  # silhouette below which Kaufman and Rousseeuw (1990) see no structure
SAME = 5  # decimals of a state with norm 1, to which equal states are equal
SHOWN = 32  # characters on either side of an occurrence, as it is printed
EXAMPLES = 3  # of each cluster


@dataclass(frozen=True, repr=False, eq=False)
class Senses(Displayed):
    """The occurrences of a word form on a map, in clusters.

    `table` has a row for each occurrence: `x`, `y` (first two principal components), `cluster`, its
    labels, its place and its sentence. `silhouettes` has the mean silhouette of each number of
    clusters that was tried. `measures` compares the clusters with each kind of label.

    Example:
        >>> model, corpus = wb.load("mini:bert", device="cpu"), wb.read("primer:size=200")
        >>> found = wb.senses(model, corpus, "to")
        >>> found.measures[["gold", "labels"]].values.tolist()
        [['tag', 'ADP, PART']]
    """

    model: str
    corpus: str
    word: str
    stack: StackName
    layer: int
    table: "pd.DataFrame"
    silhouettes: "pd.DataFrame"  # clusters, silhouette
    measures: "pd.DataFrame"  # gold, labels, n, v_measure, v_chance, v_p, accuracy, chance, p
    explained: tuple[float, float]  # shares of the variance on the two axes of the map
    notes: tuple[str, ...] = ()

    @property
    def n_clusters(self) -> int:
        return int(self.table["cluster"].nunique())

    @property
    def tables(self) -> "dict[str, pd.DataFrame]":
        """The tables by name."""
        return {
            "table": self.table,
            "silhouettes": self.silhouettes,
            "measures": self.measures,
        }

    @public
    def figure(self, colour: str = "tag") -> "Figure":
        """Draw the occurrences on a map, with their sentences on hover.

        Args:
            colour: The column of `table` that colours the marks (default: `tag`); their shapes are
                the clusters.

        Returns:
            A Plotly figure.

        Raises:
            WorkbenchError: The table has no such column.

        Example:
            >>> model, corpus = wb.load("mini:bert", device="cpu"), wb.read("primer:size=200")
            >>> wb.senses(model, corpus, "to").figure().data[0].type
            'scatter'
        """
        return figure_by("workbench.analyses.words.figures.neighbours:one_form", self, colour)

    def __repr__(self) -> str:
        """The clusters with a few occurrences of each, and how well they fit labels."""
        size = f"{plural(len(self.table), 'occurrence')}, {plural(self.n_clusters, 'cluster')}"
        lines = [f"{self.model} in {self.corpus}, {state_name(self.layer)}: {self.word!r}, {size}"]
        lines.extend(
            f"  {row['gold']} ({row['labels']}): V-measure {row['v_measure']:.2f} (permuted "
            f"labels {row['v_chance']:.2f}, p = {row['v_p']:.3f}); nearest neighbour "
            f"{100 * row['accuracy']:.0f} % (permuted {100 * row['chance']:.0f} %, "
            f"p = {row['p']:.3f})"
            for row in self.measures.to_dict("records")
        )
        for cluster, own in self.table.groupby("cluster"):
            lines.append(f"  cluster {cluster}: {len(own)}")
            for row in own.head(EXAMPLES).to_dict("records"):
                context = in_context(row["sentence"], row["start"], row["end"], SHOWN)
                lines.append(f"    {listed(['  '.join([row['tag'], context])])}")
        return "\n".join([*lines, *(f"  Note: {note}" for note in self.notes)])


@public
def senses(
    model: Model,
    corpus: Corpus | Occurrences,
    word: str,
    *,
    layer: int | None = None,
    stack: StackName | None = None,
    split: str | None = None,
    n_clusters: int | None = None,
    labels: Sequence[str] = (),
    most: int = 500,
    n_permutations: int = 1000,
    max_occurrences: int | None = MOST,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Senses:
    """Map the occurrences of a word form in two dimensions, cluster them, and compare with labels.

    Args:
        model: Any `Model`.
        corpus: A corpus, whose index is made or read from the cache, or an index of
            `wb.occurrences`.
        word: The word form, in any case.
        layer: The layer; 0 is the embeddings (default: the last one).
        stack: `encoder` or `decoder` (default: the first stack, which reads the text).
        split: The split of the corpus to use (default: all).
        n_clusters: Number of clusters (default: that with the largest silhouette, up to 8).
        labels: Layers of the corpus whose spans of one word label this word, such as senses, in
            addition to tag and lemma.
        most: Maximum number of occurrences, drawn at random (default 500, at least 4).
        n_permutations: Number of permutations of the labels (default 1,000).
        max_occurrences: Maximum number of occurrences of all words in the index, drawn at random
            (default 250,000). Of a corpus only: an index is used as it is.
        seed: Seed of all draws (default 0).
        on_progress: Function that is called with the number of texts done, and of all texts, while
            the index is made.

    Returns:
        `Senses`: print it to read a few of each cluster. Its `table` has a row for each occurrence,
        `measures` compares clusters with labels; `figure(colour)` draws the map.

    Raises:
        WorkbenchError: The word has fewer than four occurrences, or there is no such layer.

    Example:
        >>> model, corpus = wb.load("mini:bert", device="cpu"), wb.read("primer:size=200")
        >>> found = wb.senses(model, corpus, "to", layer=4)
        >>> found.table[["x", "y", "cluster", "tag"]].shape[1], found.n_clusters >= 2
        (4, True)
    """
    import pandas as pd

    require_counts(
        n_permutations=n_permutations, n_clusters=n_clusters, max_occurrences=max_occurrences
    )
    if most < FEWEST:
        raise WorkbenchError(
            f"most is {most}; a map needs {FEWEST} occurrences.",
            code="setting-invalid",
            remedy=f"Use {FEWEST} or more.",
        )
    if isinstance(corpus, Occurrences):
        found = corpus
        found.require_split(split)
    else:
        found = occurrences(
            model,
            corpus,
            split=split,
            max_occurrences=max_occurrences,
            labels=labels,
            seed=seed,
            on_progress=on_progress,
        )
    if unknown := [name for name in labels if name not in found.table]:
        raise WorkbenchError(
            f"the index has no labels {unknown[0]!r}.",
            code="layer-missing",
            where=found.corpus,
            remedy="Make it with wb.occurrences(model, corpus, labels=[...]).",
        )
    own = found.stack(stack)
    layer = len(found.stacks[own]) - 1 if layer is None else layer
    rows, chosen, notes = _of_form(found, word, own, layer, split, most, seed)
    points = Clustered.of(rows, n_clusters, seed)
    table = found.described(chosen)
    for place, (name, values) in enumerate(
        (("x", points.map[:, 0]), ("y", points.map[:, 1]), ("cluster", points.clusters))
    ):
        table.insert(place, name, values)
    return Senses(
        model.name,
        found.corpus,
        word,
        own,
        layer,
        table,
        pd.DataFrame(points.silhouettes, columns=["clusters", "silhouette"]),
        _measures(table, found, chosen, rows, points, labels, n_permutations, seed),
        points.explained,
        (*notes, *points.notes),
    )


def _of_form(
    found: Occurrences,
    word: str,
    stack: StackName,
    layer: int,
    split: str | None,
    most: int,
    seed: int,
) -> tuple[Rows, Ints, list[str]]:
    """The states of a form's occurrences, their rows in the index, and a note on missing ones."""
    codes, names = found.lowered
    if word.lower() not in names:
        raise WorkbenchError(
            f"the corpus has no word {word!r}.",
            code="word-unknown",
            where=found.corpus,
            remedy=did_you_mean(word.lower(), _by_frequency(codes, names), ordered=True),
        )
    rows = found.rows(stack, layer)
    own = codes == names[word.lower()]
    if split is not None:
        inside = (found.sentences["split"] == split).to_numpy()
        own = own & inside[found.table["sentence"].to_numpy()]
    chosen = np.flatnonzero(own & (rows.norms > 0).numpy())
    if len(chosen) < FEWEST:
        raise WorkbenchError(
            f"{word!r} has {plural(len(chosen), 'occurrence')} with a state; a map needs {FEWEST}.",
            code="too-few-words",
            where=found.corpus,
            remedy="Use a larger corpus, or a more frequent word.",
        )
    if len(chosen) > most:
        random = np.random.default_rng([seed, len(chosen)])
        chosen = np.sort(random.choice(chosen, most, replace=False))
    return rows.take(chosen), chosen, found.notes(rows, own)


def _by_frequency(codes: Ints, names: Mapping[str, int]) -> list[str]:
    """The forms of a corpus, the most frequent first; those that begin with no letter last."""
    counts = np.bincount(codes, minlength=len(names))
    return sorted(names, key=lambda form: (not form[:1].isalpha(), -counts[names[form]]))


# --- map and clusters -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Clustered:
    """Points with norm 1, their map in two dimensions, and their clusters."""

    unit: NDArray[np.float32]  # [points, width]
    clusters: Ints  # [points], from 0, the largest cluster first
    silhouettes: list[tuple[int, float]]  # mean silhouette of each number of clusters
    notes: list[str]

    @classmethod
    def of(cls, rows: Rows, n_clusters: int | None, seed: int) -> "Clustered":
        """Cluster states of width; one cluster where all are equal."""
        from sklearn.metrics import silhouette_score

        unit = rows.unit.numpy()
        n_distinct = _distinct(unit)
        notes: list[str] = []
        if n_distinct == 1:
            notes.append("All occurrences have the same state: a static vector has no senses.")
        largest = min(n_distinct, len(unit) - 1)
        tried = [n_clusters] if n_clusters else [*range(2, min(CLUSTERS, largest) + 1)]
        options = [k_means(unit, k, seed) for k in tried]
        scores = [
            (len(np.unique(own)), float(silhouette_score(unit, own, metric="cosine")))
            for own in options
            if 1 < len(np.unique(own)) < len(unit)
        ]
        clusters = np.zeros(len(unit), dtype=np.int64)
        if options:
            best = int(np.argmax([score for _, score in scores])) if scores else 0
            clusters = options[best]
        if scores and n_clusters is None and max(score for _, score in scores) < STRUCTURE:
            notes.append(
                f"The silhouette is below {STRUCTURE}: the clusters are not well separated."
            )
        return cls(unit, clusters, scores, notes)

    @cached_property
    def _components(self) -> tuple[Floats, tuple[float, float]]:
        from sklearn.decomposition import PCA

        points = self.unit.astype(np.float64)
        if not points.std(0).any() or min(points.shape) < 2:
            return np.zeros((len(points), 2)), (0.0, 0.0)
        pca = PCA(2, svd_solver="full")
        placed = pca.fit_transform(points)
        first, second = pca.explained_variance_ratio_.tolist()
        return placed, (first, second)

    @property
    def map(self) -> Floats:
        """The first two principal components.  # [points, 2]"""
        return self._components[0]

    @property
    def explained(self) -> tuple[float, float]:
        """The share of the variance on each axis of the map."""
        return self._components[1]


def _distinct(unit: NDArray[np.float32]) -> int:
    """The number of different points.  # [points, width]"""
    return len(np.unique(unit.round(SAME), axis=0))


def k_means(unit: NDArray[np.float32], n_clusters: int, seed: int) -> Ints:
    """The cluster of each point, the largest cluster first; equal points share one.

    # [points, width] -> [points]
    """
    from sklearn.cluster import KMeans

    n_clusters = min(n_clusters, _distinct(unit))
    if n_clusters < 2:
        return np.zeros(len(unit), dtype=np.int64)
    found = KMeans(n_clusters, n_init=RESTARTS, random_state=seed).fit(unit).labels_
    names, counts = np.unique(found, return_counts=True)
    rank = np.empty(int(names.max()) + 1, dtype=np.int64)
    rank[names[np.argsort(-counts, kind="stable")]] = np.arange(len(names))
    ranked: Ints = rank[found]
    return ranked


# --- clusters and neighbours against labels -------------------------------------------------------


@dataclass(frozen=True)
class Separation:
    """How well clusters and nearest neighbours fit labels, with the same of permuted labels."""

    v_measure: float
    v_chance: float
    v_p: float
    accuracy: float  # of the label of the nearest occurrence in another sentence
    chance: float
    p: float


def separation(
    rows: Rows, clusters: Ints, gold: Ints, sentences: Ints, permuted: NDArray[np.int64]
) -> Separation:
    """Compare clusters and nearest neighbours with labels.

    `permuted` are permutations of the labels; without any, chances are NaN.
    # [points], [points], [points], [permutations, points]
    """
    from sklearn.metrics import v_measure_score

    value = float(v_measure_score(gold, clusters))
    pairs = nearest_pairs(rows, np.arange(len(rows)), 1, [sentences])
    near = gold[pairs.queries] == gold[pairs.neighbours]
    accuracy = float(np.nanmean(pairs.shares(near, len(rows)))) if len(near) else np.nan
    if not len(permuted) or not len(near):
        return Separation(value, np.nan, np.nan, accuracy, np.nan, np.nan)
    v_null = v_measures(permuted, clusters)
    null = _accuracies(permuted, pairs)
    return Separation(
        value, float(v_null.mean()), _p(value, v_null), accuracy, float(null.mean()),
        _p(accuracy, null),
    )  # fmt: skip


def _accuracies(gold: Ints, pairs: Pairs) -> Floats:
    """The share of neighbours with the same label, of many labellings at once.

    # [labellings, points] -> [labellings]
    """
    from scipy.sparse import csr_array

    n = gold.shape[1]
    weights = csr_array((pairs.weights, (pairs.queries, pairs.neighbours)), shape=(n, n))
    shares = np.zeros(len(gold))
    for label in range(int(gold.max()) + 1):
        has_label = (gold == label).astype(np.float64).T  # [points, labellings]
        shares += (has_label * (weights @ has_label)).sum(0)
    return np.divide(shares, float(weights.sum()))


def permutations(gold: Ints, number: int, seed: int) -> Ints:
    """Random permutations of the labels.  # [points] -> [permutations, points]"""
    random = np.random.default_rng([seed, len(gold), number])
    return random.permuted(np.tile(gold, (number, 1)), axis=1)


def v_measures(gold: Ints, clusters: Ints) -> Floats:
    """The V-measure of many labellings of the same points at once; scikit-learn has one.

    It is the mutual information of labels and clusters, over the mean of their entropies.
    # [labellings, points], [points] -> [labellings]
    """
    from scipy.special import entr

    n_labels, n_clusters = int(gold.max()) + 1, int(clusters.max()) + 1
    cells = (np.arange(len(gold))[:, None] * n_labels + gold) * n_clusters + clusters
    counts = np.bincount(cells.ravel(), minlength=len(gold) * n_labels * n_clusters)
    joint = counts.reshape(len(gold), n_labels, n_clusters) / gold.shape[1]
    both = entr(joint).sum((1, 2))
    sides = entr(joint.sum(2)).sum(1) + entr(joint.sum(1)).sum(1)
    values: Floats = np.ones(len(gold))  # one label and one cluster
    np.divide(2 * (sides - both), sides, out=values, where=sides > 1e-12)
    return values


def _p(value: float, null: Floats) -> float:
    """The one-sided p-value of a value among those of permutations."""
    return float((1 + (null >= value - 1e-9).sum()) / (1 + len(null)))


def _measures(
    table: "pd.DataFrame",
    found: Occurrences,
    chosen: Ints,
    rows: Rows,
    points: Clustered,
    labels: Sequence[str],
    n_permutations: int,
    seed: int,
) -> "pd.DataFrame":
    """The fit of the clusters to each kind of label with two or more frequent values."""
    import pandas as pd

    sentences = found.table["sentence"].to_numpy(np.int64)[chosen]
    lines = []
    for name in ("tag", "lemma", *labels):
        values = table[name].astype(str)
        counts = values.map(values.value_counts())
        known = ((values != "") & (counts >= FEWEST)).to_numpy()
        gold, names = pd.factorize(values[known], sort=True)
        if len(names) < 2:
            continue
        fit = separation(
            rows.take(np.flatnonzero(known)), points.clusters[known], gold.astype(np.int64),
            sentences[known], permutations(gold.astype(np.int64), n_permutations, seed),
        )  # fmt: skip
        lines.append(
            (name, ", ".join(map(str, names)), len(gold), fit.v_measure, fit.v_chance, fit.v_p,
             fit.accuracy, fit.chance, fit.p)
        )  # fmt: skip
    columns = [
        "gold", "labels", "n", "v_measure", "v_chance", "v_p", "accuracy", "chance", "p",
    ]  # fmt: skip
    return pd.DataFrame(lines, columns=columns)
