"""A judge of `neighbours`: whole matrices of cosines in double precision, and counts word by word.

States are read from bare transformers, one sentence at a time. All words are looked at, so that
nothing depends on a draw; intervals, exchanges of labels and senses are computed again, with random
numbers of its own, and scikit-learn's clusters and V-measure.
"""

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import v_measure_score
from spacy.tokens import Doc

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from tests.judges.plain import text_of
from workbench import Corpus

Floats = NDArray[np.float64]
EVERY = 100_000  # more words than there are
Layers = dict[tuple[str, int], Floats]  # [words, width] of each layer


def recording(block: Any, name: str, seen: dict[str, Any]) -> Any:
    """A hook that keeps what a block returns."""
    return block.register_forward_hook(
        lambda _, __, out: seen.__setitem__(name, out[0] if isinstance(out, tuple) else out)
    )


@torch.no_grad()
def states(model: Any, docs: list[Doc]) -> Layers:
    """The mean of each word's pieces, before any final norm."""
    net, found = model.net, defaultdict(list)
    body = net.base_model
    for doc in docs:
        text = text_of(model.tokenizer, doc)
        raw: dict[str, Any] = {}
        blocks = (
            {"encoder": body.encoder.block[-1], "decoder": body.decoder.block[-1]}
            if net.config.is_encoder_decoder
            else {"decoder": body.h[-1]}
            if hasattr(body, "h")
            else {"encoder": body.encoder.layer[-1]}
        )
        hooks = [recording(block, name, raw) for name, block in blocks.items()]
        hidden: dict[str, list[Any]] = {}
        if net.config.is_encoder_decoder:
            start = torch.tensor([net.config.decoder_start_token_id])
            shifted = torch.cat([start, text.ids[:-1]])
            out = body(text.ids[None], decoder_input_ids=shifted[None], output_hidden_states=True)
            hidden["encoder"] = list(out.encoder_hidden_states)
            hidden["decoder"] = [layer[:, 1:] for layer in out.decoder_hidden_states]
            raw["decoder"] = raw["decoder"][:, 1:]
        else:
            (name,) = blocks
            hidden[name] = list(body(text.ids[None], output_hidden_states=True).hidden_states)
        for hook in hooks:
            hook.remove()
        for stack, layers in hidden.items():
            layers[-1] = raw[stack]
            for layer, values in enumerate(layers):
                for word in range(len(doc)):
                    own = [place for place, of in enumerate(text.word) if of == word]
                    assert own, "every word has a piece"
                    found[stack, layer].append(values[0, own].double().mean(0).numpy())
    return {key: np.array(rows) for key, rows in found.items()}


class Word:
    """One occurrence."""

    def __init__(self, number: int, sentence: int, token: Any, document: str) -> None:
        self.number, self.sentence, self.document = number, sentence, document
        self.unit = document  # what a bootstrap resamples
        self.labels = {
            "form": token.text.lower(), "lemma": token.lemma_, "tag": token.pos_,
            "relation": token.dep_, "position": token.i - token.sent.start, "document": document,
        }  # fmt: skip
        self.counts = any(c.isalnum() for c in token.text)
        self.about = (token.sent.text, token.idx - token.sent.start_char, token.text)


def words_of(docs: list[Doc]) -> list[Word]:
    found, sentence = [], 0
    for number, doc in enumerate(docs):
        for sent in doc.sents if doc.has_annotation("SENT_START") else [doc[:]]:
            for token in sent:
                name = doc._.document or f"text {number}"
                found.append(Word(len(found), sentence, token, name))
            sentence += 1
    if len({word.document for word in found}) < 5:  # too few to resample
        for word in found:
            word.unit = f"sentence {word.sentence}"
    return found


def unit(rows: Floats) -> Floats:
    scaled: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def weights_of(cosines: Floats, k: int) -> dict[int, float]:
    """The share of each candidate among the k nearest; equal ones share what is left."""
    order = sorted(range(len(cosines)), key=lambda row: -cosines[row])[:k]
    if not order:
        return {}
    last = cosines[order[-1]]
    same = 1e-6 * max(0.0, 1 - last**2) ** 0.5 + 1e-12  # rounding of single precision
    above = [row for row in range(len(cosines)) if cosines[row] > last + same]
    tied = [row for row in range(len(cosines)) if abs(cosines[row] - last) <= same]
    rest = (len(order) - len(above)) / len(tied)
    return {row: 1 / len(order) for row in above} | {row: rest / len(order) for row in tied}


