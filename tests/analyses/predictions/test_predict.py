"""Hidden words, next pieces and labels are those of transformers and of the run that trained."""

from functools import cache
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.analyses.transfer.test_trying import predictions
from tests.minis import shared
from tests.models import headed, zoo
from tests.models.test_logits import HEADED
from tests.night import mostly
from tests.planted import bert
from workbench import Model, WorkbenchError
from workbench.analyses.predictions.explained import prediction_of
from workbench.analyses.predictions.predict import changed
from workbench.analyses.predictions.prediction import labelled
from workbench.analyses.predictions.results import Labelled, TopChoices
from workbench.corpora.text_prediction import predict_text
from workbench.models.huggingface import HuggingFace

MASKED = [name for name, kind in HEADED.items() if kind.endswith("MaskedLM")]
CAUSAL = ("openai-gpt", "gpt2", "bloom", "gpt-neox", "llama")
WRITERS = ("t5", "mt5", "t5-3-2", "bart", "bart-3-2")
MINI = ("mini:bert", "mini:gpt", "mini:t5", "mini:elmo")
TEXT = "The dog ___ to the old house."


@cache
def model_of(name: str) -> Model:
    return shared(name) if ":" in name else headed.made(name, HEADED[name], False)


def transformer(name: str) -> HuggingFace:
    model = model_of(name)
    assert isinstance(model, HuggingFace)
    return model


@pytest.mark.parametrize("name", mostly(MASKED, "bert", "deberta-v2"))
@pytest.mark.parametrize("text", ["The dog {} to the old house.", "{} dog walks to the {} {}."])
def test_hidden_words_are_those_of_transformers(name: str, text: str) -> None:
    model = transformer(name)
    mask = model.tokenizer.mask_token
    inputs = model.tokenizer(text.replace("{}", mask), return_tensors="pt")
    with torch.no_grad():
        logits = model.net(**inputs).logits[0]
    at = inputs["input_ids"][0] == model.tokenizer.mask_token_id
    expected = logits[at].softmax(-1).numpy()
    for marker in ("[MASK]", "<mask>", "_____"):
        filled = wb.fill(model, text.replace("{}", marker), top=3)
        assert len(filled.places) == len(expected) == text.count("{}")
        for place, row in zip(filled.places, expected, strict=True):
            assert place.probabilities == pytest.approx(row, abs=1e-5)
            assert [choice.index for choice in place.choices] == (-row).argsort()[:3].tolist()


@pytest.mark.parametrize("name", CAUSAL)
def test_the_next_piece_is_that_of_transformers(name: str) -> None:
    model = transformer(name)
    text = "The dog walks to"
    inputs = model.tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        expected = model.net(input_ids=inputs["input_ids"]).logits[0, -1].softmax(-1).numpy()
    predicted = wb.predict(model, text)
    assert isinstance(predicted, TopChoices)
    assert predicted.places[0].probabilities == pytest.approx(expected, abs=1e-5)
    marked = wb.fill(model, f"{text} ___ house.")
    assert marked.places[0].probabilities == pytest.approx(expected, abs=1e-5)
    assert "left to right" in marked.notes[0]


@pytest.mark.parametrize("name", mostly(WRITERS, "t5-3-2", "bart-3-2"))
def test_the_probability_of_a_span_is_that_of_writing_it(name: str) -> None:
    """Brute force: one pass over source and target, as transformers computes it."""
    model = transformer(name)
    filled = wb.fill(model, TEXT, top=4, max_pieces=3)
    (place,) = filled.places
    source = place.prediction.text.ids
    assert place.prediction.target is not None
    prefix = place.prediction.target.ids[0, :-1].tolist()
    start = model.net.config.decoder_start_token_id
    assert [span.pieces[:1] for span in place.spans if span.pieces] == [
        (choice.index,)
        for choice, span in zip(place.choices, place.spans, strict=True)
        if span.pieces
    ]
    for span in place.spans:
        with torch.no_grad():
            logits = model.net(
                input_ids=source,
                decoder_input_ids=torch.tensor([[start, *prefix, *span.pieces]]),
            ).logits[0]
        log = logits.log_softmax(-1)
        share = sum(float(log[len(prefix) + n, piece]) for n, piece in enumerate(span.pieces))
        if span.ended:
            best = log[len(prefix) + len(span.pieces)].exp()
            shares = [span.probability / torch.tensor(share).exp().item()]
            assert min(abs(float(p) - shares[0]) for p in best) < 1e-4
        else:
            assert span.probability == pytest.approx(torch.tensor(share).exp().item(), rel=1e-3)


