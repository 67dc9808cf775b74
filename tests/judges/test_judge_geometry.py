"""A judge of `geometry`: loops over words and forms, scikit-learn's cosines, whole decompositions.

States come from bare transformers forwards, one text at a time. Every word, form and context is
compared, so that nothing depends on how words are drawn; only the random words of the explained
variance are drawn again here, often.
"""

import itertools
import math
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr
from scipy.stats import t as student
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.preprocessing import StandardScaler

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from tests.judges.plain import text_of
from tests.judges.resampled import resampled
from workbench import Corpus

pytestmark = pytest.mark.slow  # by day tests/analyses/words/test_geometry.py has numbers by hand

Floats = NDArray[np.float64]
CLOSED = {"ADP", "AUX", "CCONJ", "DET", "NUM", "PART", "PRON", "SCONJ"}
OPEN = {"ADJ", "ADV", "INTJ", "NOUN", "PROPN", "VERB"}
EVERY = {"sample_size": 20_000, "max_contexts": 1000, "max_forms": 20_000}
TOP = 2  # components and dimensions


@torch.no_grad()
def states(model: Any, docs: list[Any]) -> list[Floats]:
    """Every word's state in every layer of the stack that reads the text."""
    rows: list[list[Floats]] = []
    if model.family == "elmo":
        for doc in docs:
            layers = model._states([[token.text for token in doc]])
            rows += [[each[0, n].double().numpy() for each in layers] for n in range(len(doc))]
        return [np.array([row[layer] for row in rows]) for layer in range(len(rows[0]))]
    net = model.net.encoder if model.family == "t5" else model.net.base_model
    blocks = (
        net.block if model.family == "t5" else net.h if hasattr(net, "h") else net.encoder.layer
    )
    raw: list[torch.Tensor] = []
    hook = blocks[-1].register_forward_hook(
        lambda m, a, out: raw.append(out[0] if isinstance(out, tuple) else out)
    )
    for doc in docs:
        text = text_of(model.tokenizer, doc)
        hidden = list(net(input_ids=text.ids[None], output_hidden_states=True).hidden_states)
        hidden[-1] = raw.pop()
        for word in range(len(doc)):
            own = [place for place, of in enumerate(text.word) if of == word]
            rows.append([layer[0, own].double().mean(0).numpy() for layer in hidden])
    hook.remove()
    return [np.array([row[layer] for row in rows]) for layer in range(len(rows[0]))]


class Words:
    """The words of the texts, punctuation left out."""

    def __init__(self, docs: list[Any], min_contexts: int) -> None:
        self.form, self.tag, self.sentence, self.document, self.row = [], [], [], [], []
        seen: dict[tuple[str, str], int] = {}
        row, names = 0, resampled(docs)
        for number, doc in enumerate(docs):
            for token in doc:
                if any(letter.isalnum() for letter in token.text):
                    seen.setdefault((token.text, doc.text), len(self.row))
                    self.form.append(token.text)
                    self.tag.append(token.pos_)
                    self.sentence.append(number)
                    self.document.append(names[number])
                    self.row.append(row)
                row += 1
        self.contexts: dict[str, list[int]] = {}
        for (form, _), place in seen.items():
            self.contexts.setdefault(form, []).append(place)
        self.contexts = {f: c for f, c in self.contexts.items() if len(c) >= min_contexts}
        self.count = Counter(self.form)


def cosine_of_different(vectors: Floats, forms: list[str]) -> float:
    cosines = cosine_similarity(vectors)
    different = np.array([[one != other for other in forms] for one in forms])
    return float(cosines[different].mean())


def self_similarity(vectors: Floats) -> float:
    cosines = cosine_similarity(vectors)
    pairs = itertools.combinations(range(len(vectors)), 2)
    return float(np.mean([cosines[a, b] for a, b in pairs]))


def share_of_the_first(vectors: Floats) -> float:
    squares = np.linalg.svd(vectors, compute_uv=False) ** 2
    return float(squares[0] / squares.sum())


