"""Minimal pairs, with models whose preferences are known, and BLiMP's folder of files."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.minis import shared
from tests.models import bilms, headed, zoo
from workbench import Corpus, Model, Result, WorkbenchError, encode, experiments, load, read
from workbench.analyses.basics.experiments import MINIMAL_PAIRS, MinimalPairs
from workbench.analyses.basics.minimal_pairs import exchanges, fits
from workbench.core.stats import holm, sign_flip_p_value
from workbench.corpora.readers.tables import minimal_pairs
from workbench.experiment import Inputs
from workbench.experiment.definition import unmet_requirements
from workbench.models.huggingface import HuggingFace
from workbench.models.references import facts
from workbench.models.scoring.lm_scoring import score

NOUNS = ("dogs", "boats", "letters", "doctors", "teachers", "farmers", "men", "women")


class Quiet:
    """Progress that nobody watches."""

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None: ...

    def log(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...


def fond_of(words: Sequence[str], folder: Path) -> HuggingFace:
    """A BERT to which every piece is as likely as any other, but for the first pieces of some."""
    body = zoo.make("bert", folder / "body")
    model = headed.opened(headed.saved(body, "BertForMaskedLM", folder / "headed", uniform=True))
    for word in words:
        (number,) = model.tokenizer(word, add_special_tokens=False)["input_ids"][:1]
        with torch.no_grad():
            model.net.cls.predictions.bias[number] = 5.0
    return model


@pytest.fixture(scope="module")
def fond_of_are(tmp_path_factory: pytest.TempPathFactory) -> HuggingFace:
    return fond_of(["are"], tmp_path_factory.mktemp("are"))


def row(good: str, bad: str, uid: str, **more: str) -> str:
    """A row as BLiMP's files have it, but for what `more` says otherwise."""
    own: dict[str, Any] = {
        "sentence_good": good,
        "sentence_bad": bad,
        "field": "morphology",
        "linguistics_term": "subject_verb_agreement",
        "UID": uid,
        "simple_LM_method": True,
        "one_prefix_method": False,
        "two_prefix_method": True,
        "lexically_identical": False,
        "pairID": "7",
    }
    return json.dumps(own | more) + "\n"