def test_the_source_of_an_encoder_decoder_has_a_sentinel_for_each_marker() -> None:
    model = transformer("mini:t5")
    filled = wb.fill(model, "The ___ walks to the ___.", top=2, max_pieces=4)
    assert [place.name for place in filled.places] == ["gap 1", "gap 2"]
    own = model.tokenizer("The <extra_id_0> walks to the <extra_id_1>.")["input_ids"]
    for place in filled.places:
        assert place.prediction.text.ids[0].tolist() == own


def test_bart_is_given_the_text_before_the_gap() -> None:
    model = transformer("bart")
    filled = wb.fill(model, "The dog <mask> house.", top=1)
    target = filled.places[0].prediction.target
    assert target is not None
    assert model.tokenizer.decode(target.ids[0, :-1]) == "<s>The dog"


def test_elmo_multiplies_its_two_directions() -> None:
    model = model_of("mini:elmo")
    from workbench.corpora.encode import doc_of, encode

    place = wb.fill(model, "Ben ___ to the hill.").places[0]
    pieces = model.encode(encode([doc_of("Ben qqq to the hill.")]))
    with torch.no_grad():
        left = model.word_logits(pieces, 0, "next").softmax(-1)
        right = model.word_logits(pieces, 2, "previous").softmax(-1)
    expected = (left * right / (left * right).sum())[0].numpy()
    assert place.probabilities == pytest.approx(expected, abs=1e-6)


def test_a_planted_model_answers_with_the_piece_before() -> None:
    """Its only working head copies the piece before; so the hidden word is that piece."""
    planted = bert.build()
    model = HuggingFace(planted.model, planted.tokenizer, "planted")
    for text, expected in (("the dog ___ .", "dog"), ("the ___ dog .", "the")):
        filled = wb.fill(model, text)
        assert filled.first.text == expected, filled


@pytest.mark.parametrize("name", mostly(MINI, "mini:gpt", "mini:t5"))
def test_hiding_a_word_says_how_probable_the_word_was(name: str) -> None:
    filled = wb.fill(model_of(name), "Ben walks to the hill.", hide="hill")
    (place,) = filled.places
    assert place.gold is not None
    assert place.gold_rank is not None
    assert place.gold.probability == pytest.approx(place.probabilities[place.gold.index])
    assert place.gold_rank == 1 + (place.probabilities > place.gold.probability).sum()
    again = wb.predict(model_of(name), "Ben walks to the hill.", hide=4)
    assert isinstance(again, TopChoices)
    assert again.places[0].probabilities == pytest.approx(place.probabilities, abs=1e-6)
    assert "hidden: " in repr(filled)


@pytest.mark.parametrize("marker", ["[MASK]", "<mask>", "___"])
def test_a_marker_is_hidden_beside_a_word_that_is_named(marker: str) -> None:
    model = model_of("mini:bert")
    text = f"The girls did not visit {marker} because they were tall."
    both = wb.fill(model, text.replace("were", marker)).places[1].probabilities
    filled = wb.fill(model, text, hide="were")
    assert filled.places[0].name == "word 8"
    assert filled.places[0].probabilities == pytest.approx(both, abs=1e-6)
    read = filled.places[0].prediction.text.ids
    assert prediction_of(model, text, word="were")[0].text.ids.equal(read)
    assert wb.lens(model, text, word=8).text == filled.text


@pytest.mark.parametrize(
    "name", mostly((*MINI, *MASKED, *CAUSAL, *WRITERS, "xlnet"), *MINI, "xlnet", "bart-3-2")
)
def test_every_architecture_fills_and_shows_a_table(name: str) -> None:
    filled = wb.fill(model_of(name), TEXT, top=3)
    assert filled.places[0].probabilities.sum() == pytest.approx(1, abs=1e-4)
    table = filled.table
    assert table["rank"].tolist() == [1, 2, 3]
    assert table["probability"].is_monotonic_decreasing
    assert ("span" in table) == (name in WRITERS or name == "mini:t5")
    assert repr(filled).startswith(filled.model)


def test_xlnet_does_not_read_the_hidden_word() -> None:
    model = transformer("xlnet")
    filled, other = (wb.fill(model, f"The dog {mark} to the house.") for mark in ("___", "[MASK]"))
    hidden = wb.fill(model, "The dog b to the house.", hide="b")
    assert filled.places[0].probabilities == pytest.approx(other.places[0].probabilities, abs=1e-6)
    assert hidden.places[0].probabilities == pytest.approx(filled.places[0].probabilities, abs=0.2)