def measures(layer: Floats, words: Words) -> dict[str, Any]:
    """All measures of a layer, by their names in the tables."""
    own = layer[words.row]
    found: dict[str, Any] = {"anisotropy": cosine_of_different(own, words.form)}
    scaler = StandardScaler().fit(own)
    found["anisotropy_standardised"] = cosine_of_different(scaler.transform(own), words.form)
    pca = PCA(min(TOP, *own.shape), svd_solver="full").fit(own)
    left = own - pca.inverse_transform(pca.transform(own))
    found["anisotropy_without_top"] = cosine_of_different(left, words.form)
    similar = []
    for sentence in dict.fromkeys(words.sentence):
        members = own[[n for n, each in enumerate(words.sentence) if each == sentence]]
        if len(members) > 1:
            mean = members.mean(0, keepdims=True)
            similar.append(cosine_similarity(members, mean).mean())
    found["intra_sentence"] = float(np.mean(similar))
    found["of_forms"] = {f: self_similarity(own[c]) for f, c in words.contexts.items()}
    found["self_similarity"] = float(np.mean([*found["of_forms"].values()]))
    found["self_similarity_standardised"] = float(
        np.mean([self_similarity(scaler.transform(own[c])) for c in words.contexts.values()])
    )
    found["explained"] = {f: share_of_the_first(own[c]) for f, c in words.contexts.items()}
    found["explained_variance"] = float(np.mean([*found["explained"].values()]))
    found["norm"] = {
        f: float(np.mean([np.linalg.norm(own[n]) for n in c])) for f, c in words.contexts.items()
    }
    for measure in ("self_similarity", "intra_sentence"):
        found[f"{measure}_corrected"] = found[measure] - found["anisotropy"]
    return found


def largest_dimensions(layer: Floats, words: Words) -> list[tuple[int, float]]:
    """What each dimension adds to the mean cosine of pairs of different forms."""
    own = layer[words.row]
    unit = own / np.linalg.norm(own, axis=1, keepdims=True)
    pairs = [
        (a, b) for a, b in itertools.combinations(range(len(unit)), 2)
        if words.form[a] != words.form[b]
    ]  # fmt: skip
    first, second = (unit[[pair[side] for pair in pairs]] for side in (0, 1))
    parts = (first * second).mean(0)
    return sorted(enumerate(parts.tolist()), key=lambda each: -each[1])[:TOP]


def random_shares(layer: Floats, words: Words, seed: int = 0) -> list[float]:
    """The mean share over forms for random words of different forms, as many as contexts."""
    draw = random.Random(seed)
    own, found = layer[words.row], []
    for _ in range(30):
        shares = []
        for contexts in words.contexts.values():
            order = draw.sample(range(len(own)), len(own))
            chosen = [*{words.form[n]: n for n in order}.values()][: len(contexts)]
            chosen += [n for n in order if n not in chosen][: len(contexts) - len(chosen)]
            shares.append(share_of_the_first(own[chosen]))
        found.append(float(np.mean(shares)))
    return found


def bootstrapped(layer: Floats, words: Words, draws: int = 200) -> dict[str, list[float]]:
    """Anisotropy and self-similarity of samples of documents, each text as often as drawn."""
    draw = random.Random(1)
    names = sorted(set(map(str, words.document)))
    own = layer[words.row]
    cosines = cosine_similarity(own)
    found: dict[str, list[float]] = {"anisotropy": [], "self_similarity": []}
    forms = np.array(words.form)
    undrawn = {form: self_similarity(own[each]) for form, each in words.contexts.items()}
    for _ in range(draws):
        times = Counter(draw.choice(names) for _ in names)
        weight = np.array([times[str(document)] for document in words.document], dtype=float)
        pairs = np.outer(weight, weight) * (forms[:, None] != forms[None, :])
        found["anisotropy"].append(float((pairs * cosines).sum() / pairs.sum()))
        similar = []
        for form, contexts in words.contexts.items():
            inner = np.outer(weight[contexts], weight[contexts])
            np.fill_diagonal(inner, 0)
            own_cosines = cosines[np.ix_(contexts, contexts)]
            # without two contexts its value counts
            drawn = (inner * own_cosines).sum() / inner.sum() if inner.any() else undrawn[form]
            similar.append(drawn)
        found["self_similarity"].append(float(np.mean(similar)))
    return found


def correlation(log: list[float], values: dict[str, float]) -> Any:
    """Spearman's, with a p-value of permutations.

    Norms after a LayerNorm without gains differ by rounding only, and are equal.
    """
    largest = max(map(abs, values.values()))
    rounded = [round(value / largest, 5) for value in values.values()]
    if len({*rounded}) < 2 or len({*log}) < 2:
        return SimpleNamespace(statistic=math.nan, pvalue=math.nan)
    rho, draw = spearmanr(log, rounded).statistic, random.Random(4)
    a, b = rankdata(log), rankdata(rounded)
    orders = np.array([draw.sample([*b], len(b)) for _ in range(400)])
    null = (orders - b.mean()) @ (a - a.mean()) / (len(a) * a.std() * b.std())
    beyond = int((abs(null) >= abs(rho) - 1e-9).sum())
    return SimpleNamespace(statistic=rho, pvalue=(1 + beyond) / (1 + len(null)))


