"""The effect of an edit is the difference of two predictions, each made alone."""

import pytest
import torch

from tests.analyses.predictions.test_predict import MINI, model_of
from tests.night import mostly
from tests.planted import bert
from tests.tiny import tiny_bert
from workbench import WorkbenchError
from workbench.analyses.predictions.edits import editable, token_effects, without_words
from workbench.analyses.predictions.predict import fill
from workbench.analyses.predictions.prediction import Prediction, following, of_word, written
from workbench.corpora.encode import doc_of
from workbench.models.huggingface import HuggingFace

TEXT = "Ben walks to the hill."
SOME = ("bert", "albert", "xlnet", "modernbert", "gpt2", "llama", "bloom", "t5", "bart")


def shares(prediction: Prediction) -> torch.Tensor:
    with torch.no_grad():
        return prediction.logits()[0].softmax(-1)


@pytest.mark.parametrize(
    "name", mostly((*MINI, *SOME), "mini:elmo", "mini:t5", "bert", "gpt2", "xlnet")
)
@pytest.mark.parametrize("what", ["delete", "swap"])
def test_an_edited_text_is_predicted_as_if_it_had_been_typed(name: str, what: str) -> None:
    """Words between spaces, so that an edit leaves the pieces of all other words."""
    model = model_of(name)
    words = "the dog walks to an old house".split()
    swap = "quickly" if what == "swap" else None

    def prediction(texts: list[str], place: int) -> Prediction:
        doc = doc_of(" ".join(texts))
        return written(model, doc) if model.objective == "seq2seq" else of_word(model, doc, place)

    first = prediction(words, 5)
    known = [word for word in editable(first) if word]  # the first word has no space before it
    effects = token_effects(first, what, words=known, swap=swap)  # type: ignore[arg-type]
    before = shares(first)
    assert effects.choice == int(before.argmax())
    for effect in effects.effects:
        edited = [swap if at == effect.word else text for at, text in enumerate(words)]
        kept = [text for text in edited if text is not None]
        alone = shares(prediction(kept, 5 - (swap is None and effect.word < 5)))
        assert effect.before == pytest.approx(float(before[effects.choice]), abs=1e-5)
        assert effect.after == pytest.approx(float(alone[effects.choice]), abs=1e-4), effect
        assert effect.first_probability == pytest.approx(float(alone.max()), abs=1e-4)


@pytest.mark.parametrize(
    "name",
    mostly(
        ("mini:bert", "mini:gpt", "mini:t5", *SOME, "longformer"), "mini:t5", "gpt2", "longformer"
    ),
)
def test_hidden_words_leave_finite_probabilities(name: str) -> None:
    model = model_of(name)
    doc = doc_of(TEXT)
    prediction = of_word(model, doc, 4)
    effects = token_effects(prediction, "hide")
    assert not effects.table.isna().any().any()
    assert effects.table["after"].between(0, 1).all()
    assert [effect.word for effect in effects.effects] == editable(prediction)
    assert any(abs(effect.change) > 1e-6 for effect in effects.effects)


@pytest.mark.parametrize("name", ["mini:gpt", "gpt2", "llama"])
def test_a_next_piece_is_predicted_as_if_the_hidden_last_words_had_not_been_typed(
    name: str,
) -> None:
    model = model_of(name)
    prediction = following(model, doc_of("the dog walks to"))
    before = shares(following(model, doc_of("the dog walks")))
    hidden, deleted = (token_effects(prediction, what, words=[3]) for what in ("hide", "delete"))
    assert hidden.effects[0].after == pytest.approx(deleted.effects[0].after, abs=1e-6)
    assert hidden.effects[0].after == pytest.approx(float(before[hidden.choice]), abs=1e-6)
    both = shares(without_words(prediction, [2, 3]))
    assert torch.allclose(both, shares(following(model, doc_of("the dog"))), atol=1e-6)


def test_a_hidden_word_is_one_that_was_written_as_a_marker() -> None:
    model = model_of("mini:bert")
    prediction = fill(model, "Ben walks to the ___.").places[0].prediction
    effects = token_effects(prediction, "hide", words=[1])
    both = fill(model, "Ben ___ to the ___.").places[1]
    assert effects.effects[0].after == pytest.approx(
        float(both.probabilities[effects.choice]), abs=1e-6
    )


def test_only_the_word_that_the_planted_model_copies_has_an_effect() -> None:
    planted = bert.build()
    model = HuggingFace(planted.model, planted.tokenizer, "planted")
    prediction = fill(model, "the cat sees the dog ___ .").places[0].prediction
    effects = {e.text: e for e in token_effects(prediction, "hide").effects}
    assert effects["dog"].change < -0.5
    assert all(abs(e.change) < 1e-3 for text, e in effects.items() if text != "dog"), effects
    deleted = {e.text: e for e in token_effects(prediction, "delete").effects}
    assert deleted["dog"].first == "the"


def test_the_size_of_an_edit_is_shown_by_its_words() -> None:
    effects = token_effects(of_word(model_of("mini:gpt"), doc_of(TEXT), 4), "delete")
    assert effects.table.columns.tolist() == [
        "word", "text", "edited", "before", "after", "change", "first", "first_probability",
    ]  # fmt: skip
    assert repr(effects).splitlines()[1].split()[0] == "the"


def test_edits_that_cannot_be_made_have_a_remedy() -> None:
    doc = doc_of(TEXT)
    prediction = of_word(model_of("mini:gpt"), doc, 4)
    with pytest.raises(WorkbenchError, match="word 4"):
        token_effects(prediction, "hide", words=[4])
    with pytest.raises(WorkbenchError, match="swap"):
        token_effects(prediction, "swap")
    with pytest.raises(WorkbenchError, match="what is"):
        token_effects(prediction, "shout")  # type: ignore[arg-type]
    with pytest.raises(WorkbenchError, match="letters"):
        token_effects(of_word(model_of("mini:elmo"), doc, 4), "hide")
    for what in ("hide", "delete"):
        with pytest.raises(WorkbenchError, match="empty"):
            token_effects(following(model_of("mini:gpt"), doc_of("Ben")), what)  # type: ignore[arg-type]
    assert token_effects(following(model_of("llama"), doc_of("Ben")), "delete").effects
    with pytest.raises(WorkbenchError, match="can be edited"):
        token_effects(fill(model_of("mini:bert"), "___").places[0].prediction, "hide")


def test_five_hundred_words_are_edited_in_batches() -> None:
    net, tokenizer = tiny_bert(["a", "b", "c"])
    model = HuggingFace(net, tokenizer, "tiny")
    assert model.max_pieces == 512
    text = " ".join("abc"[n % 3] for n in range(509))
    prediction = fill(model, f"{text} ___").places[0].prediction
    assert prediction.text.ids.shape[1] == 512
    effects = token_effects(prediction, "delete", words=range(0, 509, 7))
    assert len(effects.effects) == 73
