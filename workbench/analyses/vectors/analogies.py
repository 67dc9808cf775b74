"""Analogies and likeness of the vectors of words, each word read alone.

A word's vector is the mean of its pieces' embeddings before positions are added, or of layer 0. All
scores follow from the cosines of all words with all others. The same architecture with random
weights is a baseline: forms of a lemma share pieces. Costs: two embeddings of each word, and the
square of the number of words.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.analyses.vectors.experiments import WordVectors
from workbench.core.arrays import Floats
from workbench.core.errors import WorkbenchError
from workbench.core.stats import mean_interval
from workbench.corpora.encode import encode
from workbench.engine.model import Model
from workbench.engine.words import by_word
from workbench.experiment.definition import Caveat, Inputs, Progress, Result

if TYPE_CHECKING:
    from spacy.tokens import Doc

AT_ONCE = 256  # words, or analogies, in a batch
EPSILON = 1e-3  # of 3CosMul
EXAMPLES = 5  # of a relation
METHODS = ("add", "mul", "nearest", "frequency", "random weights", "none left out")

Pair = tuple[int, int]  # words: a form, and another form of its lemma


@dataclass(frozen=True)
class Lexicon:
    """The words of a corpus by decreasing count, and pairs of forms of one lemma by relation."""

    words: tuple[str, ...]
    counts: tuple[int, ...]
    tags: tuple[str, ...]  # of each word, its most frequent one
    pairs: Mapping[str, tuple[Pair, ...]]
    targets: Mapping[str, str]  # by relation: the tag of its second forms


def run(inputs: Inputs, settings: WordVectors, progress: Progress) -> Result:
    """Ask all models the same analogies, and compare likeness with tags."""
    lexicon = lexicon_of(inputs.docs(), settings)
    if not lexicon.pairs:
        raise WorkbenchError(
            "no two tags have enough pairs of forms of the same lemma.",
            code="corpus-layer-missing",
            remedy="Name a corpus with lemmas and tags, give more text, or set min_count or "
            "min_pairs lower.",
        )
    asked = {
        relation: questions(pairs, settings.max_questions, inputs.seed)
        for relation, pairs in lexicon.pairs.items()
    }
    rows: dict[str, list[dict[str, Any]]] = {"analogies": [], "likeness": [], "examples": []}
    notes = []
    for number, model in enumerate(inputs.models):
        progress(number, len(inputs.models), f"comparing words of {model.name}")
        vectors = vectors_of(model, lexicon.words)
        known = torch.linalg.vector_norm(vectors, dim=1) > 0
        if missing := int((~known).sum()):
            notes.append(f"{model.name} has no vector for {missing:,} of {len(known):,} words.")
        near = cosines(vectors)
        # words of the same pieces lie together whatever the weights
        twin = cosines(vectors_of(model.reinitialised(inputs.seed), lexicon.words))
        given = {"model": model.name}
        rows["analogies"] += [given | row for row in _analogies(near, twin, known, lexicon, asked)]
        of_twin = likeness(twin, known, lexicon, settings, inputs.seed)
        of_twin = {"random": of_twin["auc"], "random_upper": of_twin["upper"]}
        own = likeness(near, known, lexicon, settings, inputs.seed)
        rows["likeness"].append(given | own | of_twin)
        rows["examples"] += [given | row for row in _examples(near, known, lexicon, asked)]
    tables = {name: pd.DataFrame(each) for name, each in rows.items()}
    return Result(tables, caveats=tuple(map(Caveat, notes)))


# --- words and relations --------------------------------------------------------------------------


def lexicon_of(docs: "Iterable[Doc]", settings: WordVectors) -> Lexicon:
    """The frequent words, and which are forms of the same lemma; all in lower case."""
    of_word: defaultdict[str, Counter[str]] = defaultdict(Counter)  # tags of a word
    of_lemma: defaultdict[tuple[str, str], Counter[tuple[str, str]]] = defaultdict(Counter)
    for doc in docs:
        for token in doc:
            word, tag = token.text.lower(), token.tag_ or token.pos_
            if not word.isalpha():
                continue
            of_word[word][tag] += 1
            if token.lemma_ and tag:
                of_lemma[token.lemma_.lower(), token.pos_][tag, word] += 1
    counts = {word: sum(tags.values()) for word, tags in of_word.items()}
    frequent = sorted(counts, key=lambda word: (-counts[word], word))
    words = [w for w in frequent[: settings.max_words] if counts[w] >= settings.min_count]
    index = {word: place for place, word in enumerate(words)}
    found: defaultdict[tuple[str, str], list[Pair]] = defaultdict(list)
    for forms in of_lemma.values():
        by_tag: dict[str, str] = {}
        for (tag, word), _ in sorted(forms.items(), key=lambda each: (-each[1], each[0])):
            by_tag.setdefault(tag, word)
        tags = sorted(by_tag)
        for place, one in enumerate(tags):
            for other in tags[place + 1 :]:
                first, second = by_tag[one], by_tag[other]
                if first != second and first in index and second in index:
                    found[one, other].append((index[first], index[second]))
    relations = {
        f"{one} to {other}": tuple(sorted(set(pairs)))
        for (one, other), pairs in sorted(found.items())
        if len(set(pairs)) >= settings.min_pairs
    }
    return Lexicon(
        tuple(words),
        tuple(counts[word] for word in words),
        tuple(min(of_word[w], key=lambda tag: (-of_word[w][tag], tag)) for w in words),
        relations,
        {relation: relation.split(" to ")[1] for relation in relations},
    )


def questions(pairs: Sequence[Pair], most: int, seed: int) -> NDArray[np.int64]:
    """Two different pairs for each analogy, as many of each second one as can be.

    # [questions, 2], indices of pairs
    """
    n = len(pairs)
    every = [(one, other) for one in range(n) for other in range(n) if one != other]
    order = np.random.default_rng([seed, n]).permutation(len(every))
    return np.array([every[place] for place in order[:most]], dtype=np.int64)


@torch.no_grad()
def vectors_of(model: Model, words: Sequence[str]) -> Tensor:
    """The vector of each word, read alone.  # [words, width]"""
    from spacy.tokens import Doc

    from workbench.corpora.layers import vocabulary

    vocab, found = vocabulary("en"), []
    for first in range(0, len(words), AT_ONCE):
        part = words[first : first + AT_ONCE]
        batch = encode(Doc(vocab, words=[word]) for word in part)
        pieces = model.encode(batch).to(model.device)
        states = model.embeddings_without_positions(pieces)
        if states is None:
            states = model.states(pieces)[0]
        of_words, has_piece = by_word(states, pieces)
        vectors = of_words[:, 0] * has_piece[:, :1]
        vectors = vectors.masked_fill(
            (model.unknown_pieces(pieces) & (pieces.words == 0)).any(1, keepdim=True), 0
        )
        found.append(vectors[pieces.order.argsort()].float().cpu())
    return torch.cat(found)