# --- labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("sentiment", "class"),
        pytest.param("entailment", "class", marks=pytest.mark.slow),
        pytest.param("relatedness", "score", marks=pytest.mark.slow),
        ("questions", "answer"),
        pytest.param("entities", "tag", marks=pytest.mark.slow),
    ],
)
def test_a_fine_tuned_head_predicts_as_in_its_run(name: str, column: str, tmp_path: Path) -> None:
    of_words = name == "entities"
    corpus = wb.read(f"primer{'' if of_words else f'/{name}'}:size=100")
    said = predictions(
        shared("mini:bert"),
        corpus,
        tmp_path,
        method="frozen",
        **({"task": name} if of_words else {}),
    )
    model = wb.load(str(tmp_path))
    for doc, guess in zip(corpus.docs("test", 4), said["guess"], strict=False):
        result = wb.predict(model, doc)
        assert isinstance(result, Labelled)
        expected = predict_text(model, doc)
        assert result.guess == guess == expected.guess
        assert (result.classes, result.words, result.answer) == (
            expected.classes,
            expected.words,
            expected.answer,
        )
        assert column in result.table
        if name == "questions":
            question, context = (part.text for part in doc.spans["segments"])
            answered = wb.answer(model, question, context)
            assert isinstance(answered, Labelled)
            assert repr(answered).count("answer") >= 1
            if column == "answer":
                assert answered.answer is not None
    if name == "sentiment":
        with pytest.raises(WorkbenchError, match="two are given"):
            wb.predict(model, "Good.", second="Bad.")


@pytest.mark.parametrize(
    "name",
    [
        "sentiment",
        pytest.param("relatedness", marks=pytest.mark.slow),
        pytest.param("questions", marks=pytest.mark.slow),
        pytest.param("pos", marks=pytest.mark.slow),
    ],
)
def test_what_is_explained_of_a_head_is_what_it_predicts(name: str, tmp_path: Path) -> None:
    """The distributions that attribution explains, against those of `thought`."""
    corpus = wb.read("primer:size=200" if name == "pos" else f"primer/{name}:size=200")
    task = {"task": name} if name == "pos" else {}
    predictions(shared("mini:bert"), corpus, tmp_path, method="frozen", **task)
    model = wb.load(str(tmp_path))
    for doc in corpus.docs("test", 2):
        expected = predict_text(model, doc)
        parts = labelled(model, doc)
        with torch.no_grad():
            logits = [part.logits()[0] for part in parts]
        shares = [each.softmax(-1) for each in logits]
        if expected.classes:
            names = parts[0].names(range(len(shares[0])))
            found = dict(zip(names, shares[0].tolist(), strict=True))
            assert found == pytest.approx(dict(expected.classes), abs=1e-6)
        elif expected.words:
            tags = [
                part.names([int(each.argmax())])[0]
                for part, each in zip(parts, shares, strict=True)
            ]
            assert tags == [tag for _, tag, _ in expected.words]
            assert [float(each.max()) for each in shares] == pytest.approx(
                [share for _, _, share in expected.words], abs=1e-6
            )
        elif expected.answer is not None:
            words = [part.names(range(len(each))) for part, each in zip(parts, shares, strict=True)]
            pairs = [
                float(shares[0][first] * shares[1][last])
                for first, start in enumerate(words[0])
                for last, end in enumerate(words[1])
                if start and end
            ]
            assert min(abs(pair - expected.answer) for pair in pairs) < 1e-6
        else:
            head = parts[0].head
            assert head is not None
            score = float(logits[0][0])
            assert f"{score:.3g}" == expected.guess


@pytest.mark.parametrize("second", [None, "The cat sleeps."])
def test_a_text_classifier_has_the_classes_of_transformers(second: str | None) -> None:
    model = headed.made("bert", "BertForSequenceClassification")
    inputs = model.tokenizer(*filter(None, ["The dog walks.", second]), return_tensors="pt")
    with torch.no_grad():
        expected = model.net(**inputs).logits[0].softmax(-1).tolist()
    result = wb.predict(model, "The dog walks.", second=second)
    assert isinstance(result, Labelled)
    found = dict(result.classes)
    assert [found[name] for name in model.classes] == pytest.approx(expected, abs=1e-6)
    assert result.table["probability"].is_monotonic_decreasing
    assert result.guess == result.classes[0][0]


# --- several models, several texts ----------------------------------------------------------------


def test_two_models_stand_next_to_each_other() -> None:
    both = wb.predict([model_of("mini:bert"), model_of("mini:elmo")], "Ben ___ to the hill.")
    table = both.table
    assert table["model"].unique().tolist() == ["mini:bert", "mini:elmo"]
    assert " │ " in repr(both)
    edited = changed(model_of("mini:gpt"), "Ben walks to the", "Ben walks to a")
    assert edited.table["text"].nunique() == 2


# --- clear answers --------------------------------------------------------------------------------

LONG = "Ben walks to the hill. " * 60