def neighbours_of(
    rows: Floats, words: list[Word], k: int, other_forms: bool
) -> list[tuple[Word, dict[int, float]]]:
    """The weights of the neighbours of each word, by the index of the word."""
    cosines = unit(rows) @ unit(rows).T
    found = []
    for place, word in enumerate(words):
        others = [
            n for n, other in enumerate(words)
            if other.sentence != word.sentence
            and not (other_forms and other.labels["form"] == word.labels["form"])
        ]  # fmt: skip
        near = weights_of(cosines[place, others], k)
        found.append((word, {others[n]: weight for n, weight in near.items()}))
    return found


def share(found: Any, words: list[Word], labels: list[Any]) -> tuple[list[float], list[str]]:
    """The share of neighbours with the label of each word, and the word's document."""
    values, documents = [], []
    for place, (word, near) in enumerate(found):
        if labels[place] == "" or not near:
            continue
        values.append(sum(w for other, w in near.items() if labels[other] == labels[place]))
        documents.append(word.unit)
    return values, documents


def exchanged(words: list[Word], labels: list[Any], draw: Any) -> list[Any]:
    """Labels with each form's taken from another form of about the same frequency."""
    of = defaultdict(list)
    for place, word in enumerate(words):
        of[word.labels["form"]].append(labels[place])
    strata = defaultdict(list)
    for form, own in of.items():
        strata[len(own).bit_length()].append(form)
    other: dict[str, str] = {}
    for forms in strata.values():
        other |= dict(zip(forms, draw.permutation(np.array(forms, dtype=object)), strict=True))
    return [
        own[draw.integers(len(own))] for own in (of[other[word.labels["form"]]] for word in words)
    ]


def bootstrap(values: list[float], documents: list[str]) -> tuple[float, float]:
    draw, names = np.random.default_rng(9), sorted(set(documents))
    sums = dict.fromkeys(names, (0.0, 0))
    for value, name in zip(values, documents, strict=True):
        sums[name] = sums[name][0] + value, sums[name][1] + 1
    means = []
    for _ in range(1000):
        sample = [sums[name] for name in draw.choice(names, len(names))]
        means.append(sum(part for part, _ in sample) / sum(n for _, n in sample))
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def accuracy(rows: Floats, words: list[Word], gold: list[str]) -> float:
    found = neighbours_of(rows, words, 1, False)
    values = [
        sum(weight for other, weight in near.items() if gold[other] == gold[place])
        for place, (_, near) in enumerate(found)
        if near
    ]
    return float(np.mean(values))


def senses_of(words: list[Word], least: int) -> dict[str, list[Word]]:
    """The occurrences of forms with two tags or more of so many occurrences each."""
    counts = Counter((word.labels["form"], word.labels["tag"]) for word in words)
    frequent = {key for key, n in counts.items() if n >= least and key[1]}
    forms = {form for form, n in Counter(form for form, _ in frequent).items() if n > 1}
    return {
        form: [w for w in words if (w.labels["form"], w.labels["tag"]) in frequent
               and w.labels["form"] == form]
        for form in forms
    }  # fmt: skip


