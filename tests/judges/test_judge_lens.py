"""A judge of `lens`: hooks on transformers' own modules, one word and one pass at a time.

States are read by the modules of each architecture, named one by one; the distributions, ranks and
layers are counted in plain Python, intervals by a bootstrap of its own. Texts have all their words
predicted, so that nothing depends on how words are drawn.
"""

import math
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import t as student
from torch import Tensor

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from tests.judges.plain import Text, hidden_with, text_of
from tests.judges.resampled import resampled
from workbench import Corpus

pytestmark = pytest.mark.slow  # by day tests/analyses/lenses has measures by hand

EVERY = 100_000  # words: more than there are
CLOSED = {"ADP", "AUX", "CCONJ", "DET", "NUM", "PART", "PRON", "SCONJ"}
OPEN = {"ADJ", "ADV", "INTJ", "NOUN", "PROPN", "VERB"}
TIE = 1e-4  # of log-probabilities
State = tuple[str, int, str]
Scores = dict[State, Tensor]  # log-probabilities of the vocabulary


class Hooks:
    """The outputs of some modules in one pass."""

    def __init__(self) -> None:
        self.seen: dict[Any, Tensor] = {}
        self.removers: list[Any] = []

    def output(self, module: Any, name: State) -> None:
        def store(_: Any, __: Any, made: Any) -> None:
            self.seen[name] = made[0] if isinstance(made, tuple) else made

        self.removers.append(module.register_forward_hook(store))

    def input(self, module: Any, name: State) -> None:
        def store(_: Any, read: Any) -> None:
            self.seen[name] = read[0]

        self.removers.append(module.register_forward_pre_hook(store))

    def close(self) -> None:
        for each in self.removers:
            each.remove()


def of_bert(net: Any, ids: Tensor, place: int) -> Scores:
    hooks = Hooks()
    hooks.output(net.bert.embeddings, ("encoder", 0, "embeddings"))
    for layer, block in enumerate(net.bert.encoder.layer, 1):
        hooks.output(block.attention.output, ("encoder", layer, "attention"))
        hooks.output(block, ("encoder", layer, "mlp"))
    net(ids[None])
    hooks.close()
    return {name: net.cls(state)[0, place].log_softmax(-1) for name, state in hooks.seen.items()}


def of_gpt(net: Any, ids: Tensor, place: int) -> Scores:
    """`place` is the piece before the predicted one."""
    hooks = Hooks()
    hooks.input(net.transformer.h[0], ("decoder", 0, "embeddings"))
    for layer, block in enumerate(net.transformer.h, 1):
        hooks.input(block.ln_2, ("decoder", layer, "attention"))
        hooks.output(block, ("decoder", layer, "mlp"))
    net(ids[None, : place + 1])
    hooks.close()
    return {
        name: net.lm_head(net.transformer.ln_f(state))[0, place].log_softmax(-1)
        for name, state in hooks.seen.items()
    }


def of_t5(net: Any, read: Tensor, written: Tensor) -> Scores:
    hooks = Hooks()
    for stack, parts in (
        ("encoder", ("attention", "mlp")), ("decoder", ("attention", "cross-attention", "mlp")),
    ):  # fmt: skip
        body = getattr(net, stack)
        hooks.input(body.block[0], (stack, 0, "embeddings"))
        for layer, block in enumerate(body.block, 1):
            for part, module in zip(parts, block.layer, strict=True):
                hooks.output(module, (stack, layer, part))
    net(read[None], labels=written[None])
    hooks.close()
    found = {}
    for name, state in hooks.seen.items():
        if name[0] == "encoder":
            states = (net.encoder.final_layer_norm(state),)
            logits = net(encoder_outputs=states, labels=written[None]).logits
        else:
            normed = net.decoder.final_layer_norm(state)
            scale = net.model_dim**-0.5 if net.config.tie_word_embeddings else 1.0
            logits = net.lm_head(normed * scale)
        found[name] = logits[0, 1].log_softmax(-1)
    return found


def scored(model: Any, text: Text, place: int) -> Scores:
    """What every state predicts for the piece at this place."""
    net, tokenizer = model.net, model.tokenizer
    if model.objective == "causal":
        return of_gpt(net, text.ids, place - 1)
    hidden = hidden_with(text, place, within_word=True)
    if model.objective == "masked":
        ids = text.ids.clone()
        ids[hidden] = tokenizer.mask_token_id
        return of_bert(net, ids, place)
    one, two = (tokenizer.convert_tokens_to_ids(f"<extra_id_{n}>") for n in (0, 1))
    read = torch.cat([text.ids[:place], torch.tensor([one]), text.ids[hidden[-1] + 1 :]])
    more = [two] if hidden[-1] < text.inside[-1] else []
    written = [one, *text.ids[hidden].tolist(), *more, tokenizer.eos_token_id]
    return of_t5(net, read, torch.tensor(written))


