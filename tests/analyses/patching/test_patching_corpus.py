"""The experiment `patching`: a planted circuit is found and nothing else, and what is known of all.

The planted GPT-2 predicts what followed the last word before: "A b c A" is followed by b. Its head
`induction` of the second layer copies it; the states of b hold it until then.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from spacy.tokens import Doc

import workbench as wb
from tests.judges.odd import run_here
from tests.minis import shared
from tests.night import mostly
from tests.planted.look import BUILDERS, eager
from workbench import Corpus, Result, WorkbenchError
from workbench.analyses.patching.patching_corpus import aligned
from workbench.corpora.counterfactuals import counterfactual_pairs
from workbench.corpora.layers import Mention, set_spans, vocabulary
from workbench.models.huggingface import HuggingFace

Words = Sequence[str]
VOCABULARY = vocabulary("en")
PRIMER = "primer/counterfactuals:size=2000"  # 200 pairs to choose from


def pair(clean: Words, corrupt: Words, place: int, phenomenon: str = "all") -> Doc:
    doc = Doc(VOCABULARY, [*clean, *corrupt])
    both = Mention(0, len(clean), "1"), Mention(len(clean), len(doc), "2")
    set_spans(doc, "segments", both)
    places = (place, "target"), (len(clean) + place, "against")
    set_spans(doc, "predicted", [Mention(at, at + 1, label) for at, label in places])
    doc._.labels = {"phenomenon": phenomenon}
    return doc


def corpus(docs: list[Doc]) -> Corpus:
    return Corpus("pairs", {"test": lambda: iter(docs)})


@cache
def mini(name: str) -> Any:
    return shared(name)


def patching(model: Any, docs: list[Doc] | None = None, **settings: Any) -> Result:
    pairs = wb.read(PRIMER) if docs is None else corpus(docs)
    return run_here("patching", model, pairs, **settings)


def findings(result: Result) -> dict[str, Any]:
    found = wb.experiments()["patching"].findings_of(result.tables)
    return {each.measure: each for each in found}


# --- a planted circuit ----------------------------------------------------------------------------


@cache
def induction() -> HuggingFace:
    built = eager(BUILDERS["gpt2"]())
    return HuggingFace(built.model, built.tokenizer, "induction")


def repeats(n: int, flipped: bool = False) -> list[Doc]:
    """A b c A, to be followed by b; in the corrupt text d stands for b. Half may be exchanged."""
    words = [word for word in induction().tokenizer.get_vocab() if word[1:].isalpha()]
    words = sorted(word[1:] for word in words if word[0] == "Ġ" and len(word) > 3)
    random = np.random.default_rng(0)
    docs = []
    for index in range(n):
        a, b, c, d = random.choice(words, 4, replace=False).tolist()
        answers = (d, b) if flipped and index % 2 else (b, d)
        docs.append(pair([a, b, c, a, answers[0]], [a, d, c, a, answers[1]], 4))
    return docs


def test_a_planted_circuit_is_found_and_nothing_else() -> None:
    result = patching(induction(), repeats(12))
    states = result.tables["states"].set_index(["place", "layer"])
    expected = {("changed", 0), ("changed", 1), ("predicted", 2)}  # until the head has read it
    assert set(states.index[states["restores"]]) == expected
    for key, effect in states["effect"].items():
        assert effect == pytest.approx(float(key in expected), abs=1e-4), key
    heads = result.tables["heads"].set_index(["layer", "head"])
    assert list(heads.index[heads["restores"]]) == [(1, 1)]
    assert heads.loc[(1, 1), "effect"] == pytest.approx(1, abs=1e-4)
    assert heads["effect"].drop((1, 1)).abs().max() < 1e-4
    assert not result.tables["mlps"]["restores"].any()
    # another word in the place of the wrong one only removes the wrong answer
    assert states.loc[("changed", 0), "random"] == pytest.approx(0.5, abs=0.1)
    claims = [each.claim for each in findings(result).values()]
    assert any("exchanged words carry what decides up to layer 1 of 2" in claim for claim in claims)
    assert any("from layer 2 of 2 on" in claim for claim in claims)
    assert any("1 of 8 heads restores part" in claim for claim in claims)
    assert any("Head 2.2 restores most: 100 %" in claim for claim in claims)


def test_pairs_with_exchanged_answers_have_effects_around_zero() -> None:
    """Half of the pairs are random: their target is the word of the other text."""
    result = patching(induction(), repeats(16, flipped=True), random_pairs=1)
    row = result.tables["pairs"].iloc[-1]
    assert (row["n"], row["distinguished"]) == (16, 8) and not row["significant"]
    for what in ("states", "heads", "mlps"):
        assert not result.tables[what]["restores"].any()
    right = patching(induction(), repeats(2), restore=("mlps",)).tables["pairs"].iloc[-1]
    changed = result.tables["states"].query("place == 'changed' and layer == 0")["nats"].item()
    assert abs(changed) < 0.2 * right["difference"]
    assert not any(each.verdict == "supported" for each in findings(result).values())


def test_with_few_exchanges_nothing_is_decided() -> None:
    few = patching(induction(), repeats(4))
    assert {each.verdict for each in findings(few).values()} == {"undecided"}
    assert any("nothing can be significant" in caveat.text for caveat in few.caveats)


# --- what is known of every model -----------------------------------------------------------------


@pytest.mark.parametrize("name", mostly(("mini:bert", "mini:gpt", "mini:elmo"), "mini:bert"))
def test_the_words_before_all_layers_and_the_place_after_them_restore_everything(name: str) -> None:
    result = patching(mini(name), max_pairs=8, restore=("states",), random_pairs=1)
    table = result.tables["states"].set_index(["place", "layer"])
    last = table.index.get_level_values("layer").max()
    assert table.loc[("changed", 0), "effect"] == pytest.approx(1, abs=1e-4)
    assert table.loc[("predicted", last), "effect"] == pytest.approx(1, abs=1e-4)
    others = table[table.index.get_level_values("place").isin(["between", "other", "special"])]
    at_ends = others[others.index.get_level_values("layer").isin([0, last])]
    assert at_ends["effect"].abs().max() < 1e-4


def test_the_decoder_restores_everything_and_the_encoder_its_words() -> None:
    result = patching(mini("mini:t5"), max_pairs=5, restore=("states",), random_pairs=1)
    table = result.tables["states"].set_index(["stack", "place", "layer"])["effect"]
    assert table["encoder", "changed", 0] == pytest.approx(1, abs=1e-4)
    assert table["decoder", "predicted", 2] == pytest.approx(1, abs=1e-4)
    assert table["decoder", "predicted", 0] == 0  # it reads the same in both texts


def test_a_recurrent_model_has_states_only() -> None:
    result = patching(mini("mini:elmo"), max_pairs=3, random_pairs=1)
    assert set(result.tables) == {"pairs", "states", "objective"}
    assert any("No heads are restored" in caveat.text for caveat in result.caveats)
    with pytest.raises(WorkbenchError, match="recurrent"):
        patching(mini("mini:elmo"), restore=("heads",), max_pairs=3)


# --- pairs as a model reads them ------------------------------------------------------------------


def test_places_of_a_masked_model() -> None:
    doc = pair("The old girls near the dogs were red .".split(),
               "The old girl near the dogs was red .".split(), 6)  # fmt: skip
    ((one,), _) = counterfactual_pairs([doc])
    found = aligned(mini("mini:bert"), one)
    assert not isinstance(found, str)
    texts = mini("mini:bert").piece_texts(found.clean.text.ids[0].tolist())
    named = {place: [texts[n] for n in pieces] for place, pieces in found.places["encoder"].items()}
    assert named == {
        "changed": ["girls"],
        "between": ["near", "the"],
        "previous": ["dogs"],
        "predicted": ["[MASK]"],
        "other": ["The", "old", "red", "."],
        "special": ["[CLS]", "[SEP]"],
    }


def test_places_of_a_decoder_and_of_a_word_after_the_predicted_one() -> None:
    docs = [
        pair("The girls near the dogs were".split(), "The girl near the dogs was".split(), 5),
        pair("It was a girl .".split(), "They were a girl .".split(), 1),
        pair("It was a girl .".split(), "They were a girl .".split(), 0),
    ]
    pairs, _ = counterfactual_pairs(docs)
    gpt, bert = mini("mini:gpt"), mini("mini:bert")
    found = aligned(gpt, pairs[0])
    assert not isinstance(found, str)
    assert found.places["decoder"] == {
        "changed": (1,), "between": (2, 3), "predicted": (4,), "other": (0,),
    }  # fmt: skip
    beside = aligned(gpt, pairs[1])  # the exchanged word predicts
    assert not isinstance(beside, str)
    assert beside.places["decoder"] == {"changed": (0,), "predicted": (0,)}
    assert "nothing is before it" in str(aligned(gpt, pairs[2]))
    before = aligned(bert, pairs[2])
    assert not isinstance(before, str) and before.places["encoder"]["changed"] == (2,)


def test_texts_of_as_many_pieces_are_not_aligned_if_their_words_differ_in_pieces() -> None:
    """ "here" has two pieces: hidden in one text and read in the other, all others are shifted."""
    doc = pair("The here dog red .".split(), "The red dog here .".split(), 3)
    ((one,), _) = counterfactual_pairs([doc])
    assert "different numbers of pieces" in str(aligned(mini("mini:bert"), one))
    assert "same place" in str(aligned(mini("mini:bert"), one._replace(corrupt_word=2)))


def test_pairs_that_a_model_cannot_use_are_left_out_and_counted() -> None:
    docs = [
        pair("Ben walks here today".split(), "Ben walked here today".split(), 3),
        pair("Ben sees here".split(), "Ben sees there".split(), 2),
    ]
    result = patching(mini("mini:gpt"), [*docs, *_primer(8)], restore=("states",))
    texts = " ".join(caveat.text for caveat in result.caveats)
    assert "1 pair left out: the model reads the same in both texts" in texts
    table = result.tables["pairs"].set_index("phenomenon")
    assert table.loc["all", ["n", "left_out"]].sum() == 10
    assert table.loc["(none)", ["n", "left_out"]].tolist() == [1, 1]


def _primer(number: int) -> Any:
    return wb.read(PRIMER).docs("test", number)


def test_a_shared_word_of_a_minimal_pair_is_measured_by_its_log_probability() -> None:
    docs = [
        pair(f"The {one} {noun} .".split(), f"The {other} {noun} .".split(), 2)
        for one, other, noun in (
            ("old", "ten", "house"), ("old", "two", "dog"), ("red", "two", "hat"),
        )
    ]  # fmt: skip
    result = patching(mini("mini:bert"), docs, restore=("states",))
    row = result.tables["pairs"].iloc[0]
    assert row["clean"] < 0 and row["difference"] > 0 and np.isnan(row["clean_prefers"])
    assert any("log-probability" in caveat.text for caveat in result.caveats)


def test_chosen_phenomena_only_and_a_wrong_name_has_a_suggestion() -> None:
    result = patching(
        mini("mini:gpt"), phenomena=("selection",), max_pairs=4, restore=("mlps",), random_pairs=1
    )
    assert list(result.tables["pairs"]["phenomenon"]) == ["selection", "all"]
    with pytest.raises(WorkbenchError, match="Did you mean 'selection'"):
        patching(mini("mini:gpt"), phenomena=("selectoin",))


def test_the_same_seed_gives_the_same_tables_and_another_seed_other_pairs() -> None:
    settings = {"max_pairs": 5, "restore": ("mlps",), "max_sentences": 60}
    pairs = wb.read(PRIMER)
    one, again, other = (
        run_here("patching", mini("mini:gpt"), pairs, seed=seed, **settings).tables["mlps"]
        for seed in (0, 0, 1)
    )
    pd.testing.assert_frame_equal(one, again)
    assert not one["effect"].equals(other["effect"])


@pytest.mark.slow  # by day `test_pairs_with_exchanged_answers_have_effects_around_zero`
def test_a_random_twin_is_not_said_to_carry_anything() -> None:
    """More twins are in `tests/judges/twins_patching.py`."""
    twin = mini("mini:gpt").reinitialised(3)
    found = findings(patching(twin, max_pairs=15, random_pairs=1, restore=("states", "mlps")))
    assert not any(each.verdict == "supported" for each in found.values())