def judge(
    model: Any,
    corpus: Corpus,
    limit: int,
    k: int = 5,
    twins: int = 0,
    least: int = 4,
    seed: int = 0,
) -> float:
    """The largest difference of a share; all else is compared here."""
    result = run_here(
        "neighbours", model, corpus, seed=seed, max_sentences=limit, k=k, max_queries=EVERY,
        max_occurrences=EVERY, max_per_sense=10_000, max_forms=500, min_count=least,
        random_models=twins, n_permutations=99,
    )  # fmt: skip
    split = "test"
    docs = list(corpus.docs(split, limit))
    everything = words_of(docs)
    words = [word for word in everything if word.counts]
    chosen = [word.number for word in words]
    own = {key: rows[chosen] for key, rows in states(model, docs).items()}
    others = [
        {key: rows[chosen] for key, rows in states(model.reinitialised(seed + n + 1), docs).items()}
        for n in range(twins)
    ]
    table = result.tables["neighbours"].set_index(["stack", "layer", "candidates", "property"])
    apart, draw = 0.0, np.random.default_rng(4)
    best: dict[str, list[Any]] = defaultdict(list)
    has_documents = len({w.document for w in words}) < len({w.sentence for w in words})
    properties = [
        name
        for name in words[0].labels
        if len({word.labels[name] for word in words} - {""}) > 1
        and (name != "document" or has_documents)
    ]
    assert {(s, layer) for s, layer, _, _ in table.index} == set(own)
    for (stack, layer), rows in own.items():
        for candidates in ("all words", "other forms"):
            found = neighbours_of(rows, words, k, candidates == "other forms")
            random = [
                neighbours_of(each[stack, layer], words, k, candidates == "other forms")
                for each in others
            ]
            for name in properties:
                if name == "form" and candidates == "other forms":
                    continue
                labels = [word.labels[name] for word in words]
                row = table.loc[stack, layer, candidates, name]
                values, documents = share(found, words, labels)
                apart = max(apart, abs(row["share"] - np.mean(values)))
                assert row["n"] == len(values)
                null = [float(np.mean(share(near, words, labels)[0])) for near in random]
                if null:
                    apart = max(apart, abs(row["random"] - np.mean(null)))
                if layer == 1 and name in ("tag", "position") and len(set(documents)) > 1:
                    low, high = bootstrap(values, documents)
                    room = 0.25 * (high - low) + 0.01
                    assert abs(row["lower"] - low) < room and abs(row["upper"] - high) < room
                if name != "form" and layer < 2:
                    means = [
                        np.mean(share(found, words, exchanged(words, labels, draw))[0])
                        for _ in range(60)
                    ]
                    spread = max(float(np.std(means)), 0.004)
                    assert abs(row["chance"] - np.mean(means)) < spread, (stack, layer, name)
                    p = (1 + sum(mean >= np.mean(values) for mean in means)) / 61
                    assert abs(row["p"] - p) < 0.2
                if candidates == "other forms" and name in ("tag", "relation"):
                    best[stack, name].append((np.mean(values), layer, null, row["chance"]))
    judge_senses(result.tables, own, others, words, least, seed)
    judge_tests(result.tables["tests"], best, others)
    judge_examples(result.tables["examples"], own, words)
    return apart


def judge_senses(
    tables: Any, own: Layers, others: list[Layers], words: list[Word], least: int, seed: int
) -> None:
    place = {word.number: n for n, word in enumerate(words)}
    forms = senses_of(words, least)
    senses = tables["senses"].set_index(["form", "stack", "layer"])
    assert {form for form, _, _ in senses.index} == set(forms)
    for (form, stack, layer), row in senses.iterrows():
        occurrences = forms[form]
        rows = own[stack, layer][[place[word.number] for word in occurrences]]
        gold = [word.labels["tag"] for word in occurrences]
        assert row["n"] == len(gold)
        assert row["senses"] == ", ".join(
            f"{tag} {n}" for tag, n in sorted(Counter(gold).items(), key=lambda c: (-c[1], c[0]))
        )
        points = unit(rows).astype(np.float32)
        clusters = KMeans(len(set(gold)), n_init=4, random_state=seed).fit(points).labels_
        assert row["v_measure"] == pytest.approx(v_measure_score(gold, clusters), abs=0.02)
        assert row["accuracy"] == pytest.approx(accuracy(rows, occurrences, gold), abs=1e-6)
        if others:
            null = [
                accuracy(
                    each[stack, layer][[place[w.number] for w in occurrences]], occurrences, gold
                )
                for each in others
            ]
            assert row["random"] == pytest.approx(np.mean(null), abs=0.02)
        draw = np.random.default_rng(7)
        shuffled = [draw.permutation(gold) for _ in range(60)]
        v = [v_measure_score(each, clusters) for each in shuffled]
        assert row["v_chance"] == pytest.approx(np.mean(v), abs=max(np.std(v), 0.01))
    separation = tables["separation"]
    for row in separation.to_dict("records"):
        rows = tables["senses"].query(f"stack == '{row['stack']}' and layer == {row['layer']}")
        assert row["n"] == len(forms)
        assert row["value"] == pytest.approx(rows[row["measure"]].mean())
    for (form, stack, layer), points in tables["map"].groupby(["form", "stack", "layer"]):
        rows = own[stack, layer][[place[word.number] for word in forms[form]]]
        placed = PCA(2, svd_solver="full").fit_transform(unit(rows))
        for axis, name in enumerate("xy"):
            sign = np.sign(placed[:, axis] @ points[name])
            np.testing.assert_allclose(points[name], sign * placed[:, axis], atol=2e-3)
        assert points["sense"].tolist() == [word.labels["tag"] for word in forms[form]]
        of_form = senses.loc[form].xs(stack, level="stack")["accuracy"]
        assert of_form[layer] == of_form.max()