class Word:
    """One predicted word, and what each state predicts for it."""

    def __init__(self, scores: Scores, gold: int, document: Any, tag: str, text: str) -> None:
        self.document, self.tag, self.text, self.gold = document, tag, text, gold
        self.stacks = list(dict.fromkeys(stack for stack, _, _ in scores))
        ends = {
            stack: max((s for s in scores if s[0] == stack and s[2] == "mlp"), key=lambda s: s[1])
            for stack in self.stacks
        }
        final = scores[ends[self.stacks[-1]]].double()
        top = int(final.argmax())
        self.near_tie = False
        self.measures: dict[State, dict[str, float]] = {}
        best: dict[State, int] = {}
        for state, each in scores.items():
            logs = each.double()
            first, second = logs.topk(2).values.tolist()
            self.near_tie |= first - second < TIE
            best[state] = int(logs.argmax())
            p = logs.exp()
            rank = 1 + int((logs > logs[gold]).sum())
            self.measures[state] = {
                "agreement": float(best[state] == top),
                "accuracy": float(best[state] == gold),
                "p_final": math.exp(float(logs[top])),
                "rank_final": 1 + int((logs > logs[top]).sum()),
                "rank_gold": rank,
                "reciprocal_rank": 1 / rank,
                "nats": -float(logs[gold]),
                "kl": float((final.exp() * (final - logs)).sum()),
                "entropy": -float((p * logs).sum()),
            }
        self.final: dict[str, int] = {}
        for stack in self.stacks:
            layers = [best[s] for s in sorted(
                (s for s in scores if s[0] == stack and s[2] in ("embeddings", "mlp")),
                key=lambda s: s[1],
            )]  # fmt: skip
            layer = len(layers) - 1
            while layer and layers[layer - 1] == top:
                layer -= 1
            self.final[stack] = layer


@torch.no_grad()
def words_of(model: Any, docs: list[Any]) -> list[Word]:
    found, names = [], resampled(docs)
    for number, doc in enumerate(docs):
        text, done = text_of(model.tokenizer, doc), set()
        for place in text.inside:
            word = text.word[place]
            gold = int(text.ids[place])
            if word < 0 or word in done:
                continue
            done.add(word)
            is_first = model.objective == "causal" and place == 0
            if gold == model.tokenizer.unk_token_id or is_first:
                continue
            scores = scored(model, text, place)
            name = names[number]
            found.append(Word(scores, gold, name, doc[word].pos_, doc[word].text.lower()))
    return found


def groups(words: list[Word], docs: list[Any]) -> Iterator[tuple[str, str, list[Word]]]:
    yield "all", "all", words
    for tag in {word.tag for word in words} - {""}:
        yield "tag", tag, [word for word in words if word.tag == tag]
    yield "class", "function words", [word for word in words if word.tag in CLOSED]
    yield "class", "content words", [word for word in words if word.tag in OPEN]
    rank = ranks(docs)
    for low, high, name in (
        (1, 10, "1-10"), (11, 100, "11-100"), (101, 1000, "101-1000"),
        (1001, 10**9, "1001 and more"),
    ):  # fmt: skip
        yield "frequency", name, [word for word in words if low <= rank[word.text] <= high]


def ranks(docs: list[Any]) -> dict[str, int]:
    counts = Counter(token.text.lower() for doc in docs for token in doc if token.text.strip())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {word: place for place, (word, _) in enumerate(ordered, 1)}


def drawn(words: list[Word], value: Any, first: Any, second: Any = None) -> list[float]:
    """A mean, or a difference of two, in 1,000 samples of documents."""
    draw, names = random.Random(3), sorted({str(word.document) for word in words})
    of = {name: [word for word in words if str(word.document) == name] for name in names}
    parts = {
        name: [
            (sum(value(w) for w in each if inside(w)), sum(1 for w in each if inside(w)))
            for inside in (first, second or first)
        ]
        for name, each in of.items()
    }
    found = []
    for _ in range(1000):
        sample = [parts[draw.choice(names)] for _ in names]
        sums = [[sum(part[side][k] for part in sample) for k in (0, 1)] for side in (0, 1)]
        if sums[0][1] and sums[1][1]:
            means = [total / n for total, n in sums]
            found.append(means[0] if second is None else means[0] - means[1])
    return found


def near(low: float, high: float, draws: list[float]) -> None:
    mine = np.percentile(draws, [2.5, 97.5])
    room = 0.2 * (mine[1] - mine[0]) + 0.02
    assert abs(low - mine[0]) < room and abs(high - mine[1]) < room