def cosines(vectors: Tensor) -> Tensor:
    """The cosine of each word with each other; zeros without a vector.  # [words, words]"""
    unit = torch.nn.functional.normalize(vectors, dim=1)
    return unit @ unit.T


# --- analogies ------------------------------------------------------------------------------------


def answers(near: Tensor, known: Tensor, asked: Tensor, method: str) -> Tensor:
    """The answer to each question a : a' = b : ?

    # [words, words], [words], [questions, 3] -> [questions]
    """
    found = []
    for part in torch.split(asked, AT_ONCE):
        a, a2, b = (near[part[:, place]] for place in range(3))  # [part, words] each
        if method == "mul":
            a, a2, b = ((each + 1) / 2 for each in (a, a2, b))
            scores = a2 * b / (a + EPSILON)
        else:
            scores = b.clone() if method == "nearest" else a2 - a + b
        scores[:, ~known] = -torch.inf
        if method != "none left out":
            scores.scatter_(1, part, -torch.inf)
        found.append(scores.argmax(1))
    return torch.cat(found)


def _asked(lexicon: Lexicon, relation: str, chosen: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Words of the questions and of their answers.  # [questions, 3], [questions]"""
    pairs = torch.tensor(lexicon.pairs[relation])
    one, other = pairs[chosen[:, 0]], pairs[chosen[:, 1]]
    return torch.cat([one, other[:, :1]], 1), other[:, 1]


def _by_frequency(lexicon: Lexicon, relation: str, asked: Tensor) -> Tensor:
    """The most frequent word with the tag of the answer that is no word of the question."""
    tag = lexicon.targets[relation]
    likely = [place for place, each in enumerate(lexicon.tags) if each == tag][:4] or [0]
    return torch.tensor(
        [next((w for w in likely if w not in row), likely[0]) for row in asked.tolist()]
    )


def _analogies(
    near: Tensor,
    twin: Tensor,
    known: Tensor,
    lexicon: Lexicon,
    asked: Mapping[str, NDArray[np.int64]],
) -> Iterable[dict[str, Any]]:
    all_hits: defaultdict[str, list[Floats]] = defaultdict(list)
    for relation, chosen in asked.items():
        words, right = _asked(lexicon, relation, chosen)
        for method in METHODS:
            if method == "frequency":
                given = _by_frequency(lexicon, relation, words)
            elif method == "random weights":
                given = answers(twin, known, words, "add")
            else:
                given = answers(near, known, words, method)
            hits = (given == right).double().numpy()
            of_pair = np.array([hits[chosen[:, 1] == pair].mean() for pair in set(chosen[:, 1])])
            all_hits[method].append(of_pair)
            yield _row(relation, method, of_pair, len(chosen))
    for method, of_pairs in all_hits.items():
        yield _row("all", method, np.concatenate(of_pairs), sum(map(len, asked.values())))


def _row(relation: str, method: str, of_pair: Floats, n_questions: int) -> dict[str, Any]:
    lower, upper = mean_interval(of_pair)
    return {
        "relation": relation, "method": method, "accuracy": float(of_pair.mean()),
        "lower": lower, "upper": upper, "n": len(of_pair), "questions": n_questions,
    }  # fmt: skip


def _examples(
    near: Tensor, known: Tensor, lexicon: Lexicon, asked: Mapping[str, NDArray[np.int64]]
) -> Iterable[dict[str, Any]]:
    names = lexicon.words
    for relation, chosen in asked.items():
        words, right = _asked(lexicon, relation, chosen[:EXAMPLES])
        given = answers(near, known, words, "add")
        for (a, a2, b), b2, answer in zip(
            words.tolist(), right.tolist(), given.tolist(), strict=True
        ):
            yield {
                "relation": relation, "a": names[a], "a2": names[a2], "b": names[b],
                "b2": names[b2], "answer": names[answer], "right": answer == b2,
            }  # fmt: skip


# --- likeness -------------------------------------------------------------------------------------


def likeness(
    near: Tensor, known: Tensor, lexicon: Lexicon, settings: WordVectors, seed: int
) -> dict[str, Any]:
    """How much nearer words of one tag are than words of others, with a permutation null."""
    kept = known.numpy()
    _, tags = np.unique(np.array(lexicon.tags)[kept], return_inverse=True)
    counts = np.log(np.array(lexicon.counts, dtype=float)[kept])
    ranks = ranks_of(near[known][:, known].double().numpy())
    by_word = auc_by_word(ranks, tags)
    lower, upper = mean_interval(by_word)
    frequency = auc_by_word(ranks_of(-np.abs(counts[:, None] - counts)), tags)
    random = np.random.default_rng([seed, 1])
    null = np.array(
        [auc_by_word(ranks, random.permutation(tags)).mean() for _ in range(settings.n_shuffles)]
    )
    auc = float(by_word.mean())
    return {
        "auc": auc, "lower": lower, "upper": upper, "frequency": float(frequency.mean()),
        "null": float(null.mean()),
        "p_value": float((1 + (null >= auc).sum()) / (1 + len(null))), "n": len(by_word),
    }  # fmt: skip


def ranks_of(near: Floats) -> Floats:
    """The rank of each other word, 1 for the farthest; 0 for the word itself.  # [words, words]"""
    from scipy.stats import rankdata

    apart = near.copy()
    np.fill_diagonal(apart, -np.inf)
    ranks: Floats = rankdata(apart, axis=1) - 1
    return ranks


def auc_by_word(ranks: Floats, tags: NDArray[np.int64]) -> Floats:
    """For each word with others of its tag and of another, how often the former are nearer."""
    one_hot = np.eye(tags.max(initial=0) + 1)[tags]  # [words, tags]
    summed = (ranks @ one_hot)[np.arange(len(tags)), tags]
    same = one_hot.sum(0)[tags] - 1
    others = len(tags) - 1 - same
    both = (same > 0) & (others > 0)
    auc: Floats = (summed - same * (same + 1) / 2)[both] / (same * others)[both]
    return auc
