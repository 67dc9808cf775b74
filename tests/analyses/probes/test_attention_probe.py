"""The attention probe reads what attention says and no more; its control is by type."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from spacy.tokens import Doc
from torch import Tensor

import workbench as wb
from tests.analyses.probes.test_structural_probe import Quiet, corpus_of, primer, turned
from tests.analyses.probes.test_trees import doc_of, nothing_missing, random_heads
from tests.models import zoo
from tests.planted.look import BUILDERS, eager
from tests.planted.words import lexicon, planted_docs
from workbench import Capture, Corpus, Model, Result, WorkbenchError, encode, forward, load
from workbench.analyses.probes import attention_features
from workbench.analyses.probes.attention_features import Maps, Sentence
from workbench.analyses.probes.attention_probe import ATTENTION, learn, run, still_open
from workbench.analyses.probes.experiments import ATTENTION_PROBE, MAX_DATA_GAIN, AttentionProbe
from workbench.corpora.splits import SplitSizes, parts_of
from workbench.drawing.theme import BASELINE, MODEL
from workbench.experiment import Inputs
from workbench.experiment.definition import unmet_requirements
from workbench.models.huggingface import HuggingFace
from workbench.models.references import facts
from workbench.models.word_models import Vectors

FIGURES = ATTENTION_PROBE.drawings()

Opened = Callable[[str], Model]
SMALL = {"max_sentences": 6, "seeds": (0, 1)}
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return cache(lambda name: load(zoo.make(name, tmp_path_factory.mktemp(name)), "cpu"))


@pytest.fixture(scope="module")
def once(opened: Opened) -> Callable[[str], Result]:
    """What probes find in a model; learnt once."""
    return cache(lambda name: probed(opened(name)))


def probed(model: Model, corpus: Corpus | None = None, **settings: object) -> Result:
    inputs = Inputs((model,), (corpus or primer(),))
    return run(inputs, AttentionProbe(**{**SMALL, **settings}), Quiet())


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes are cut off soon: for tests of what does not depend on what they learn."""
    defaults = (attention_features.DECAYS, 5)
    monkeypatch.setattr(attention_features.train_probes, "__defaults__", defaults)


# --- on attention that is prescribed --------------------------------------------------------------


def sentences_of(number: int, seed: int) -> list[Sentence]:
    random = np.random.default_rng(seed)
    found, first = [], 0
    for place in range(number):
        words = int(random.integers(4, 10))
        doc = doc_of(random_heads(random, words))
        one = attention_features.sentence_of(doc, place, first, nothing_missing(first + words))
        assert one is not None
        found.append(one)
        first += words
    return found


def maps_of(sentences: Sequence[Sentence], tell: Callable[[Sentence], list[Tensor]]) -> Maps:
    """Attention as `tell` says, less an equal share: for each sentence a map for each head."""
    sizes = np.array([len(one) for one in sentences])
    flat = [
        torch.stack(tell(one), -1).reshape(len(one) ** 2, -1) - 1 / len(one) for one in sentences
    ]
    starts = np.cumsum(sizes**2) - sizes**2
    heads = tuple((0, head) for head in range(flat[0].shape[1]))
    return Maps(heads, torch.cat(flat).half(), starts, sizes)


def uniform(one: Sentence) -> Tensor:
    return torch.full((len(one), len(one)), 1 / len(one))


def towards(one: Sentence) -> Tensor:
    """All of a word's attention on its head; a root looks everywhere."""
    found = uniform(one)
    for word in np.flatnonzero(one.heads >= 0):
        found[word] = 0
        found[word, one.heads[word]] = 1
    return found


def uas(sentences: list[Sentence], maps: Maps, control: bool = False) -> float:
    """Learnt on the first two thirds, stopped by the next sixth, scored on the last."""
    words = sum(map(len, sentences))
    half, rest = 2 * len(sentences) // 3, 5 * len(sentences) // 6
    cut = [sentences[:half], sentences[half:rest], sentences[rest:]]
    sizes = attention_features.sizes_of(maps, cut[0])
    train, dev, test = (
        attention_features.cases(part, maps, sizes, torch.zeros(words, 2), (0,), CPU)
        for part in cut
    )
    weights, score = attention_features.by_attention(1, slice(0, maps.flat.shape[1]), CPU)
    variant = torch.tensor([int(control)])
    fitted = attention_features.train_probes(weights, score, variant, train, dev)
    assert bool(fitted.converged.all())
    answers = attention_features.attached(fitted.weights, score, variant, test)
    right = asked = 0
    for place, one in enumerate(cut[2]):
        gold = attention_features.control_heads(one, 0) if control else one.heads
        right += int(((answers[place][0][: len(one)] == gold) & one.scored).sum())
        asked += int(one.scored.sum())
    return right / asked


def test_attention_that_marks_the_head_is_read_in_either_direction() -> None:
    every = sentences_of(90, 0)
    assert uas(every, maps_of(every, lambda one: [uniform(one), towards(one)])) == 1
    assert uas(every, maps_of(every, lambda one: [towards(one).T, uniform(one)])) == 1