def judge(model: Any, corpus: Corpus, limit: int, twins: int, seed: int = 0) -> float:
    """The largest difference of a mean in nats or probability; all else is compared here."""
    result = run_here(
        "lens", model, corpus, seed=seed, max_sentences=limit, max_predictions=EVERY,
        random_models=twins,
    )  # fmt: skip
    docs = list(corpus.docs("test", limit))
    words = words_of(model, docs)
    others = [words_of(model.reinitialised(seed + n + 1), docs) for n in range(twins)]
    n, ties = len(words), sum(word.near_tie for word in words)
    room, apart = ties / n + 1e-9, 0.0
    layers = result.tables["layers"]
    own = layers[layers["weights"] == "model"].set_index(["stack", "layer", "sublayer", "measure"])
    assert len(own) == sum(len(each) for each in words[0].measures.values())
    for (*state, measure), row in own.iterrows():
        mean = sum(word.measures[tuple(state)][measure] for word in words) / n
        assert row["n"] == n
        if measure in ("agreement", "accuracy"):
            assert abs(row["value"] - mean) <= room
        elif measure in ("rank_final", "rank_gold", "reciprocal_rank"):
            assert row["value"] == pytest.approx(mean, rel=0.02)
        else:
            apart = max(apart, abs(row["value"] - mean))
    last = words[0].stacks[-1]
    state = next(s for s in words[0].measures if s[0] == last and s[1] == 1 and s[2] == "mlp")
    row = own.loc[(*state, "accuracy")]
    everything = lambda word: True  # noqa: E731
    near(
        row["lower"], row["upper"],
        drawn(words, lambda word: word.measures[state]["accuracy"], everything),
    )  # fmt: skip
    final = result.tables["final"].set_index(["stack", "by", "group", "layer"])
    means = result.tables["groups"].set_index(["stack", "by", "group"])
    expected = {(by, name): own for by, name, own in groups(words, docs) if own}
    assert set(means.index) == {(s, *key) for s in words[0].stacks for key in expected}
    for stack in words[0].stacks:
        top = max(layer for s, layer, _ in words[0].measures if s == stack)
        for (by, name), own_words in expected.items():
            sure = sum(word.near_tie for word in own_words) / len(own_words)
            row = means.loc[(stack, by, name)]
            mean = sum(word.final[stack] for word in own_words) / len(own_words)
            assert row["n"] == len(own_words)
            assert abs(row["mean_layer"] - mean) <= sure * top + 1e-9
            total = 0.0
            for layer in range(top + 1):
                cell = final.loc[(stack, by, name, layer)]
                share = sum(word.final[stack] == layer for word in own_words) / len(own_words)
                total += share
                assert abs(cell["share"] - share) <= sure + 1e-9
                assert abs(cell["cumulative"] - total) <= sure + 1e-9
    tests = result.tables["tests"].set_index("comparison")
    rank = ranks(docs)
    pairs = {
        "function words": (lambda w: w.tag in CLOSED, lambda w: w.tag in OPEN),
        "frequent words": (lambda w: rank[w.text] <= 100, lambda w: rank[w.text] > 100),
    }

    def difference(read: list[Word], sides: Any) -> float:
        layer = [[w.final[last] for w in read if inside(w)] for inside in sides]
        return sum(layer[0]) / len(layer[0]) - sum(layer[1]) / len(layer[1])

    raw = {}
    for name, sides in pairs.items():
        if name not in tests.index:
            assert not all(any(inside(word) for word in words) for inside in sides)
            continue
        row, value = tests.loc[name], difference(words, sides)
        assert abs(row["difference"] - value) <= 2 * room * 8
        near(row["lower"], row["upper"], drawn(words, lambda w: w.final[last], *sides))
        null = [difference(other, sides) for other in others]
        if ties == 0 and len(null) > 1 and np.std(null) > 1e-9:
            assert row["random"] == pytest.approx(np.mean(null), abs=0.02)
            spread = np.std(null, ddof=1) * math.sqrt(1 + 1 / len(null))
            raw[name] = 2 * student.sf(abs(value - np.mean(null)) / spread, len(null) - 1)
            assert row["p"] >= raw[name] * 0.8
        assert row["holds"] == (row["upper"] < 0 and row["p"] < 0.05)
    gold = Counter(word.gold for word in words)
    right = [word.measures[max(s for s in word.measures if s[0] == last and s[2] == "mlp")]
             ["accuracy"] for word in words]  # fmt: skip
    row = tests.loc["accuracy"]
    assert abs(row["first"] - sum(right) / n) <= room
    assert row["second"] == pytest.approx(max(gold.values()) / n)
    assert row["holds"] == (row["lower"] > 0 and row["p"] < 0.05)
    return apart


def test_a_small_case() -> None:
    assert judge(wb.load("mini:bert", "cpu"), wb.read("primer"), 8, 0) < 1e-3


@pytest.mark.parametrize("name", ["mini:bert", "mini:gpt", "mini:t5"])
def test_the_minis(name: str) -> None:
    apart = judge(wb.load(name, "cpu"), wb.read("primer"), 40, 3)
    print(f"{name}: means within {apart:.1e}")
    assert apart < 1e-3


def test_the_odd_model_and_its_twin() -> None:
    corpus = odd_corpus()
    model = odd_model(corpus)
    for each in (model, odd_twin(model, 1)):
        apart = judge(each, corpus, 12, 2)
        print(f"{each.name}: means within {apart:.1e}")
        assert apart < 5e-3