def judge_tests(tests: Any, best: Any, others: list[Layers]) -> None:
    """Differences of the best layers, and p-values against those of random weights."""
    rows = tests.set_index(["stack", "comparison"])
    raw = {}
    for (stack, name), layers in best.items():
        row = rows.loc[stack, name]
        value, layer, _, chance = max(layers, key=lambda each: each[0])
        assert row["first"] == pytest.approx(value, abs=1e-9)
        assert row["layer"] == layer or row["first"] == pytest.approx(layers[int(row["layer"])][0])
        assert row["second"] == pytest.approx(chance, abs=1e-9) or row["layer"] != layer
        above = rows.loc[stack, f"{name} above layer 0"]
        value = max(each[0] for each in layers[1:])
        assert above["difference"] == pytest.approx(value - layers[0][0], abs=1e-9)
        assert above["lower"] - 1e-9 <= above["difference"] <= above["upper"] + 1e-9
        twins = [
            max(each[2][n] for each in layers[1:]) - layers[0][2][n] for n in range(len(others))
        ]
        if len(twins) > 1 and np.ptp(twins) > 1e-9:
            assert above["random"] == pytest.approx(np.mean(twins), abs=1e-9)
            spread = np.std(twins, ddof=1) * np.sqrt(1 + 1 / len(twins))
            t = (value - layers[0][0] - np.mean(twins)) / spread
            raw[stack, f"{name} above layer 0"] = student.sf(t, len(twins) - 1)
    for key, p in raw.items():
        assert rows.loc[key, "p"] >= p * 0.8  # corrected for the number of tests
        expected = rows.loc[key, "lower"] > 0 and rows.loc[key, "p"] < 0.05
        assert rows.loc[key, "holds"] == expected


def judge_examples(examples: Any, own: Layers, words: list[Word]) -> None:
    """Each example's neighbours are its nearest words of other sentences."""
    assert len(examples)
    shown = {
        (form, f"{text[:start].strip()} [{form}]"): n
        for n, word in enumerate(words)
        for text, start, form in [word.about]
    }
    for (_, stack, layer), rows in examples.groupby(["example", "stack", "layer"]):
        first = rows.iloc[0]
        found = [
            n for (form, begins), n in shown.items()
            if form == first["form"] and first["context"].startswith(begins)
        ]  # fmt: skip
        if first["context"].startswith("…") or len(found) != 1:
            continue
        (query,) = found
        cosines = unit(own[stack, layer]) @ unit(own[stack, layer])[query]
        other = np.array([word.sentence != words[query].sentence for word in words])
        nearest = np.sort(cosines[other])[::-1][: len(rows)]
        np.testing.assert_allclose(rows["similarity"], nearest, atol=1e-5)
        assert rows["rank"].tolist() == [*range(1, len(rows) + 1)]


@pytest.mark.slow  # by day `tests/analyses/words/test_neighbours_corpus.py` plants senses
def test_a_small_case() -> None:
    assert judge(wb.load("mini:bert", "cpu"), wb.read("primer"), 8) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mini:bert", "mini:gpt", "mini:t5"])
def test_the_minis(name: str) -> None:
    apart = judge(wb.load(name, "cpu"), wb.read("primer"), 40, 7, twins=3)
    print(f"{name}: shares within {apart:.1e}")
    assert apart < 2e-3


@pytest.mark.slow
def test_the_odd_model_and_its_twin() -> None:
    corpus = odd_corpus()
    model = odd_model(corpus)
    for each in (model, odd_twin(model, 1)):
        apart = judge(each, corpus, 20, twins=2)
        print(f"{each.name}: shares within {apart:.1e}")
        assert apart < 5e-3


@pytest.mark.slow
def test_a_sentence_of_one_word() -> None:
    corpus = odd_corpus({"test": 6}, longest=1)
    assert judge(odd_model(corpus), corpus, 6, 2) < 1e-3


def test_the_words_of_a_single_sentence_have_no_neighbours() -> None:
    single = odd_corpus({"test": 1})
    with pytest.raises(wb.WorkbenchError, match="other sentences") as error:
        run_here("neighbours", odd_model(single), single)
    assert error.value.code == "too-few-sentences"
