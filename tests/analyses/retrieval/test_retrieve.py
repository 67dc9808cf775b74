"""Planted retrievers and readers: known neighbours, readers that copy, and some that ignore."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from tests.analyses.few_shot.planted import copier
from tests.analyses.retrieval.planted import copying, filling, ignoring, marking
from tests.findings import findings_of
from tests.judges.odd import run_here
from tests.minis import shared
from tests.models import headed
from tests.night import mostly
from workbench import WorkbenchError
from workbench.analyses.attribution.parts import by_part
from workbench.analyses.retrieval import realm
from workbench.analyses.retrieval.bi_encoder import trained
from workbench.analyses.retrieval.experiments import RETRIEVE
from workbench.analyses.retrieval.index import bm25_index, vector_index
from workbench.analyses.retrieval.passage_attribution import PASSAGE, QUESTION, WORDS, reading
from workbench.analyses.retrieval.search import find_passages
from workbench.corpora.passages import passages_of, with_answer, without
from workbench.models.scoring.reading import Asked, Reader

NAMES = "Ann Ben Mary Peter Tom Eve Karl Ida Hugo Rosa Emil Olga".split()
THINGS = "dog boat letter hat cake song key lamp coat drum ball nest".split()
TEXTS = [f"{name} has the {thing}." for name, thing in zip(NAMES, THINGS, strict=True)]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    return tmp_path


def retrieved(model: Any, corpus: Any, **settings: Any) -> dict[str, Any]:
    return dict(run_here("retrieve", model, corpus, **{"attributed": 0, **settings}).tables)


def by(table: Any, *keys: str) -> Any:
    return table.set_index(list(keys))


# --- passages and questions -----------------------------------------------------------------------


def test_questions_find_their_answers_in_their_passages() -> None:
    for ref in ("primer/questions:size=40", "primer:size=200"):
        found = passages_of(wb.read(ref).docs(), 20)
        assert len(found.questions) > 20
        for question in found.questions:
            assert question.answer in found.texts[question.passage]
            assert max(len(text.split()) for text in found.texts) < 30
    gap = found.questions[0]
    assert gap.after is not None
    assert f"{gap.before} {gap.answer}{gap.after}" in found.texts[gap.passage]


def test_pairs_of_a_text_are_a_sentence_and_the_others_of_its_passage() -> None:
    pairs = passages_of(wb.read("primer:size=800").docs("train"), 20).pairs
    kept = [sentence in passage for sentence, passage in pairs]
    assert 0.02 < np.mean(kept) < 0.2
    assert all(passage for _, passage in pairs)


def test_an_answer_is_exchanged_as_a_word() -> None:
    assert with_answer("The cat sees a cattle cat.", "cat", "dog") == "The dog sees a cattle dog."


def test_names_numbers_and_dates_are_hidden() -> None:
    text = "Ann met Mary Hill on Monday and 12 boys. Then Mary Hill left."
    found = passages_of(wb.read([text]).docs(), 20, salient=True)
    hidden = {each.answer for each in found.questions}
    assert {"Mary Hill", "Monday", "12"} <= hidden
    for question in found.questions:
        assert question.whole in text
        assert question.whole not in without(text, question.whole)
    entities = {
        each.answer
        for each in passages_of(wb.read("primer:size=80").docs(), 20, salient=True).questions
    }
    assert any(" " in each for each in entities) and any(
        each.isdigit() or "March" in each for each in entities
    )


# --- retrievers -----------------------------------------------------------------------------------


def test_vectors_with_known_neighbours(tmp_path: Path) -> None:
    words = "red green blue apple pear sky".split()
    rows = [
        f"{word} {' '.join(map(str, row))}"
        for word, row in zip(words, np.eye(6, dtype=int), strict=True)
    ]
    (tmp_path / "one-hot.txt").write_text("\n".join(rows))
    model = wb.load(f"vectors:{tmp_path / 'one-hot.txt'}")
    texts = ["red apple", "green pear", "blue sky"]
    index = vector_index(model, texts, 0)
    found, scores = index.top(["green", "apple pear red", "sky"], 3)
    assert found[:, 0].tolist() == [1, 0, 2]
    assert (np.diff(scores) <= 0).all()
    again = vector_index(model, texts, 0)  # of the file
    assert again.top(["sky"], 1)[0].tolist() == [[2]]
    assert len(list((tmp_path / "passages").iterdir())) == 1


def test_words_are_found_without_case_and_unknown_ones_are_nothing() -> None:
    index = bm25_index(TEXTS)
    assert index.top(["who has the DRUM?"], 1)[0].tolist() == [[9]]
    assert not index.scores("zebra").any()


def test_find_passages_says_what_is_wrong() -> None:
    corpus = wb.read(TEXTS)
    found = find_passages("the lamp", corpus, 3)
    assert found[0].text == TEXTS[7] and len(found) == 3
    assert sum(each.probability for each in found) == pytest.approx(1)
    assert len(find_passages("the lamp", corpus, 99)) == len(TEXTS)
    with pytest.raises(WorkbenchError, match="empty"):
        find_passages(" ", corpus)
    with pytest.raises(WorkbenchError, match="k is 0"):
        find_passages("lamp", corpus, 0)
    with pytest.raises(WorkbenchError, match="layer 9"):
        find_passages("lamp", corpus, model=shared("mini:bert"), layer=9)


def test_a_bi_encoder_learns_what_it_is_shown() -> None:
    """Words of one list stand for those of another: no retriever can know that."""
    pairs = [(f"the {one}", f"a {other}") for one in NAMES for other in [THINGS[NAMES.index(one)]]]
    found = trained(headed.made("t5", "T5ForConditionalGeneration"), 8 * pairs, 30, 0, print)
    assert found.after < 0.8 * found.before and found.pairs == 64
    index = found.index([passage for _, passage in pairs])
    first = index.top([question for question, _ in pairs], 1)[0][:, 0]
    assert (first == np.arange(len(pairs))).mean() > 0.5


@pytest.mark.slow
def test_a_bi_encoder_learns_from_questions() -> None:
    corpus = wb.read("primer/questions:size=1000")
    tables = retrieved(
        shared("mini:t5"), corpus, retrievers=("bi-encoder", "bm25"), questions=50,
        k=1, steps=100,
    )  # fmt: skip
    training = tables["training"].iloc[0]
    assert training["loss_after"] < 0.8 * training["loss_before"] and training["learnt"]


# --- readers --------------------------------------------------------------------------------------


def test_a_reader_that_copies_follows_an_exchanged_answer() -> None:
    tables = retrieved(copying(), wb.read(TEXTS), retrievers=("bm25",), k=2, attributed=0)
    answers, swaps = by(tables["answers"], "passages"), by(tables["swaps"], "passage")
    assert answers.loc["with the answer", "exact"] == 1 > answers.loc["random", "exact"]
    assert answers.loc["RAG-sequence", "exact"] == answers.loc["RAG-token", "exact"] == 1
    assert swaps.loc["with the answer", "other"] == 0 < swaps.loc["answer exchanged", "other"] == 1
    found = findings_of("retrieve", tables)
    assert found["exchanged answer preferred"].verdict == "supported"
    assert found["gain: with the answer over random"].verdict == "supported"
    for name, draw in RETRIEVE.drawings().items():
        assert name == "attribution" or len(draw(tables).data)


def test_a_reader_that_ignores_its_passage_gains_nothing() -> None:
    tables = retrieved(ignoring(), wb.read(TEXTS), retrievers=("bm25",), k=3)
    assert tables["gains"]["difference"].abs().max() < 1e-5
    found = findings_of("retrieve", tables)
    assert found["passage found first"].verdict == "supported"
    supported = [each.measure for each in found.values() if each.verdict == "supported"]
    assert supported == ["passage found first"]
    claim = found["exchanged answer preferred"].claim
    assert "does not follow" in claim


# --- readers that find spans ----------------------------------------------------------------------


def test_a_reader_that_finds_the_word_its_question_lacks() -> None:
    tables = retrieved(marking(True), wb.read(TEXTS), retrievers=("bm25",), k=3)
    answers, swaps = by(tables["answers"], "passages"), by(tables["swaps"], "passage")
    assert answers.loc["with the answer", "exact"] == 1 > answers.loc["random", "exact"]
    assert answers.loc["with the answer", "probability"] > 0.99
    assert answers.loc["with the answer, another question", "exact"] == 0
    assert answers.loc["softmax per passage", "exact"] == 1
    assert swaps.loc["answer exchanged", "other"] == 1
    assert swaps.loc["answer exchanged, another question", "other"] == 0
    found = findings_of("retrieve", tables)
    assert found["exchanged answer preferred"].verdict == "supported"
    name = "gain: with the answer over with the answer, another question"
    assert found[name].verdict == "supported"
    for figure, draw in RETRIEVE.drawings().items():
        if figure != "attribution":  # of models that write
            assert len(draw(tables).data)


@pytest.mark.parametrize("kind", ["ignoring", "random"])
def test_a_reader_of_spans_that_knows_nothing(kind: str) -> None:
    model = marking(False)
    if kind == "random":
        model = headed.made("bert", "BertForQuestionAnswering")
    tables = retrieved(model, wb.read(TEXTS), retrievers=("bm25",), k=3)
    found = findings_of("retrieve", tables)
    supported = [each.measure for each in found.values() if each.verdict == "supported"]
    assert supported == ["passage found first"]


# --- masked readers, trained with their retriever -------------------------------------------------

NUMBERS = [
    f"{name} keeps {n} hats. Later {name} keeps {n} hats again."
    for n, name in enumerate(2 * NAMES, start=20)
]


@pytest.mark.parametrize("kind", mostly(("copies", "random"), "copies"))
def test_retrieval_utility_of_a_passage_that_alone_has_the_answer(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number stands in the other sentence of the passage, and nowhere else."""
    reader = filling() if kind == "copies" else headed.made("bert", "BertForMaskedLM")
    retriever = headed.made("bert", "BertForMaskedLM")
    together = realm.Realm(reader, retriever, retriever, 1.0, 1.0, 100)
    monkeypatch.setattr(realm, "trained", lambda *_: together)
    corpus = wb.Corpus("numbers", dict.fromkeys(("train", "test"), wb.read(NUMBERS).docs))
    tables = retrieved(reader, corpus, retrievers=("bm25",), k=3, passage_words=12)
    passages = tables["passages"]
    assert (passages.loc[passages["passage"] == "", "utility"].abs() < 1e-6).all()
    assert passages.groupby("item")["prior"].sum().to_numpy() == pytest.approx(1)
    found = findings_of("retrieve", tables)
    gains = by(tables["gains"], "first", "second")["difference"]
    if kind == "copies":
        assert gains["with the answer", "none"] > 1 > gains["random", "none"]
        assert found["retrieval utility"].verdict == "supported"
    else:
        assert found["retrieval utility"].verdict != "supported"
        assert found["retrieval helps"].verdict != "supported"