def test_attention_that_is_everywhere_tells_nothing() -> None:
    every = sentences_of(240, 1)
    chance = np.mean([1 / (len(one) - 1) for one in every])
    assert uas(every, maps_of(every, lambda one: [uniform(one)])) < chance + 0.12


def test_nobody_learns_the_control_whose_inputs_do_not_tell_the_type() -> None:
    every = sentences_of(240, 2)
    found = uas(every, maps_of(every, lambda one: [uniform(one), towards(one)]), control=True)
    assert found < 1 / 3 + 0.12


def test_the_control_is_drawn_by_type_and_not_by_instance() -> None:
    docs = [doc_of([0, *[0] * (words - 1)]) for words in (6, 9, 12)]
    drawn: dict[str, set[str]] = {}
    for place, doc in enumerate(docs):
        one = attention_features.sentence_of(doc, place, 0, nothing_missing(len(doc)))
        assert one is not None
        for word, head in enumerate(attention_features.control_heads(one, 0)):
            if 0 < word < len(doc) - 1:
                kind = {word: "self", 0: "first", len(doc) - 1: "last"}[int(head)]
                drawn.setdefault(one.types[word], set()).add(kind)
    assert all(len(kinds) == 1 for kinds in drawn.values())
    many = [attention_features.behaviour(f"word {number}", 0) for number in range(3_000)]
    assert all(900 < many.count(kind) < 1_100 for kind in attention_features.BEHAVIOURS)
    assert many != [attention_features.behaviour(f"word {number}", 1) for number in range(3_000)]


def test_the_best_offset_by_hand() -> None:
    doc = doc_of([1, 1, 1, 2, 3], ["NOUN", "VERB", "NOUN", "ADV", "PUNCT"])
    one = attention_features.sentence_of(doc, 0, 0, nothing_missing(5))
    assert one is not None and one.scored.tolist() == [True, False, True, True, False]
    assert attention_features.best_offset([one]) == -1
    assert attention_features.offset_counts([one], -1) == (2, 3)
    assert attention_features.offset_counts([one], 4) == (0, 3)
    assert attention_features.uniform_guess([one]) == 1 / 4  # of four other words


def test_a_probe_cut_off_is_marked_and_one_at_its_optimum_is_not() -> None:
    every = sentences_of(60, 3)
    maps = maps_of(every, lambda one: [uniform(one), towards(one) / 2])
    sizes = attention_features.sizes_of(maps, every)
    (seen,) = attention_features.cases(every, maps, sizes, torch.zeros(600, 2), (0,), CPU)
    weights, score = attention_features.by_attention(2, slice(0, 2), CPU)
    variants = torch.tensor([0, 1])
    whole = attention_features.train_probes(weights, score, variants, [seen], [seen])
    short = attention_features.train_probes(weights, score, variants, [seen], [seen], steps=1)
    assert whole.converged.tolist() == [True, True]
    assert not short.converged[0]


# --- on models ------------------------------------------------------------------------------------


def test_the_planted_heads_find_every_word() -> None:
    words = lexicon(split=False)
    planted = eager(BUILDERS["bert"](words))
    model = HuggingFace(planted.model, planted.tokenizer, "planted")
    docs = planted_docs(40, words)
    corpus = corpus_of(docs[:24], docs[24:32], docs[32:])
    result = probed(model, corpus, max_sentences=None, seeds=(0,), half_data_check=False)
    summary = result.tables["summary"].set_index("probe").loc[ATTENTION]
    assert summary["uas"] == 1 and summary["uas"] > summary["baseline_offset"] + 0.2
    layer, head = planted.heads["syntactic"]
    weights = result.tables["weights"].set_index(["layer", "head"])["weight_to_head"]
    assert weights.idxmax() == (layer, head)
    assert (result.tables["by_relation"].query("probe == 'attention'")["uas"] == 1).all()


def test_maps_of_words_equal_a_slow_loop(opened: Opened) -> None:
    model, docs = opened("bert"), list(wb.read("primer").docs("dev", 5))
    batch = encode(docs)
    maps, missing = attention_features.attention(model, batch)
    assert not missing.any()
    for place in range(len(docs)):
        text, capture = model.encode(batch, [place]), Capture()
        forward(model, encode(docs[place : place + 1]), taps=[capture], hidden=False)
        found, owner = maps["encoder"].of(place), text.words[0]
        for site, (captured,) in capture.maps.items():
            for word in range(len(docs[place])):
                rows = captured[0][:, owner == word].mean(1)  # [heads, pieces]
                for other in range(len(docs[place])):
                    column = maps["encoder"].heads.index((site.layer, 0))
                    expected = rows[:, owner == other].sum(1) - 1 / len(docs[place])
                    heads = found[word, other, column : column + site.heads].float()
                    assert torch.allclose(heads, expected, atol=1e-4)


@pytest.mark.parametrize(
    "name", ["bert", *(pytest.param(n, marks=pytest.mark.slow) for n in ("gpt2", "t5-3-2"))]
)
def test_every_stack_has_its_probes(
    opened: Opened, once: Callable[[str], Result], name: str
) -> None:
    holds_every_stack(opened(name), once(name))