def near(low: float, high: float, draws: list[float]) -> None:
    mine = np.percentile(draws, [2.5, 97.5])
    room = 0.35 * (mine[1] - mine[0]) + 1e-4
    assert abs(low - mine[0]) < room and abs(high - mine[1]) < room


def holm(raw: list[float]) -> list[float]:
    order = sorted(range(len(raw)), key=lambda n: raw[n])
    found, highest = [0.0] * len(raw), 0.0
    for step, n in enumerate(order):
        highest = max(highest, raw[n] * (len(raw) - step))
        found[n] = min(1.0, highest)
    return found


def judge(
    model: Any, corpus: Corpus, limit: int, twins: int, min_contexts: int = 3, seed: int = 0
) -> float:
    """The largest difference of a measure; all else is compared here."""
    result = run_here(
        "geometry", model, corpus, seed=seed, max_sentences=limit, min_contexts=min_contexts,
        n_components=TOP, random_models=twins, n_permutations=999, **EVERY,
    )  # fmt: skip
    docs = list(corpus.docs("test", limit))
    words = Words(docs, min_contexts)
    own = [measures(layer, words) for layer in states(model, docs)]
    raw = states(model, docs)
    stack = model.stacks[0].name
    tables = {
        name: table[table["stack"] == stack].drop(columns="stack")
        for name, table in result.tables.items()
    }
    apart = 0.0
    layers = tables["layers"].query("weights == 'model'").set_index(["layer", "measure"])
    assert len(own) == layers.index.get_level_values("layer").nunique()
    for number, found in enumerate(own):
        for measure, value in found.items():
            if isinstance(value, float):
                apart = max(apart, abs(layers.loc[(number, measure), "value"] - value))
        drawn = random_shares(raw[number], words)
        room = 6 * np.std(drawn) + 1e-6
        random_share = layers.loc[(number, "explained_variance_random"), "value"]
        assert abs(random_share - np.mean(drawn)) < room
        assert layers.loc[(number, "explained_variance_corrected"), "value"] == pytest.approx(
            layers.loc[(number, "explained_variance"), "value"] - random_share
        )
    last = len(own) - 1
    for measure, draws in bootstrapped(raw[last], words).items():
        row = layers.loc[(last, measure)]
        near(row["lower"], row["upper"], draws)
    forms = tables["forms"].set_index(["layer", "form"])
    assert set(forms.index.get_level_values("form")) == set(words.contexts)
    log = [math.log(words.count[form]) for form in words.contexts]
    frequency = tables["frequency"].set_index(["layer", "measure"])
    for number, found in enumerate(own):
        for form, contexts in words.contexts.items():
            row = forms.loc[(number, form)]
            assert row["count"] == words.count[form] and row["contexts"] == len(contexts)
            assert row["norm"] == pytest.approx(found["norm"][form], rel=1e-4)
            apart = max(apart, abs(row["self_similarity"] - found["of_forms"][form]))
            apart = max(apart, abs(row["explained_variance"] - found["explained"][form]))
        for measure, key in (("self_similarity", "of_forms"), ("norm", "norm")):
            expected = correlation(log, found[key])
            if math.isnan(expected.statistic):
                assert (number, measure) not in frequency.index
                continue
            row = frequency.loc[(number, measure)]
            assert row["rho"] == pytest.approx(expected.statistic, abs=0.02)
            assert row["p"] == pytest.approx(expected.pvalue, abs=0.1)
        dimensions = tables["dimensions"].query(f"layer == {number}").set_index("rank")
        for rank, (dimension, part) in enumerate(largest_dimensions(raw[number], words), 1):
            row = dimensions.loc[str(rank)]
            assert row["cosine"] == pytest.approx(part, abs=1e-4)
            assert row["dimension"] == dimension or part < 1e-3
    compare(result.tables["tests"], stack, own, words, model, docs, twins, seed, tables["groups"])
    return apart