@pytest.fixture
def blimp(tmp_path: Path) -> Path:
    """One file, with labels for the paradigm only."""
    rows = [
        ("The dogs are old.", "The dogs is old.", "plural"),
        ("The cats are old.", "The cats is old.", "plural"),
        ("The dog is old.", "The dog are old.", "singular"),
    ]
    path = tmp_path / "blimp.jsonl"
    path.write_text(
        "".join(
            json.dumps({"sentence_good": good, "sentence_bad": bad, "UID": about}) + "\n"
            for good, bad, about in rows
        )
    )
    return path


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A folder of three paradigms, two phenomena and two fields, with an identical pair."""
    folder = tmp_path / "data"
    folder.mkdir()
    reflexive = {"field": "syntax", "linguistics_term": "binding"}
    files = {
        "regular_plural_agreement_1": [
            row(f"The {noun} are old.", f"The {noun} is old.", "regular_plural_agreement_1")
            for noun in NOUNS
        ],
        "irregular_agreement": [
            row(f"The {noun} were old.", f"The {noun} was old.", "irregular_agreement")
            for noun in NOUNS[:4]
        ],
        "principle_A": [
            row("She saw herself.", "She saw himself.", "principle_A", **reflexive),
            row("She saw herself.", "She saw herself.", "principle_A", **reflexive),
        ],
    }
    for name, lines in files.items():
        (folder / f"{name}.jsonl").write_text("".join(lines))
    return folder


def ran(model: Model, corpus: Corpus, **settings: Any) -> Result:
    return MINIMAL_PAIRS.run(Inputs((model,), (corpus,)), MinimalPairs(**settings), Quiet())


def caveats_of(result: Result) -> str:
    return " ".join(caveat.text for caveat in result.caveats)


def scoring(result: Result) -> dict[str, str]:
    table = result.tables["scoring"]
    return dict(zip(table["fact"], table["value"], strict=True))


def test_the_registry_has_it() -> None:
    assert experiments()["minimal-pairs"] is MINIMAL_PAIRS


def test_blimps_rows_are_pairs_whatever_the_options(blimp: Path) -> None:
    plain = read(blimp)
    named = read(blimp, text=["sentence_good", "sentence_bad"], labels=["UID"])
    for corpus in (plain, named):
        pairs = list(minimal_pairs(corpus))
        assert [(p.good.text, p.bad.text, p.phenomenon) for p in pairs][2] == (
            "The dog is old.",
            "The dog are old.",
            "singular",
        )


def test_blimps_folder_is_one_corpus_with_phenomena_fields_and_paradigms(
    whole: Path, fond_of_are: HuggingFace
) -> None:
    found = ran(fond_of_are, read(whole))
    pairs, fields, paradigms = (
        found.tables[name].set_index(key)
        for name, key in (("pairs", "phenomenon"), ("fields", "field"), ("paradigms", "paradigm"))
    )
    assert pairs["n"].to_dict() == {"binding": 1, "subject_verb_agreement": 12, "all": 13}
    assert fields["n"].to_dict() == {"morphology": 12, "syntax": 1}
    assert paradigms["n"].to_dict() == {
        "irregular_agreement": 4, "principle_A": 1, "regular_plural_agreement_1": 8,
    }  # fmt: skip
    assert paradigms.loc["regular_plural_agreement_1", "accuracy"] == 1
    assert scoring(found)["identical"] == "1" and scoring(found)["pairs"] == "13"
    assert "1 pair of identical sentences is left out" in caveats_of(found)
    drawn = {name: draw(found.tables) for name, draw in MINIMAL_PAIRS.drawings().items()}
    assert set(drawn) == {"accuracy", "fields", "paradigms"}
    *points, baseline = drawn["fields"].data
    assert [point.name for point in points] == ["model, not significant"]
    assert sorted(baseline.y) == ["morphology", "syntax"] and min(baseline.x) >= 0.5


def test_a_model_fond_of_a_word_prefers_the_sentences_that_have_it(
    fond_of_are: HuggingFace, blimp: Path
) -> None:
    found = ran(fond_of_are, read(blimp)).tables
    pairs = found["pairs"].set_index("phenomenon")
    assert pairs["accuracy"].to_dict() == {"plural": 1, "singular": 0, "all": pytest.approx(2 / 3)}
    assert pairs["n"].to_dict() == {"plural": 2, "singular": 1, "all": 3}
    assert (pairs["lower"] <= pairs["accuracy"]).all()
    assert pairs.loc["plural", "gap"] > 1 > -1 > pairs.loc["singular", "gap"]
    assert "paradigms" not in found and "fields" not in found, "they would say the same"


def test_a_preference_for_a_word_is_not_knowledge(tmp_path: Path) -> None:
    """Every one of 40 pairs is right, for the model likes `are`; that is one preference."""
    rows = [row(f"The {n} are old {m}.", f"The {n} is old {m}.", "u")
            for n, m in itertools.product(NOUNS, NOUNS[:5])]  # fmt: skip
    (tmp_path / "b.jsonl").write_text("".join(rows))
    found = ran(fond_of(["are"], tmp_path), read(tmp_path / "b.jsonl"))
    (only,) = found.tables["pairs"].to_dict("records")
    assert (only["accuracy"], only["exchanges"], only["n"]) == (1, 1, 40)
    assert only["lower"] > 0.9 and only["p"] == 0.5 and not only["above_chance"]
    assert "Too few different words" in caveats_of(found)


def test_right_about_many_exchanges_is_above_chance(tmp_path: Path) -> None:
    """Ten words that the model is fond of, each in the place of another."""
    letters = [chr(ord("a") + place) for place in range(20)]
    rows = [row(f"The {good} man.", f"The {bad} man.", "u")
            for good, bad in zip(letters[:10], letters[10:], strict=True)]  # fmt: skip
    (tmp_path / "b.jsonl").write_text("".join(rows))
    found = ran(fond_of(letters[:10], tmp_path), read(tmp_path / "b.jsonl"))
    (only,) = found.tables["pairs"].to_dict("records")
    assert only["exchanges"] == 10 and only["p"] == pytest.approx(2**-10) and only["above_chance"]


def test_fewer_pieces_are_no_knowledge_either(tmp_path: Path) -> None:
    """A model to which all pieces are alike is right wherever the wrong sentence is longer."""
    words = ["Larger", "doctors", "mountains", "qualified", "neighbours", "photograph", "hidden"]
    rows = [row("The man is old.", f"The man is {word} old.", "u") for word in words]
    (tmp_path / "b.jsonl").write_text("".join(rows))
    found = ran(fond_of([], tmp_path), read(tmp_path / "b.jsonl"))
    (only,) = found.tables["pairs"].to_dict("records")
    assert only["accuracy"] == 1 == only["fewer_pieces"] and only["exchanges"] == 7
    assert only["p"] == 1 and not only["above_chance"]


def test_elmo_finds_likely_what_both_directions_do(blimp: Path, tmp_path: Path) -> None:
    words = "The dogs dog cats are old .".split()  # not: is
    net = bilms.saved(tmp_path / "elmo", words)
    with torch.no_grad():
        net.weight.zero_()
        net.bias.zero_()
        net.bias[net.words.words.index("are")] = 5.0
    net.save(tmp_path / "elmo")
    model = load(tmp_path / "elmo", "cpu")
    found = ran(model, read(blimp))
    pairs = found.tables["pairs"].set_index("phenomenon")
    assert pairs["accuracy"].to_dict() == {"plural": 1, "singular": 0, "all": pytest.approx(2 / 3)}
    # -log p of `are` is 5 less than that of `<UNK>`, in either direction
    assert pairs["gap"].to_dict() == pytest.approx({"plural": 5, "singular": -5, "all": 5 / 3})
    assert "log-likelihood of both directions" in caveats_of(found) and "<UNK>" in caveats_of(found)
    assert "3 of 30 words (10.0 %) are not in the model's vocabulary" in caveats_of(found)
    assert not unmet_requirements(MINIMAL_PAIRS, MinimalPairs(), [facts(model)])
    (first, *_) = minimal_pairs(read(blimp))
    nats = score(model, encode([first.good, first.bad])).nats
    assert nats[1] - nats[0] == pytest.approx(5)


def test_primers_twins_are_pairs_and_the_right_one_is_first() -> None:
    pairs = list(minimal_pairs(read("primer/acceptability").docs("test", 40)))
    assert len(pairs) == 20
    assert {pair.good._.labels["acceptability"] for pair in pairs} == {"acceptable"}
    assert {pair.bad._.labels["acceptability"] for pair in pairs} == {"unacceptable"}
    assert {"agreement", "reflexive"} <= {pair.phenomenon for pair in pairs}


def test_a_corpus_without_pairs_is_an_error() -> None:
    with pytest.raises(WorkbenchError, match="no minimal pairs"):
        list(minimal_pairs(read("primer").docs("test", 5)))


def test_a_model_without_a_head_does_not_fit(tmp_path: Path) -> None:
    body = facts(headed.opened(zoo.make("bert", tmp_path)))
    (reason,) = unmet_requirements(MINIMAL_PAIRS, MinimalPairs(), [body])
    assert "language-model head" in str(reason)


# --- how sentences are scored -------------------------------------------------------------------


def test_the_scheme_is_named_and_changes_words_of_several_pieces(
    blimp: Path, tmp_path: Path
) -> None:
    model = headed.opened(
        headed.saved(zoo.make("bert", tmp_path / "b"), "BertForMaskedLM", tmp_path)
    )
    corpus = read(blimp)
    found = {
        scheme: ran(model, corpus, pseudo_likelihood=scheme)
        for scheme in ("within-word", "original")
    }
    default = ran(model, corpus)
    assert default.tables["pairs"].equals(found["within-word"].tables["pairs"])
    for scheme, result in found.items():
        assert scoring(result)["score"] == f"pseudo-likelihood, {scheme}"
        assert f"pseudo-likelihood, {scheme}" in caveats_of(result)
    gaps = [result.tables["pairs"]["gap"].to_numpy() for result in found.values()]
    assert np.abs(gaps[0] - gaps[1]).max() > 1e-3


def gpt2_fond_of(behind: float, folder: Path) -> HuggingFace:
    """A GPT-2 that predicts what is behind its start token so much better, or worse."""
    body = zoo.make("gpt2", folder / "body")
    model = headed.opened(headed.saved(body, "GPT2LMHeadModel", folder / "headed"))
    start = model.tokenizer.bos_token_id
    ran_plain = model.forward

    def forward(text: Any, **rest: Any) -> Any:
        output = ran_plain(text, **rest)
        wanted = rest["logits"]
        if (text.ids[:, 0] == start).all() and output.logits is not None:
            gold = text.ids[:, 1:][wanted[:, :-1]]
            output.logits[torch.arange(len(gold)), gold] += behind
        return output

    model.forward = forward  # type: ignore[method-assign]
    return model


def test_a_causal_model_is_scored_from_the_start_token_it_knows(
    blimp: Path, tmp_path: Path
) -> None:
    knows = ran(gpt2_fond_of(3.0, tmp_path / "knows"), read(blimp))
    assert scoring(knows)["start"] == "<|endoftext|>"
    assert scoring(knows)["unscored_first_pieces"] == "0"
    assert "after the start token <|endoftext|>" in caveats_of(knows)
    other = gpt2_fond_of(-3.0, tmp_path / "other")
    for result in (ran(other, read(blimp)), ran(other, read(blimp), start_token="no")):
        assert scoring(result)["start"] == "none"
        assert scoring(result)["unscored_first_pieces"] == "6"
        assert "It is not scored in any sentence" in caveats_of(result)


def test_behind_a_start_token_the_first_piece_is_scored_and_is_transformers_own(
    tmp_path: Path,
) -> None:
    body = zoo.make("gpt2", tmp_path / "body")
    model = headed.opened(headed.saved(body, "GPT2LMHeadModel", tmp_path / "headed"))
    batch = encode(read("primer").docs("test", 3))
    start = model.tokenizer.bos_token_id
    found = score(model, batch, start_token=start)
    for document in range(3):
        own = model.tokenizer(batch.text_of(document))["input_ids"]
        ids = torch.tensor([[start, *own]])
        with torch.no_grad():
            nats = model.net(ids, labels=ids).loss.item() * len(own)
        assert found.nats[document] == pytest.approx(nats, rel=1e-5)
        assert found.pieces[document] == len(own) and found.bare[document] == 0


def test_a_start_token_takes_one_of_the_pieces_a_model_can_read(tmp_path: Path) -> None:
    body = zoo.make("gpt2", tmp_path / "body", n_positions=8)
    model = headed.opened(headed.saved(body, "GPT2LMHeadModel", tmp_path / "headed"))
    batch = encode(read("primer").docs("test", 20))
    plain, begun = score(model, batch), score(model, batch, start_token=0)
    assert plain.pieces.max() == 7 == begun.pieces.max()
    assert begun.cut.sum() >= plain.cut.sum()


def test_words_foreign_to_the_vocabulary_are_counted(tmp_path: Path) -> None:
    rows = [row("The dogs are Ωμ old.", "The dogs is Ωμ old.", "u"),
            row("The Ω are old.", "The μ are old.", "u")]  # fmt: skip
    (tmp_path / "b.jsonl").write_text("".join(rows))
    found = ran(fond_of(["are"], tmp_path), read(tmp_path / "b.jsonl"))
    facts_of_scoring = scoring(found)
    assert (facts_of_scoring["words"], facts_of_scoring["unknown"], facts_of_scoring["alike"]) == (
        "22",
        "4",
        "1",
    )
    assert "4 of 22 words (18.2 %) are not in the model's vocabulary" in caveats_of(found)
    assert "1 of 2 pairs have two sentences with the same pieces" in caveats_of(found)
    long = [row("The nevertheless mountains.", "The nevertheless message.", "u")]
    (tmp_path / "c.jsonl").write_text("".join(long))
    cased = headed.saved(zoo.make("roberta", tmp_path / "r"), "RobertaForMaskedLM", tmp_path / "h")
    many = ran(headed.opened(cased), read(tmp_path / "c.jsonl"))
    assert int(scoring(many)["many"]) >= 1 and "or more pieces" in caveats_of(many)


# --- the test -----------------------------------------------------------------------------------


def test_exchanges_are_named_by_the_words_that_differ(tmp_path: Path) -> None:
    rows = [
        ("The dogs are old.", "The dogs is old."),
        ("The cat is here.", "The cat are here."),
        ("I saw the man.", "I saw man the."),
        ("I saw the boat.", "I saw boat the."),
        ("He runs.", "Him runs."),
        ("A dog.", "A dog barks."),
    ]
    (tmp_path / "b.jsonl").write_text("".join(row(good, bad, "u") for good, bad in rows))
    assert exchanges(list(minimal_pairs(read(tmp_path / "b.jsonl")))) == [
        "are / is", "are / is", "order of the", "order of the", "he / him", " / barks",
    ]  # fmt: skip


def test_flips_are_exact_for_few_and_drawn_for_many() -> None:
    sums = np.array([3.0, 2.0, 1.0, 0.5])
    by_hand = [np.dot(signs, sums) >= 4.5 for signs in itertools.product((1, -1), repeat=4)]
    assert sign_flip_p_value(np.array([3.0, 2.0, -1.0, 0.5]), 0) == np.mean(by_hand)
    assert sign_flip_p_value(np.ones(10), 0) == 2**-10
    assert sign_flip_p_value(np.ones(40), 0) == 1e-4
    assert 0.4 < sign_flip_p_value(np.tile([1.0, -1.0], 20), 0) < 0.65
    draw = np.random.default_rng(3)
    p = [sign_flip_p_value(draw.choice((-0.5, 0.5), 30), seed) for seed in range(100)]
    assert np.mean(np.array(p) < 0.05) < 0.09, "of no knowledge, one in twenty is under 0.05"


def test_holms_correction_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert len(holm([])) == 0


# --- XLNet ----------------------------------------------------------------------------------------


def test_xlnet_is_scored_over_orders(tmp_path: Path) -> None:
    """Gaps are means of four orders, each scored alone; other models refuse it."""
    body = zoo.make("xlnet", tmp_path / "body")
    model = headed.opened(headed.saved(body, "XLNetLMHeadModel", tmp_path / "headed"))
    corpus = read("primer/acceptability:size=100")
    pairs = [p for p in minimal_pairs(corpus.docs("test", 4)) if not p.identical]
    settings = MinimalPairs(pseudo_likelihood="permuted")
    inputs = Inputs((model,), (corpus,), "test", limit=4, seed=2)
    tables = MINIMAL_PAIRS.run(inputs, settings, Quiet()).tables
    gaps = []
    for order in range(4):
        right, wrong = (
            score(model, encode(docs), pseudo="permuted", seed=2 + order).nats
            for docs in ([p.good for p in pairs], [p.bad for p in pairs])
        )
        gaps.append(wrong - right)
    table = tables["pairs"]
    mean = float((table["gap"] * table["n"]).sum() / table["n"].sum())
    if "all" in set(table["phenomenon"]):
        mean = float(table.set_index("phenomenon")["gap"]["all"])
    assert mean == pytest.approx(float(np.mean(gaps)), rel=1e-5)
    facts_ = tables["scoring"].set_index("fact")["value"]
    assert facts_["orders"] == "4"
    accuracy = float((np.array(gaps) > 0).mean())
    assert facts_["accuracy of an order"].startswith(f"{accuracy:.4f} (")
    causal = MINIMAL_PAIRS.run(  # of which likelihoods are known, so there are no orders
        Inputs((shared("mini:gpt"),), (corpus,), "test", limit=2), settings, Quiet()
    )
    assert "orders" not in set(causal.tables["scoring"]["fact"])
    assert not any("order" in caveat.text for caveat in causal.caveats)
    with pytest.raises(WorkbenchError, match="only XLNet"):
        bert = (fond_of(["are"], tmp_path),)
        MINIMAL_PAIRS.run(Inputs(bert, (corpus,), "test", limit=2), settings, Quiet())


def test_pairs_after_many_other_sentences_fit_and_a_corpus_without_any_does_not() -> None:
    """As a check before the run, which reads on until it knows."""
    alone = list(itertools.islice(read("primer").docs("train"), 1_200))
    pairs = list(itertools.islice(read("primer/acceptability").docs(), 8))
    fits(Corpus("late", {"test": lambda: [*alone, *pairs]}), MinimalPairs())
    with pytest.raises(WorkbenchError, match="no minimal pairs"):
        fits(Corpus("none", {"test": lambda: alone}), MinimalPairs())