@pytest.mark.usefixtures("few_steps")
def test_a_decoder_has_its_probes_and_cross_attention_none(opened: Opened) -> None:
    holds_every_stack(opened("t5-3-2"), probed(opened("t5-3-2"), max_sentences=3, seeds=(0,)))


def holds_every_stack(model: Model, result: Result) -> None:
    assert set(result.tables) == set(ATTENTION_PROBE.tables)
    for table, about in ATTENTION_PROBE.tables.items():
        found = result.tables[table]
        assert len(found) and not found.duplicated(list(about.keys)).any()
    weights = result.tables["weights"]
    for stack in model.stacks:
        assert (weights["stack"] == stack.name).sum() == stack.layers * stack.heads
    scores = result.tables["scores"]
    assert scores["value"].between(0, 1).all() and scores["n"].nunique() == 1
    own = scores[(scores["encoder"] == "model") & ~scores["control"]]
    layers = own.groupby(["stack", "probe"])["layer"].apply(list)
    for stack in model.stacks:
        for probe in ("attention", "attention and words"):
            assert layers[stack.name, probe] == [-1, *range(stack.layers)]
    decoders = any(stack.name == "decoder" for stack in model.stacks)
    assert decoders == any("In a decoder" in caveat.text for caveat in result.caveats)
    for draw in FIGURES.values():
        assert draw(result.tables).data


@pytest.mark.usefixtures("few_steps")
def test_the_same_seed_gives_the_same_tables(opened: Opened) -> None:
    first, again = (probed(opened("bert"), max_sentences=4).tables for _ in range(2))
    for name, table in first.items():
        pd.testing.assert_frame_equal(table, again[name])
    controls = first["scores"].query("control and layer == -1 and encoder == 'model'")
    assert controls.groupby("probe")["value"].nunique().max() == 2  # each seed draws its own
    assert len(first["scores"].query("not control and layer == -1 and encoder == 'model'")) == 2


def test_a_result_says_what_was_not_learnt_and_what_more_sentences_would_give(
    once: Callable[[str], Result],
) -> None:
    result = once("bert")
    means, said = result.tables["means"], " ".join(caveat.text for caveat in result.caveats)
    own = means[~means["control"]]
    expected = (own["value"] > own["baseline"]) & (own["value"] > own["control_value"])
    assert list(own["learnt"]) == list(expected)
    assert not own["learnt"].all() and "not score above the best offset" in said
    model = own[own["encoder"] == "model"]
    assert model["half"].between(0, 1).all()
    is_starved = bool(((model["value"] - model["half"]) > MAX_DATA_GAIN).any())
    assert bool([*still_open(result.tables)]) == is_starved
    assert means["converged"].all() and "stopped before" not in said
    figure = FIGURES["layers"](result.tables)
    curves = [trace for trace in figure.data if trace.line.color == MODEL]
    assert BASELINE in {colour for trace in curves for colour in trace.marker.color}


@pytest.mark.usefixtures("few_steps")
def test_the_gold_of_the_test_part_changes_no_weight(opened: Opened) -> None:
    primer = wb.read("primer:size=200")
    train, dev, test = (list(primer.docs(part, 3)) for part in ("train", "dev", "test"))

    def learnt(scored: list[Doc]) -> list[Tensor]:
        corpus = corpus_of(train, dev, scored)
        inputs = Inputs((opened("bert"),), (corpus,))
        parts = parts_of(corpus, None, SplitSizes(), 0)
        found = learn(inputs, AttentionProbe(seeds=(0,), half_data_check=False), Quiet(), parts)
        return [probed.weights for key in found.keys for probed in found.probes[key]]

    clean, poisoned = learnt(test), learnt([turned(doc) for doc in test])
    assert all(torch.equal(a, b) for a, b in zip(clean, poisoned, strict=True))


def test_a_model_without_heads_is_refused(tmp_path: Path) -> None:
    Vectors(["a"], torch.ones(1, 2)).save(tmp_path)
    (fault,) = unmet_requirements(ATTENTION_PROBE, AttentionProbe(), [facts(load(tmp_path, "cpu"))])
    assert "needs attention heads" in str(fault)


@pytest.mark.usefixtures("few_steps")
def test_sentences_without_arcs_and_words_beyond_the_models_length_give_a_caveat(
    opened: Opened,
) -> None:
    short, long = doc_of([0, 0, 1]), doc_of([0, *range(149)])
    dots = doc_of([0, 0], ["PUNCT", "PUNCT"])
    docs = [short, doc_of([0]), dots]
    corpus = corpus_of(docs, docs, [*docs, long])
    result = probed(opened("bert"), corpus, seeds=(0,), half_data_check=False)
    assert result.tables["means"]["half"].isna().all()
    for said in ("6 of 10 sentences have no arc", "words were cut off", "sentences are scored"):
        assert any(said in each.text for each in result.caveats), said
    assert 2 < result.tables["scores"]["n"].iloc[0] < 2 + 149
    with pytest.raises(WorkbenchError, match="dev has no word"):
        probed(opened("bert"), corpus_of(docs, [doc_of([0]), dots], docs))