def test_a_masked_model_is_trained_with_its_retriever() -> None:
    """Of reader, retriever and the reader without passages, each is another model afterwards."""
    model = headed.made("bert", "BertForMaskedLM")
    docs = wb.read(NUMBERS).docs
    trainings: list[realm.Realm] = []
    train = realm.trained

    def kept(*how: Any) -> realm.Realm:
        trainings.append(train(*how))
        return trainings[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(realm, "trained", kept)
        patch.setattr(realm, "HELD_OUT", 8)
        tables = retrieved(
            model, wb.Corpus("numbers", dict.fromkeys(("train", "test"), docs)),
            retrievers=("bm25",), k=2, questions=4, steps=2, refresh=1, passage_words=12,
        )  # fmt: skip
    old = model.named_weights().values()
    for net in (trainings[0].reader, trainings[0].retriever, trainings[0].without):
        new = net.named_weights().values()
        assert any(not torch.equal(one, other) for one, other in zip(old, new, strict=True))
    names = set(tables["retrieval"]["retriever"])
    assert {"trained with the reader", "bi-encoder, untrained"} <= names
    assert tables["training"]["retriever"].tolist() == ["trained with the reader"]
    assert "retrieval helps" in findings_of("retrieve", tables)


@pytest.mark.slow
def test_a_masked_model_learns_to_read() -> None:
    """The owner of a thing stands in its passage alone, and another one owns it in training."""
    adjectives = (
        "old red big small new long hot cold green proud lazy loud good bad happy sad".split()
    )

    def sentences(seed: int) -> Any:
        draw = Random(seed)
        owned = [(draw.choice(NAMES), f"{a} {thing}") for a in adjectives for thing in THINGS]
        return wb.read([f"{who} has the {it}. Now {who} has the {it}." for who, it in owned]).docs

    tables = retrieved(
        shared("mini:bert"),
        wb.Corpus("owners", {"train": sentences(1), "test": sentences(2)}),
        retrievers=("bm25", "bi-encoder"), k=2, questions=40, steps=120, passage_words=14,
    )  # fmt: skip
    found = findings_of("retrieve", tables)
    assert found["retrieval utility"].verdict == "supported"
    assert found["exchanged answer preferred"].verdict == "supported"


def test_without_a_training_split_a_masked_model_finds_and_does_not_read() -> None:
    model = headed.made("bert", "BertForMaskedLM")
    tables = retrieved(model, wb.read(NUMBERS), retrievers=("bm25",), k=3, passage_words=12)
    assert "answers" not in tables and len(tables["retrieval"])


def test_a_copier_reads_the_answer_off_its_place() -> None:
    """A planted GPT that continues as an earlier copy did: nothing else counts.

    Its heads switch within a step of fp32 on the path from the baseline, so it is read in fp64.
    """
    model = copier()
    model.net.double()
    reader = Reader.of(model, "{passage} {question}")
    asked, passage = Asked("Anna"), "Nell dog Ruth letter Anna boat Mara hill"
    read = reading(reader, asked, passage, "boat")
    assert [read.parts[n] for n in (1, 6, 7, 9)] == [PASSAGE, WORDS, PASSAGE, QUESTION]
    words = replace(read, parts=["", *passage.split(), "question", "answer"])
    found = by_part(reader.model, words, "integrated-gradients", max_steps=4096)
    assert found.share("Anna", "boat", "question") > 0.99 > found.length("Anna", "boat", "question")
    assert found.nats["Anna"] > 1 and found.nats["boat"] > 0.1
    assert sum(found.nats.values()) == pytest.approx(found.change, rel=1e-3)
    lost = by_part(reader.model, words, "occlusion").nats
    assert {word for word, nats in lost.items() if nats > 1} == {"Anna", "boat", "question"}


@pytest.mark.parametrize("name", [pytest.param("mini:t5", marks=pytest.mark.slow), "mini:gpt"])
def test_attribution_by_kind_of_passage(name: str) -> None:
    tables = retrieved(
        shared(name), wb.read("primer:size=60"), retrievers=("bm25",), k=1,
        questions=2, attributed=1,
    )  # fmt: skip
    table = by(tables["attribution"], "passages", "part")
    for kind, rows in table.groupby("passages"):
        whole = rows.drop(index=(kind, WORDS), errors="ignore")
        assert whole["share"].sum() == pytest.approx(1) == whole["by_length"].sum()
    assert ("with the answer", WORDS) in table.index
    assert np.isfinite(table.loc["with the answer", "random"]).all()
    assert RETRIEVE.drawings()["attribution"](tables).data
    findings_of("retrieve", tables)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_weights_know_nothing(seed: int) -> None:
    model = shared("mini:gpt@random", seed=seed)
    tables = retrieved(
        model, wb.read("primer:size=600"), retrievers=("bm25", "states"), questions=40, k=2
    )
    found = findings_of("retrieve", tables)
    assert found["exchanged answer preferred"].verdict != "supported"
    assert found["MRR: states over states, random weights"].verdict != "supported"


def test_a_corpus_without_questions_is_refused() -> None:
    with pytest.raises(WorkbenchError, match="questions"):
        retrieved(ignoring(), wb.read(["Ann runs."]), retrievers=("bm25",))
