"""A judge of `patching`: hooks on transformers' own modules, one pair, pass and patch at a time.

Blocks, projections and MLPs are named for each architecture. Which pieces belong to a place, which
texts are unrelated, means, intervals and p-values are counted here again. All unrelated texts are
restored, so that nothing depends on how they are drawn.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from spacy.tokens import Doc
from torch import Tensor

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from tests.judges.plain import hidden_with, text_of
from workbench import Corpus
from workbench.corpora.layers import Mention, set_spans

pytestmark = pytest.mark.slow  # by day tests/analyses/patching finds planted circuits

EVERY = 10_000
Key = tuple[str, str, str, int, Any]  # what, stack, kind, layer, place or head
Site = tuple[str, str, str, int]


@dataclass
class Text:
    """What each stack of a model reads, and the word of every piece (-1: none)."""

    ids: dict[str, Tensor]
    words: dict[str, list[int]]
    predicts: dict[str, int]  # the predicting piece; in an encoder below a decoder the sentinel
    special: dict[str, set[int]]
    gold: int


def read(model: Any, doc: Doc, word: int) -> Text | None:
    """The text with this word hidden, or up to it; None if nothing comes before."""
    tokenizer, text = model.tokenizer, text_of(model.tokenizer, doc)
    first = text.word.index(word)
    gold = int(text.ids[first])
    outside = set(range(len(text.ids))) - set(text.inside)
    if model.objective == "causal":
        if not first:
            return None
        name = "decoder"
        parts: Any = text.ids[:first], text.word[:first], first - 1, outside
    else:
        name, hidden = "encoder", hidden_with(text, first, within_word=True)
        if model.objective == "masked":
            ids = text.ids.clone()
            ids[hidden] = tokenizer.mask_token_id
            parts = ids, text.word, first, outside | {*hidden}
        else:
            mark = tokenizer.convert_tokens_to_ids("<extra_id_0>")
            rest = hidden[-1] + 1
            ids = torch.cat([text.ids[:first], torch.tensor([mark]), text.ids[rest:]])
            words = [*text.word[:first], -1, *text.word[rest:]]
            end = {piece - len(hidden) + 1 for piece in outside}
            parts = ids, words, first, end
    each = [{name: part} for part in parts]
    found = Text(*each, gold)
    if model.objective == "seq2seq":
        start = model.net.config.decoder_start_token_id
        found.ids["decoder"] = torch.tensor([start, mark])
        found.words["decoder"], found.predicts["decoder"] = [-1, -1], 1
        found.special["decoder"] = {0}
    return found


def blocks(net: Any) -> dict[str, Any]:
    kind = net.config.model_type
    if kind == "t5":
        return {"encoder": net.encoder.block, "decoder": net.decoder.block}
    return {"decoder": net.transformer.h} if kind == "gpt2" else {"encoder": net.bert.encoder.layer}


def sites(net: Any) -> Iterator[tuple[Site, Any, bool]]:
    """Every activation: its name, its module, and whether it is read or returned by it."""
    kind = net.config.model_type
    for stack, own in blocks(net).items():
        yield ("states", stack, "", 0), own[0], True
        for layer, block in enumerate(own):
            yield ("states", stack, "", layer + 1), block, False
            if kind == "gpt2":
                yield ("heads", stack, "causal", layer), block.attn.c_proj, True
                yield ("mlps", stack, "", layer), block.mlp, False
            elif kind == "bert":
                yield ("heads", stack, "self", layer), block.attention.output.dense, True
                yield ("mlps", stack, "", layer), block.output.dense, False
            else:
                own_kind = "self" if stack == "encoder" else "causal"
                yield ("heads", stack, own_kind, layer), block.layer[0].SelfAttention.o, True
                if stack == "decoder":
                    yield ("heads", stack, "cross", layer), block.layer[1].EncDecAttention.o, True
                yield ("mlps", stack, "", layer), block.layer[-1].DenseReluDense, False


def run(net: Any, text: Text, at: dict[Site, Callable[[Tensor], Tensor]]) -> Tensor:
    """The logits of one pass in which some activations go through a function."""

    def before(change: Any) -> Any:
        def hook(_: Any, args: Any, kwargs: Any) -> Any:
            if args:
                return (change(args[0]), *args[1:]), kwargs
            return args, {**kwargs, "hidden_states": change(kwargs["hidden_states"])}

        return hook

    def after(change: Any) -> Any:
        def hook(_: Any, __: Any, made: Any) -> Any:
            return (change(made[0]), *made[1:]) if isinstance(made, tuple) else change(made)

        return hook

    with ExitStack() as hooks, torch.no_grad():
        for name, module, is_read in sites(net):
            if name in at and is_read:
                hook = module.register_forward_pre_hook(before(at[name]), with_kwargs=True)
                hooks.callback(hook.remove)
            elif name in at:
                hooks.callback(module.register_forward_hook(after(at[name])).remove)
        if "decoder" in text.ids and "encoder" in text.ids:
            made = net(text.ids["encoder"][None], decoder_input_ids=text.ids["decoder"][None])
        else:
            (ids,) = text.ids.values()
            made = net(ids[None])
    last = "decoder" if "decoder" in text.predicts else "encoder"
    return made.logits[0, text.predicts[last]].double()  # type: ignore[no-any-return]


def record(net: Any, text: Text) -> dict[Site, Tensor]:
    seen: dict[Site, Tensor] = {}

    def store(name: Site) -> Callable[[Tensor], Tensor]:
        def keep(states: Tensor) -> Tensor:
            seen[name] = states.clone()
            return states

        return keep

    run(net, text, {name: store(name) for name, _, _ in sites(net)})
    return seen


@dataclass
class Pair:
    phenomenon: str
    clean: Text
    corrupt: Text
    compares: bool
    places: dict[str, dict[str, list[int]]]
    exchanges: tuple[frozenset[Any], frozenset[Any]]

    def number(self, logits: Tensor) -> float:
        if not self.compares:
            return float(logits.log_softmax(-1)[self.clean.gold])
        return float(logits[self.clean.gold] - logits[self.corrupt.gold])

    @property
    def alignment(self) -> Any:
        return [
            (stack, len(ids), self.places[stack].get("changed"), self.clean.predicts[stack])
            for stack, ids in self.clean.ids.items()
        ]


def places_of(clean: Text, corrupt: Text, stack: str, word: int) -> dict[str, list[int]]:
    ids = zip(clean.ids[stack].tolist(), corrupt.ids[stack].tolist(), strict=True)
    words, found = clean.words[stack], defaultdict(list)
    exchanged = {words[n] for n, (one, other) in enumerate(ids) if one != other}
    earlier = [each for each in words if 0 <= each < word]
    for piece, owner in enumerate(words):
        if owner in exchanged:
            name = "changed"
        elif piece == clean.predicts[stack]:
            continue
        elif piece in clean.special[stack] or owner < 0:
            name = "special"
        elif owner == max(earlier, default=-1):
            name = "previous"
        else:
            inner = any(min(e, word) < owner < max(e, word) for e in exchanged)
            name = "between" if inner else "other"
        found[name].append(piece)
    found["predicted"].append(clean.predicts[stack])
    return dict(found)


def pairs_of(model: Any, docs: list[Doc]) -> list[Pair]:
    found = []
    for doc in docs:
        parts = sorted(doc.spans["segments"], key=lambda part: part.start)
        words = {span.label_: span.start for span in doc.spans["predicted"]}
        spots = words["target"] - parts[0].start, words["against"] - parts[1].start
        alone = [
            Doc(
                doc.vocab,
                [t.text for t in part],
                [*[bool(t.whitespace_) for t in part[:-1]], False],
            )
            for part in parts
        ]
        clean, corrupt = (read(model, *each) for each in zip(alone, spots, strict=True))
        if clean is None or corrupt is None:
            continue
        unknown = model.tokenizer.unk_token_id
        compares = alone[0][spots[0]].text != alone[1][spots[1]].text
        if unknown in (clean.gold, corrupt.gold) or clean.words != corrupt.words:
            continue
        if compares and clean.gold == corrupt.gold:
            continue
        places = {stack: places_of(clean, corrupt, stack, spots[0]) for stack in clean.ids}
        first = next(iter(places))
        if "changed" not in places[first]:
            continue
        context = frozenset(
            tuple(text.ids[first][places[first]["changed"]].tolist()) for text in (clean, corrupt)
        )
        predicted = frozenset((clean.gold, corrupt.gold))
        name = str(doc._.labels.get("phenomenon", "all"))
        found.append(Pair(name, clean, corrupt, compares, places, (context, predicted)))
    return found


def patched(net: Any, pair: Pair, source: dict[Site, Tensor]) -> dict[Key, float]:
    """The number of the corrupt text with each activation of the source."""
    found: dict[Key, float] = {}
    for name, _, _ in sites(net):
        what, stack, kind, layer = name

        def given(change: Callable[[Tensor], None], name: Site = name) -> float:
            def replaced(states: Tensor) -> Tensor:
                new = states.clone()
                change(new)
                return new

            return pair.number(run(net, pair.corrupt, {name: replaced}))

        if what == "states":
            for place, pieces in pair.places[stack].items():

                def at(new: Tensor, pieces: list[int] = pieces, name: Site = name) -> None:
                    new[0, pieces] = source[name][0, pieces]

                found[what, stack, kind, layer, place] = given(at)
        elif what == "heads":
            config = net.config
            n_heads = getattr(config, "num_heads", None) or config.num_attention_heads
            size = source[name].shape[-1] // n_heads
            for head in range(n_heads):

                def of(new: Tensor, head: int = head, size: int = size, name: Site = name) -> None:
                    own = slice(head * size, (head + 1) * size)
                    new[0, :, own] = source[name][0, :, own]

                found[what, stack, kind, layer, head] = given(of)
        else:

            def whole(new: Tensor, name: Site = name) -> None:
                new[:] = source[name]

            found[what, stack, kind, layer, None] = given(whole)
    return found


def flips(sums: np.ndarray, seed: int = 0) -> np.ndarray:
    """Westfall and Young: how often the largest studentised sum of random signs is as large."""
    random = np.random.default_rng(seed)
    spread = np.sqrt((sums**2).sum(0))
    signs = random.choice([-1.0, 1.0], (4000, len(sums)))
    scaled = sums / np.where(spread > 0, spread, np.inf)
    highest = np.abs(signs @ scaled).max(1)
    return (highest[:, None] >= np.abs(scaled.sum(0)) * (1 - 1e-9)).mean(0)  # type: ignore[no-any-return]


def judge(model: Any, corpus: Corpus, limit: int | None) -> None:
    result = run_here(
        "patching", model, corpus, max_sentences=limit, max_pairs=EVERY, random_pairs=100
    )
    net, docs = model.net, list(corpus.docs("test", limit))
    pairs = pairs_of(model, docs)
    own = [record(net, pair.clean) for pair in pairs]
    clean = np.array([pair.number(run(net, pair.clean, {})) for pair in pairs])
    corrupt = np.array([pair.number(run(net, pair.corrupt, {})) for pair in pairs])
    apart = clean - corrupt
    effects: list[dict[Key, float]] = []
    random: list[dict[Key, float]] = []
    for n, pair in enumerate(pairs):
        shift = {key: value - corrupt[n] for key, value in patched(net, pair, own[n]).items()}
        effects.append(shift)
        others = [
            patched(net, pair, own[m])
            for m, other in enumerate(pairs)
            if m != n and other.alignment == pair.alignment
            and other.exchanges[0] != pair.exchanges[0]
        ]  # fmt: skip
        random.append(
            {key: np.mean([each[key] for each in others]) - corrupt[n] for key in shift}
            if others
            else {}
        )
    units = units_of(pairs)
    row = result.tables["pairs"].set_index("phenomenon")
    everything = row.loc["all"]
    assert everything["n"] == len(pairs) and everything["left_out"] == len(docs) - len(pairs)
    assert everything["exchanges"] == len(set(units))
    assert everything["clean"] == pytest.approx(clean.mean(), abs=1e-3)
    assert everything["difference"] == pytest.approx(apart.mean(), abs=1e-3)
    assert everything["distinguished"] == (apart > 0.1).sum()
    assert everything["with_random"] == sum(map(bool, random))
    keys = list(dict.fromkeys(key for each in effects for key in each))
    scale = max(1.0, float(np.abs([clean, corrupt]).max()))
    for what in ("states", "heads", "mlps"):
        table = result.tables[what].assign(what=what)
        rows = {key_of(row): row for row in table.to_dict("records")}
        mine = [key for key in keys if key[0] == what]
        assert set(rows) == set(mine)
        sums = np.zeros((len(set(units)), len(mine)))
        names = sorted(set(units))
        for column, key in enumerate(mine):
            distinct = [n for n in range(len(pairs)) if key in effects[n] and apart[n] > 0.1]
            tested = [n for n in range(len(pairs)) if key in effects[n] and random[n]]
            row = rows[key]
            assert (row["n"], row["n_tested"]) == (len(distinct), len(tested)), key
            if distinct:
                part, whole = (sum(each[n] for n in distinct) for each in (
                    [each.get(key, 0.0) for each in effects], apart,
                ))  # fmt: skip
                assert row["effect"] == pytest.approx(part / whole, abs=2e-3), key
                assert row["lower"] <= row["effect"] <= row["upper"]
            both = [n for n in distinct if random[n]]
            if both:
                part = sum(random[n][key] for n in both) / sum(apart[n] for n in both)
                assert row["random"] == pytest.approx(part, abs=2e-3), key
            above = {n: effects[n][key] - random[n][key] for n in tested}
            assert row["nats"] == pytest.approx(
                sum(above.values()) / max(len(tested), 1), abs=1e-4 * scale
            )
            for n, value in above.items():
                sums[names.index(units[n]), column] += 0 if abs(value) < 2e-5 * scale else value
        p_values = flips(sums)
        for column, key in enumerate(mine):
            row = rows[key]
            assert row["p"] == pytest.approx(p_values[column], abs=0.06), key
            assert row["restores"] == (row["p"] < 0.05 and row["nats"] > 0 and row["lower"] > 0)


def key_of(row: Any) -> Key:
    what = row["what"]
    last = row["place"] if what == "states" else row["head"] if what == "heads" else None
    return what, row["stack"], row.get("kind", ""), row["layer"], last


def units_of(pairs: list[Pair]) -> list[Any]:
    sides = {}
    for name in {pair.phenomenon for pair in pairs}:
        same = [pair for pair in pairs if pair.phenomenon == name]
        counts = [len({pair.exchanges[side] for pair in same}) for side in (0, 1)]
        sides[name] = int(counts[1] > counts[0])
    return [(p.phenomenon, str(sorted(p.exchanges[sides[p.phenomenon]]))) for p in pairs]


# --- what is judged -------------------------------------------------------------------------------


def odd_pairs(lengths: tuple[int, ...], each: int = 3) -> Corpus:
    """Pairs of random words: of each length some that exchange one word and predict another."""
    random = np.random.default_rng(0)
    words = sorted({token.text for doc in odd_corpus().docs("test") for token in doc})
    docs = []
    for length in lengths:
        changed, predicted = random.permutation(length)[:2].tolist()
        for _ in range(each):
            texts = [random.choice(words, length).tolist()] * 2
            texts[1] = [*texts[0]]
            for place in (changed, predicted):
                texts[0][place], texts[1][place] = random.choice(words, 2, replace=False).tolist()
            doc = Doc(odd_corpus().splits["test"]().__next__().vocab, [*texts[0], *texts[1]])
            set_spans(doc, "segments", [Mention(0, length, "1"), Mention(length, 2 * length, "2")])
            spots = ((predicted, "target"), (length + predicted, "against"))
            set_spans(doc, "predicted", [Mention(at, at + 1, label) for at, label in spots])
            doc._.labels = {"phenomenon": str(length)}
            docs.append(doc)
    return Corpus("odd pairs", {"test": lambda: iter(docs)})


def primer() -> Corpus:
    return wb.read("primer/counterfactuals")


def test_tables_of_a_decoder_are_those_by_hooks() -> None:
    judge(wb.load("mini:gpt", device="cpu"), primer(), 5)


@pytest.mark.parametrize(("name", "limit"), [*product(("mini:gpt", "mini:bert", "mini:t5"), (35,))])
def test_tables_of_the_built_in_models_are_those_by_hooks(name: str, limit: int) -> None:
    judge(wb.load(name, device="cpu"), primer(), limit)


@pytest.mark.parametrize("random", [False, True])
def test_tables_of_an_odd_model_and_of_its_twin_are_those_by_hooks(random: bool) -> None:
    """Texts of two words and of sixty, the predicted word before or after the exchanged one."""
    model = odd_model(odd_corpus())
    judge(odd_twin(model) if random else model, odd_pairs((2, 3, 5, 60)), None)
