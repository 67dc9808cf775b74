"""How tokenizers split a text: pieces put together give it again, and steps end in the pieces."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tokenizers import Tokenizer, models
from transformers import TokenizersBackend

import workbench as wb
from tests.minis import shared
from tests.models.bag_of_embeddings import BagOfEmbeddings
from tests.models.texts import SOME_OF_EACH, anything
from tests.models.vocabularies import KINDS, tokenizer
from tests.night import mostly
from workbench.analyses.words.tokenizations import put_together, restored
from workbench.models.segmentation import Segmenter
from workbench.models.tokenization import without_surrogates

NO_WORDS = np.zeros((0, 2), dtype=np.int64)
MINIS = ("mini:bert", "mini:gpt", "mini:t5", "mini:elmo")
ODD = {
    "plain": "The old man hadn't walked.",
    "accents": "Zoë's café in İstanbul, naïve",
    "combining": "E\u0301cole na\u0308ive",
    "spaces": "  two  spaces\u00a0and\u3000wide ",
    "lines": "one\ntwo\r\n\tthree\n\n",
    "emoji": "😀👍🏽 ok 👩‍👩‍👧 fine",
    "right to left": "שלום עולם, مرحبا",
    "code": "def f(x):\n    return x[1:] + '##a'  # ▁Ġ</w>",
    "ligatures": "ﬁne ½ Å ①",
    "scripts": "日本語 text ไทย",
    "long": "x" * 150,
    "special": "a <unk> [MASK]b <mask> </s> <|endoftext|>",
    "control": "\u200b\u00ad\x00z\ufeff",
    "empty": "",
    "white": " \n ",
    "upper": "Larger and LARGER",
}
LOSSLESS = ("gpt2", "roberta", "roberta-untrimmed", "llama")  # of ordinary text, to the character


@pytest.fixture(scope="module")
def segmenters() -> dict[str, Segmenter]:
    return {kind: Segmenter(tokenizer(kind)) for kind in KINDS}


def decoded(segmenter: Segmenter, text: str) -> str:
    """What the tokenizer's own decoder makes of its pieces."""
    words = segmenter.tokenizer
    ids = words(text, add_special_tokens=False)["input_ids"]
    return str(words.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_put_together_give_the_text_but_for_the_losses_that_are_named(
    kind: str, segmenters: dict[str, Segmenter]
) -> None:
    for text in ODD.values():
        segmented = segmenters[kind].segmented(text, NO_WORDS)
        joined, losses = put_together(text, segmented)
        assert restored(joined, losses) == text
        for loss in losses:
            assert text[loss.first : loss.last] == loss.characters != loss.becomes
        assert (joined == text) == (not losses)
        covered = {place for loss in losses for place in range(loss.first, loss.last)}
        kept = "".join(c for place, c in enumerate(text) if place not in covered)
        assert set(kept) <= set(joined)


@pytest.mark.parametrize("kind", KINDS)
def test_what_pieces_say_is_what_the_tokenizers_own_decoder_says(
    kind: str, segmenters: dict[str, Segmenter]
) -> None:
    """Up to white space, where a decoder has rules of its own, and unknown pieces."""
    for name in ("plain", "accents", "spaces", "lines", "upper"):
        segmented = segmenters[kind].segmented(ODD[name], NO_WORDS)
        if not any(piece.unknown for piece in segmented.pieces):
            joined, _ = put_together(ODD[name], segmented)
            own = decoded(segmenters[kind], ODD[name])
            assert "".join(joined.split()) == "".join(own.split())


@pytest.mark.parametrize("kind", LOSSLESS)
def test_lossless_tokenizers_lose_nothing(kind: str, segmenters: dict[str, Segmenter]) -> None:
    for name in ("plain", "accents", "combining", "lines", "emoji", "right to left", "scripts"):
        joined, losses = put_together(ODD[name], segmenters[kind].segmented(ODD[name], NO_WORDS))
        assert joined == ODD[name] and not losses


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_step_is_what_the_tokenizer_returns(
    kind: str, segmenters: dict[str, Segmenter]
) -> None:
    for text in ODD.values():
        segmenter = segmenters[kind]
        own = segmenter.tokenizer(text, add_special_tokens=False)["input_ids"]
        assert [id_ for part in segmenter.steps(text) for id_ in part.ids] == own
        pieces = [
            piece for piece in segmenter.segmented(text, NO_WORDS).pieces if not piece.special
        ]
        assert [piece.id for piece in pieces] == own


@SOME_OF_EACH
@given(anything.map(without_surrogates))
def test_any_text_is_given_again_and_followed(segmenters: dict[str, Segmenter], text: str) -> None:
    for segmenter in segmenters.values():
        assert restored(*put_together(text, segmenter.segmented(text, NO_WORDS))) == text
        segmenter.steps(text)  # raises where its end is not what the tokenizer returns


def test_losses_name_the_characters(segmenters: dict[str, Segmenter]) -> None:
    def losses(kind: str, text: str) -> list[tuple[str, str, str]]:
        _, found = put_together(text, segmenters[kind].segmented(text, NO_WORDS))
        return [(loss.kind, loss.characters, loss.becomes) for loss in found]

    assert losses("bert-uncased", "The café") == [("case", "T", "t"), ("normalised", "é", "e")]
    assert losses("bert-cased", "The 😀") == [("unknown", "😀", "")]
    assert losses("bert-cased", "the\tman") == [("white space", "\t", " ")]
    assert losses("t5", "the  ☃ man") == [("white space", " ", ""), ("unknown", "☃", "")]
    assert losses("llama", "a▁b") == [("normalised", "▁", " ")]
    assert losses("bert-uncased", "e\u0301") == [("dropped", "\u0301", "")]


# --- algorithms by hand ---------------------------------------------------------------------------


def of(model: Any) -> Segmenter:
    return Segmenter(TokenizersBackend(tokenizer_object=Tokenizer(model), unk_token="<unk>"))


def test_merges_are_those_that_were_learnt_first() -> None:
    vocabulary = ["<unk>", "a", "b", "c", "ab", "bc", "abc", "abab"]
    merges = [("b", "c"), ("a", "b"), ("ab", "ab"), ("a", "bc")]
    bpe = models.BPE(
        vocab={piece: n for n, piece in enumerate(vocabulary)}, merges=merges, unk_token="<unk>"
    )
    (part,) = of(bpe).steps("ababc")
    assert [step.pieces for step in part.steps] == [
        ("a", "b", "a", "b", "c"), ("a", "b", "a", "bc"), ("ab", "a", "bc"), ("ab", "abc"),
    ]  # fmt: skip
    assert [step.rank for step in part.steps] == [None, 1, 2, 4]
    assert part.steps[3].parts == ("a", "bc") and part.steps[3].made == "abc"
    assert of(bpe).steps("axa")[0].pieces == ("a", "<unk>", "a")


def test_longest_matches_say_what_was_tried() -> None:
    vocabulary = ["<unk>", "un", "##a", "##ab", "##le"]
    piece = models.WordPiece(
        vocab={each: n for n, each in enumerate(vocabulary)}, unk_token="<unk>"
    )
    (part,) = of(piece).steps("unable")
    assert [step.pieces for step in part.steps] == [
        ("un",), ("un", "##ab"), ("un", "##ab", "##le"),
    ]  # fmt: skip
    assert part.steps[0].parts == ("unable", "unabl", "unab", "una")
    assert [step.rest for step in part.steps] == ["able", "le", ""]
    (lost,) = of(piece).steps("unx")
    assert lost.pieces == ("<unk>",) and lost.steps[-1].parts == ("##x",)


def test_the_best_segmentations_are_those_of_trying_all() -> None:
    scores = {"a": -1.0, "b": -1.5, "ab": -2.2, "ba": -2.0, "aba": -3.1, "bb": -4.0}
    unigram = models.Unigram([("<unk>", 0.0), *scores.items()], unk_id=0)
    text = "abababb"
    ways = []
    for cuts in itertools.product([False, True], repeat=len(text) - 1):
        ends = [0, *(n + 1 for n, cut in enumerate(cuts) if cut), len(text)]
        pieces = tuple(text[a:b] for a, b in itertools.pairwise(ends))
        if all(piece in scores for piece in pieces):
            ways.append((sum(scores[piece] for piece in pieces), pieces))
    ways.sort(reverse=True)
    (part,) = of(unigram).steps(text)
    assert [round(step.score or 0, 9) for step in part.steps] == [
        round(score, 9) for score, _ in ways[:5]
    ]
    assert part.steps[0].pieces == ways[0][1] == part.pieces
    assert part.steps[0].scores == tuple(scores[piece] for piece in ways[0][1])
    (strange,) = of(unigram).steps("a☃☃b")
    assert strange.pieces == ("a", "<unk>", "b")
    assert strange.steps[0].scores[1] == pytest.approx(2 * (min(scores.values()) - 10.0))


def test_a_list_of_words_is_one_step() -> None:
    words = models.WordLevel(vocab={"<unk>": 0, "dog": 1}, unk_token="<unk>")
    assert of(words).steps("dog")[0].pieces == ("dog",)
    assert of(words).steps("cat")[0].pieces == ("<unk>",)


# --- side by side ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def opened() -> dict[str, wb.Model]:
    return {name: shared(name) for name in MINIS}


def test_models_are_aligned_by_words(opened: dict[str, wb.Model]) -> None:
    text = "Ben unlocks  the café's door.\nWhy not? 😀"
    found = wb.tokenizations(text, *opened.values())
    assert [each.model for each in found.results] == list(MINIS)
    words = found.words
    assert (words.groupby("model")["index"].count() == words["index"].max() + 1).all()
    assert set(words[words["index"] == 1]["word"]) == {"unlocks"}
    for each in found.results:
        assert restored(each.joined, each.losses) == text
        assert each.n_pieces == len(each.table[~each.table["special"]])
        assert sum(map(len, each.by_word.values())) == each.n_pieces
    assert found["mini:gpt"].is_lossless and not found["mini:gpt"].notes
    assert found["mini:bert"].n_unknown == 2 and found["mini:bert"].n_special == 2
    assert any("“café”, “😀”" in note for note in found["mini:bert"].notes)
    lines = repr(found).splitlines()
    (row,) = [line for line in lines if line.startswith("  unlocks")]
    assert "un ##l ##o ##cks" in row and "▁un l o cks" in row and row.endswith("unlocks")
    assert any(line.startswith("  pieces") and "2 unknown" in line for line in lines)
    data = found.as_dict()["tokenizations"][0]
    assert data["n_pieces"] == found.results[0].n_pieces and data["losses"][0]["kind"]
    assert set(found.table["model"]) == set(MINIS) == set(found.losses["model"]) | {"mini:gpt"}


@pytest.mark.parametrize("name", MINIS)
def test_pieces_and_words_are_those_that_the_model_reads(
    name: str, opened: dict[str, wb.Model]
) -> None:
    doc = next(wb.read("primer").docs("test"))
    pieces = opened[name].encode(wb.encode([doc]))
    (own,) = wb.tokenizations(doc, opened[name]).results
    assert [piece.word for piece in own.pieces] == pieces.words[0].tolist()
    assert [piece.special for piece in own.pieces] == pieces.special[0].tolist()
    names = opened[name].piece_texts(pieces.ids[0].tolist())
    assert tuple(piece.piece for piece in own.pieces) == names
    for piece in own.pieces:
        if piece.word >= 0:
            token = doc[piece.word]
            assert token.idx <= piece.last and piece.first <= token.idx + len(token)


@pytest.mark.parametrize("name", mostly(MINIS, "mini:bert", "mini:t5"))
def test_steps_of_the_minis_end_in_their_pieces(name: str, opened: dict[str, wb.Model]) -> None:
    for text in filter(str.strip, ODD.values()):
        found = wb.tokenizations(text, opened[name])
        (own,), steps = found.results, found.steps()
        assert steps.pieces == tuple(piece.piece for piece in own.pieces if not piece.special)
        assert len(steps.table) == sum(len(part.steps) for part in steps.parts)
        assert repr(steps).count("\n") >= len(steps.table)


def test_steps_of_one_word_have_its_place_in_the_text(opened: dict[str, wb.Model]) -> None:
    found = wb.tokenizations("the unlocks unlocks", opened["mini:bert"], opened["mini:gpt"])
    first, second = (found.steps(word, model="mini:gpt") for word in (1, "2"))
    assert (first.parts[0].first, second.parts[0].first) == (3, 11)  # with the space before it
    assert first.pieces == second.pieces
    (row,) = [line for line in repr(first).splitlines() if "merge 76" in line]
    assert row.split("merge")[0].split()[-3:] == ["u", "+", "n"]
    with pytest.raises(wb.WorkbenchError, match="no word") as error:
        found.steps("absent")
    assert error.value.code == "word-unknown"
    with pytest.raises(wb.WorkbenchError, match="2 times") as several:
        found.steps("unlocks")
    assert "1, 2" in several.value.remedy
    assert found.steps().model == "mini:bert"
    with pytest.raises(wb.WorkbenchError, match="mini:elmo") as unknown:
        found.steps(model="mini:elmo")
    assert unknown.value.code == "model-missing"


def test_elmo_reads_characters_and_says_where_it_stops(opened: dict[str, wb.Model]) -> None:
    long = "ab" * 40
    (own,) = wb.tokenizations(f"é {long}", opened["mini:elmo"]).results
    assert own.pieces[0].characters == ("<C3>", "<A9>") and own.pieces[0].says == "é"
    (lost,) = own.losses
    assert lost.kind == "dropped" and long.endswith(lost.characters)
    (part,) = wb.tokenizations("dog", opened["mini:elmo"]).steps().parts
    assert [step.pieces for step in part.steps] == [("d", "o", "g"), ("dog",)]


def test_vectors_look_words_up(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("the 1 0\ndog 0 1\n")
    model = wb.load(f"vectors:{tmp_path / 'v.txt'}", device="cpu")
    (own,) = wb.tokenizations("The dog barks", model).results
    assert [(piece.id, piece.unknown) for piece in own.pieces] == [
        (0, False), (1, False), (-1, True),
    ]  # fmt: skip
    assert [loss.kind for loss in own.losses] == ["case", "unknown"]
    text = model.encode(wb.encode(wb.read("primer").docs("test", limit=1)))
    assert not bool(model.unknown_pieces(text)[0, 3])  # `the`
    steps = wb.tokenizations("The dog", model).steps()
    assert [len(part.steps[0].pieces) for part in steps.parts] == [2, 1]


def test_a_model_of_ones_own_is_read_by_its_words() -> None:
    found = wb.tokenizations("Ben walks.", BagOfEmbeddings())
    (own,) = found.results
    assert own.joined == "Ben walks." and own.n_pieces == 3 and own.algorithm == "words"
    with pytest.raises(wb.WorkbenchError, match="does not show how"):
        found.steps()


def test_mistakes_are_named() -> None:
    with pytest.raises(wb.WorkbenchError, match="no model") as missing:
        wb.tokenizations("a")
    assert missing.value.code == "model-missing"
    with pytest.raises(wb.WorkbenchError, match="models must be") as wrong:
        wb.tokenizations("a", BagOfEmbeddings(), 3)  # type: ignore[arg-type]
    assert wrong.value.code == "wrong-type"
    with pytest.raises(wb.WorkbenchError) as surrogate:
        wb.tokenizations("\ud800", "mini:bert")
    assert surrogate.value.code == "text-encoding"
    found = wb.tokenizations("Ben", BagOfEmbeddings())
    for name in ("bag-of", 5):
        with pytest.raises(wb.WorkbenchError, match="no tokenization") as absent:
            found[name]  # type: ignore[index]
        assert BagOfEmbeddings().name in absent.value.remedy
    for text in ("", " \n"):
        with pytest.raises(wb.WorkbenchError) as empty:
            wb.tokenizations(text, "mini:gpt")
        assert empty.value.code == "text-empty"


def test_a_text_too_long_for_the_model_is_split_whole_and_says_so(
    opened: dict[str, wb.Model],
) -> None:
    model = opened["mini:bert"]
    (own,) = wb.tokenizations("the dog " * model.max_pieces, model).results
    assert own.n_pieces == 2 * model.max_pieces
    assert any("reads only the first" in note for note in own.notes)
    assert math.isclose(len(own.table), own.n_pieces + own.n_special)