HOSTILE = [
    "",
    " \n\t ",
    "\ud800",
    "a \x00 b ___",
    "😀 ___ 👩‍👩‍👧",
    "שלום ___ עולם",
    "___",
    "[CLS] [SEP] </s> <|endoftext|>",
    "[MASK]" * 200,
    LONG,
    f"{LONG} ___ .",
    f"___ {LONG}",
    "x" * 3000,
    "___" + "\u0301" * 50,
]
EVERY = [(name, text) for text in HOSTILE for name in MINI]
# ELMo and T5 fill gaps each in their own way; all texts are split as those of GPT and BERT
OF_ALL = ("", "\ud800", "a \x00 b ___", f"{LONG} ___ .", "x" * 3000)


@pytest.mark.parametrize(
    ("name", "text"),
    mostly(
        EVERY,
        *(
            (name, text)
            for name, text in EVERY
            if text in OF_ALL or name in ("mini:bert", "mini:gpt")
        ),
    ),
)
def test_hostile_texts_have_a_clear_answer(name: str, text: str) -> None:
    try:
        result = wb.predict(model_of(name), text, max_pieces=3)
    except WorkbenchError as error:
        assert error.remedy
    else:
        assert repr(result).isprintable() or "\n" in repr(result)
        assert len(result.table)


def test_a_text_longer_than_a_causal_model_is_read_from_its_end() -> None:
    model = model_of("mini:gpt")
    result = wb.predict(model, LONG + "The old dog walks to the")
    assert isinstance(result, TopChoices)
    assert "last" in result.notes[0]
    prediction = result.places[0].prediction
    assert prediction.text.ids.shape[1] <= 64
    assert prediction.doc.text.endswith("The old dog walks to the")


def test_a_marker_beyond_the_length_of_the_model_is_an_error() -> None:
    with pytest.raises(WorkbenchError, match="text-too-long"):
        wb.fill(model_of("mini:bert"), f"{LONG} ___.")


@pytest.mark.parametrize(
    ("name", "call", "noun"),
    [
        ("mini:bert", lambda m: wb.fill(m, "Ben walks."), "marker-missing"),
        ("mini:bert", lambda m: wb.predict(m, "Ben walks."), "marker-missing"),
        ("mini:bert", lambda m: wb.generate(m, "Ben walks."), "mini:gpt"),
        ("mini:bert", lambda m: wb.summarise(m, "Ben walks."), "encoder-decoder"),
        ("mini:bert", lambda m: wb.answer(m, "Who?", "Ben walks."), "finetune"),
        ("mini:bert", lambda m: wb.fill(m, "a b", hide="c"), "word-unknown"),
        ("mini:bert", lambda m: wb.fill(m, "a a", hide="a"), "index: 0, 1"),
        ("mini:bert", lambda m: wb.fill(m, "a a", hide=7), "0 to 1"),
        ("mini:bert", lambda m: wb.predict(m, "a", second="b"), "two texts"),
        ("mini:gpt", lambda m: wb.fill(m, "a ___ b ___"), "one hidden word"),
        ("mini:gpt", lambda m: wb.fill(m, "a ___ b", hide="b"), "marker at once"),
        ("mini:t5", lambda m: wb.predict(m, "a ___ b", hide="b"), "marker at once"),
        ("mini:gpt", lambda m: wb.fill(m, "___ b"), "before"),
        ("mini:gpt", lambda m: wb.predict(m, "a", top=0), "setting-invalid"),
        ("mini:gpt", lambda m: wb.generate(m, "a", 0), "setting-invalid"),
        ("mini:gpt", lambda m: wb.generate(m, "a", temperature=2.0), "sample"),
        ("mini:gpt", lambda m: wb.generate(m, "a", sample=True, top_p=0.0), "top_p"),
        ("mini:t5", lambda m: wb.answer(m, "", "Ben walks."), "question is empty"),
    ],
)
def test_mistakes_have_a_remedy(name: str, call: object, noun: str) -> None:
    with pytest.raises(WorkbenchError, match=noun):
        call(model_of(name))  # type: ignore[operator]


def test_a_model_without_a_head_predicts_nothing() -> None:
    model = HuggingFace(zoo.built("bert"), zoo.words_of("bert"), "bert")
    for text in ("The ___ barks", "The dog"):
        with pytest.raises(WorkbenchError, match="no head"):
            wb.predict(model, text)


def test_words_that_the_model_does_not_know_are_counted_in_a_note() -> None:
    bert, elmo = shared("mini:bert"), shared("mini:elmo")
    assert wb.predict(bert, "Ben ___ to the hill.").notes == ()
    (note,) = wb.predict(bert, "Ben ___ to the כלב.").notes
    assert "does not know 1 of 6 words" in note and "reads them all alike" in note
    (note,) = wb.predict(elmo, "Ben walks to the zxqw").notes
    assert "does not know 1 of 5 words" in note and "reads their characters" in note