def compare(
    table: Any, stack: str, own: list[dict[str, Any]], words: Words, model: Any, docs: list[Any],
    twins: int, seed: int, groups: Any,
) -> None:  # fmt: skip
    """The differences of the tests, of the model and of its random twins; Holm's correction."""
    others = [
        [measures(layer, words) for layer in states(model.reinitialised(seed + n + 1), docs)]
        for n in range(twins)
    ]
    tag = {
        form: Counter(t for f, t in zip(words.form, words.tag, strict=True) if f == form)
        .most_common(1)[0][0]
        for form in words.contexts
    }  # fmt: skip
    log = [math.log(words.count[form]) for form in words.contexts]

    def mean_of(found: dict[str, Any], closed: set[str]) -> float:
        return float(np.mean([v for f, v in found["of_forms"].items() if tag[f] in closed]))

    def differences(found: list[dict[str, Any]]) -> dict[str, float]:
        last, first = found[-1], found[0]
        values = {
            "anisotropy": last["anisotropy"],
            "intra-sentence": last["intra_sentence"] - last["anisotropy"],
            "depth": last["self_similarity_corrected"] - first["self_similarity_corrected"],
            "depth, standardised": last["self_similarity_standardised"]
            - first["self_similarity_standardised"],
            "frequency": correlation(log, last["of_forms"]).statistic,
            "frequency and norm": correlation(log, last["norm"]).statistic,
        }
        if {*tag.values()} & CLOSED and {*tag.values()} & OPEN:
            values["function words"] = mean_of(last, CLOSED) - mean_of(last, OPEN)
        return values

    mine = {name: each for name, each in differences(own).items() if not math.isnan(each)}
    null = [differences(each) for each in others]
    rows = table[table["stack"] == stack].set_index("comparison")
    assert set(rows.index) == set(mine)
    for name, value in mine.items():
        room = 0.02 if "frequency" in name else 1e-3
        assert rows.loc[name, "difference"] == pytest.approx(value, abs=room), name
        if twins:
            mean = np.mean([np.nan_to_num(each[name]) for each in null])
            assert rows.loc[name, "random"] == pytest.approx(mean, abs=room), name
    if "function words" in mine:
        last = groups[(groups["by"] == "class") & (groups["layer"] == len(own) - 1)]
        last = last.set_index("group")["self_similarity"]
        assert last["function words"] == pytest.approx(mean_of(own[-1], CLOSED), abs=1e-4)
        assert last["content words"] == pytest.approx(mean_of(own[-1], OPEN), abs=1e-4)
    if twins < 2:
        assert not table["holds"].any() and (table["p"] == 1).all()
        return
    if table["stack"].nunique() > 1:
        return  # corrected over both stacks
    raw = []
    for name in rows.index:
        values = [np.nan_to_num(each[name]) for each in null]
        spread = np.std(values, ddof=1) * math.sqrt(1 + 1 / len(values))
        away = abs(mine[name] - np.mean(values)) / max(spread, 1e-12)
        p = min(1.0, 2 * student.sf(away, len(values) - 1))  # 0 where all random models agree
        if name.startswith("frequency"):
            kind = "of_forms" if name == "frequency" else "norm"
            p = max(p, correlation(log, own[-1][kind]).pvalue)
        raw.append(float(p))
    for name, p in zip(rows.index, holm(raw), strict=True):
        row = rows.loc[name]
        assert row["p"] == pytest.approx(p, abs=0.12), name
        apart = row["difference"] - row["random"]
        beyond = name in ("anisotropy", "intra-sentence") or apart * row["difference"] > 0
        excludes = row["lower"] > 0 or row["upper"] < 0
        assert row["holds"] == (excludes and row["p"] < 0.05 and beyond), name


def test_a_small_case() -> None:
    assert judge(wb.load("mini:bert", "cpu"), wb.read("primer"), 6, 0, 2) < 1e-4


@pytest.mark.parametrize("name", ["mini:bert", "mini:gpt", "mini:t5", "mini:elmo"])
def test_the_minis(name: str) -> None:
    apart = judge(wb.load(name, "cpu"), wb.read("primer"), 60, 3)
    print(f"{name}: within {apart:.1e}")
    assert apart < 1e-4


def test_the_odd_model_and_its_twin() -> None:
    corpus = odd_corpus()
    model = odd_model(corpus)
    for each in (model, odd_twin(model, 1)):
        apart = judge(each, corpus, 14, 2)
        print(f"{each.name}: within {apart:.1e}")
        assert apart < 1e-3
