"""Models whose texts are known: one copies answers, one always writes the same, one is random."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForQuestionAnswering

import workbench as wb
from tests.analyses.basics.test_pairs import Quiet
from tests.analyses.few_shot.planted import copier
from tests.findings import check
from tests.judges.odd import run_here
from tests.minis import shared
from tests.models import headed
from tests.night import mostly
from tests.tiny import tiny_bert
from workbench import Corpus, WorkbenchError
from workbench.analyses.writing.experiments import TEXT_TO_TEXT, TextToText
from workbench.analyses.writing.measures import metrics, novel
from workbench.analyses.writing.origins import SAME, Source, origin_tables, words_of
from workbench.analyses.writing.write import Writer, best_threshold
from workbench.core.cluster_sample import ClusterSample
from workbench.core.findings import Finding
from workbench.core.metrics import answer_scores
from workbench.corpora.answer_spans import AnswerSpan, AnswerSpans
from workbench.corpora.encode import doc_of, encode
from workbench.corpora.layers import Mention, set_spans
from workbench.corpora.text_pairs import TextPair, text_pairs
from workbench.corpora.text_prediction import pair_of
from workbench.models.huggingface import HuggingFace

THINGS = ("dog", "boat", "letter", "lamp")


def findings_of(tables: Any) -> dict[str, Finding]:
    found = TEXT_TO_TEXT.findings_of(tables)
    check("text-to-text", found, tables)
    return {each.measure: each for each in found}


def questions(things: Sequence[str]) -> list[Any]:
    """A question to a story for each thing, which is its answer; "" has none."""
    docs = []
    for number, thing in enumerate(things):
        name = ("Ann", "Ben", "Mary", "Peter", "Karl")[number % 5]
        story = f"{name} came home . " + (f"There was a {thing} ." if thing else "It was late .")
        question = doc_of(f"What did {name} find ?")
        doc = pair_of(question, doc_of(story))
        doc[0].is_sent_start = True
        own = [token.i for token in doc if thing and token.text == thing]
        set_spans(doc, "answers", [Mention(at, at + 1, "answer") for at in own])
        docs.append(doc)
    return docs


def reader(words: Sequence[str]) -> HuggingFace:
    """A BERT that finds these words in any passage, whatever it is asked."""
    known = {t.text for doc in questions([*THINGS, ""] * 5) for t in doc}
    _, tokenizer = tiny_bert(sorted(known))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = BertForQuestionAnswering(
            BertConfig(
                vocab_size=len(tokenizer), hidden_size=96, num_hidden_layers=1,
                num_attention_heads=2, intermediate_size=8, max_position_embeddings=64,
            )
        )  # fmt: skip
    with torch.no_grad():
        layer, table = net.bert.encoder.layer[0], net.bert.embeddings
        for part in (layer.attention.output.dense, layer.output.dense, table.position_embeddings,
                     table.token_type_embeddings):  # fmt: skip
            for weights in part.parameters():
                weights.zero_()
        ids = tokenizer.convert_tokens_to_ids(list(words))
        wanted = table.word_embeddings.weight[ids].sum(0)
        net.qa_outputs.weight.copy_(wanted.expand(2, -1) / wanted.norm())
        net.qa_outputs.bias.zero_()
    net.eval()
    return HuggingFace(net, tokenizer, "reader")


def constant(name: str) -> Any:
    """A model that writes the same pieces for everything."""
    model: Any = wb.load(name, device="cpu")
    old = model.net.lm_head
    head = torch.nn.Linear(old.in_features, old.out_features)
    with torch.no_grad():
        head.weight.zero_()
        head.bias.zero_()
        head.bias[model.tokenizer(" the")["input_ids"][0]] = 9.0
    model.net.lm_head = head
    return model


def corpus_of(**splits: list[Any]) -> Corpus:
    return Corpus(
        "planted", {name: (lambda docs=docs: iter(docs)) for name, docs in splits.items()}
    )


def test_a_reader_that_copies_the_answer_and_does_not_hear_the_question() -> None:
    corpus = corpus_of(test=questions(THINGS * 10))
    tables = run_here("text-to-text", reader(THINGS), corpus).tables
    found = findings_of(tables)
    assert found["F1"].value == 1 and found["F1"].verdict == "supported"
    assert "does not visibly depend on the question" in found["loss without the question"].claim
    assert found["loss without the question"].verdict == "not supported"
    scores = tables["scores"].set_index(["metric", "system"])["value"]
    assert scores["exact_match", "spans"] == 1 and scores["exact_match", "most frequent"] == 0.25


def test_a_reader_that_knows_what_has_no_answer() -> None:
    docs = [questions([*THINGS, ""] * 6), questions([*THINGS, "", ""] * 5)]
    tables = run_here("text-to-text", reader(THINGS), corpus_of(dev=docs[0], test=docs[1])).tables
    found = findings_of(tables)
    assert found["answered without an answer"].value == 0
    assert found["answered without an answer"].verdict == "supported"
    assert found["F1"].value == 1


@pytest.mark.parametrize("name", mostly(("mini:t5", "mini:gpt"), "mini:gpt"))
def test_a_writer_that_does_not_read_is_found_out(name: str) -> None:
    settings: Any = {"max_sentences": 12, "max_pieces": 4, "attributed": 0}
    corpus = wb.read("primer/questions:size=120")  # the test texts are those of any larger size
    tables = run_here("text-to-text", constant(name), corpus, **settings).tables
    assert set(tables["items"]["written"]) == {tables["items"]["written"][0]}
    found = findings_of(tables)
    for what in ("source", "question", "passage"):
        assert "not visibly depend" in found[f"loss without the {what}"].claim
        assert found[f"loss without the {what}"].value == 0
    assert found["F1"].verdict == "not supported" and "no better than" in found["F1"].claim


@pytest.mark.parametrize(
    ("name", "ref", "seed"),
    [
        pytest.param("mini:t5", "primer/rewrites", 0, marks=pytest.mark.slow),
        pytest.param("reader", "primer/questions", 0, marks=pytest.mark.slow),
        *(
            pytest.param(name, f"primer/{task}", seed, marks=pytest.mark.slow)
            for name in ("mini:t5", "mini:gpt", "reader")
            for task in ("rewrites", "questions")
            for seed in range(1, 9)
            if (name, task) != ("reader", "rewrites")
        ),
    ],
)
def test_random_twins_find_nothing(name: str, ref: str, seed: int) -> None:
    if name == "reader":
        model: Any = headed.made("bert", "BertForQuestionAnswering")
        torch.manual_seed(seed)
        torch.nn.init.normal_(model.net.qa_outputs.weight)
    else:
        model = wb.load(f"{name}@random", device="cpu", seed=seed)
    tables = run_here(
        "text-to-text",
        model,
        wb.read(f"{ref}:size=250"),
        max_sentences=25,
        max_pieces=6,
        attributed=2,
    ).tables
    supported = [each.claim for each in findings_of(tables).values() if each.verdict == "supported"]
    assert not supported


def test_another_head_is_refused_in_a_sentence() -> None:
    corpus, facts = wb.read("primer/rewrites"), {"task": "answers", "name": "x"}
    facts["predicts"] = {"name": "its answers"}  # type: ignore[assignment]
    with pytest.raises(WorkbenchError, match="no questions"):
        TEXT_TO_TEXT.suits(facts, corpus, TextToText())  # type: ignore[misc]
    with pytest.raises(WorkbenchError, match="so that all texts"):
        TEXT_TO_TEXT.suits(  # type: ignore[misc]
            {"task": "", "name": "x"}, corpus, TextToText(prompt="summarise")
        )
    with pytest.raises(WorkbenchError, match="no pairs"):
        text_pairs(wb.read("primer").docs("test", 5))


# --- where words come from ------------------------------------------------------------------------


def test_a_copied_word_comes_from_its_place_in_the_source() -> None:
    """The planted GPT continues as an earlier copy did: “dog” is copied, “letter” in no source."""
    model: Any = copier()
    names = "Nell dog Ruth hill Anna boat Nell".split()
    read = model.encode(encode([doc_of(" ".join(names))]))
    in_source = {n: f"{n}:{name.lower()}" for n, name in enumerate(names[:-1])}
    source = Source(read, [in_source.get(word, "") for word in read.words[0].tolist()])
    ids = model.tokenizer("dog letter")["input_ids"][1:]
    assert [word for word, _ in words_of(model, ids)] == ["dog", "letter"]
    found = origin_tables(model, {0: source}, [ids], ClusterSample.of([0], 0), 0, Quiet())
    words = found["words"].set_index("word")
    assert words["copied"].to_dict() == {"dog": True, "letter": False}
    # it is found by the word before it, on which the copy depends most
    assert words.loc["dog", "from"] == "nell" and words.loc["dog", "source"] > 0.4
    assert words.loc["dog", "same_word"] > 0 == words.loc["letter", "same_word"]
    rows = found["origins"].set_index(["words", "part"])
    assert rows.loc[("in the source", SAME), "by_length"] < 0.2
    assert rows.loc[("in no source", "source"), "n"] == 1
    assert rows.loc[("in no source", "written before"), "share"] > 0


@pytest.mark.parametrize("name", [pytest.param("mini:t5", marks=pytest.mark.slow), "mini:gpt"])
def test_the_source_has_its_pieces(name: str) -> None:
    model: Any = shared(name)
    (pair,) = text_pairs([pair_of(doc_of("The old dog runs ."), doc_of("A dog ."))])
    writer = Writer(model, TextToText(prompt="Say again: {source} So:"), 0, Quiet())
    source = writer.sources([pair], 1)[0]
    words = dict.fromkeys(word for word in source.words if word)
    assert [word.split(":")[1] for word in words] == ["the", "old", "dog", "runs", "."]
    settings: Any = {"max_sentences": 2, "max_pieces": 2, "attributed": 1}
    corpus = wb.read("primer/rewrites:size=30")
    tables = run_here("text-to-text", model, corpus, **settings).tables
    rows = tables["origins"].set_index(["words", "part"]).loc["all"]
    assert rows["share"].drop(SAME, errors="ignore").sum() == pytest.approx(1)
    assert TEXT_TO_TEXT.drawings()["origins"](tables).data
    findings_of(tables)


# --- prompts --------------------------------------------------------------------------------------


def test_a_long_source_loses_its_last_words_and_a_prompt_keeps_its_end() -> None:
    model: Any = shared("mini:gpt")
    writer = Writer(model, TextToText(max_pieces=8), 0, Quiet())
    doc = pair_of(doc_of("The dog walks home . " * 60), doc_of("A dog ."))
    (pair,) = text_pairs([doc])
    (text,) = writer.shortened([pair])
    assert text.endswith("\nTL;DR:") and text.startswith("The dog walks home .")
    size = len(model.tokenizer(text)["input_ids"])
    assert model.max_pieces - 8 - 6 <= size <= model.max_pieces - 8
    asked = Writer(model, TextToText(prompt="{question} {passage} {task}{x}"), 0, Quiet())
    source, target = "a {question}", ("b",)
    assert asked.prompt(TextPair(doc, source, target, "Who?", "go")) == "Who? a {question} go{x}"


# --- scores ---------------------------------------------------------------------------------------


def test_scores_are_those_of_the_libraries() -> None:
    import sacrebleu
    from rouge_score.rouge_scorer import RougeScorer

    targets = [
        "The dogs were seen by Ann.",
        "Ben walked to the hill.",
        "Zoë's 3 cats slept!",
        "x y",
    ]
    texts = ["Ann saw the dog.", "Ben walked to the old hill.", "", "x y"]
    pairs = [TextPair(None, "", (target,)) for target in targets]  # type: ignore[arg-type]
    found = {name: metric.value() for name, metric in metrics(pairs, texts).items()}
    assert found["BLEU"] == pytest.approx(sacrebleu.corpus_bleu(texts, [targets]).score / 100)
    each = [
        sacrebleu.sentence_chrf(a, [b]).score / 100 for a, b in zip(texts, targets, strict=True)
    ]
    assert found["chrF"] == pytest.approx(np.mean(each))
    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    each = [scorer.score(b, a)["rougeL"].fmeasure for a, b in zip(texts, targets, strict=True)]
    assert found["rougeL"] == pytest.approx(np.mean(each))


def test_n_grams_that_are_in_no_source() -> None:
    assert novel("The dog saw the moon", "A dog saw the cat.", 1) == (1, 5)
    assert novel("The dog saw the moon", "A dog saw the cat.", 2) == (2, 4)
    assert novel("", "A dog", 1) == (0, 0)


def test_the_threshold_is_the_best_of_all() -> None:
    draw = np.random.default_rng(0)
    for n in (1, 2, 7, 30):
        pairs, found = [], []
        for _ in range(n):
            targets = ("a b",) if draw.random() < 0.6 else ()
            text = str(draw.choice(["a b", "a c", "d"]))
            span = AnswerSpan(text, 0, 3, float(draw.normal()), 0.5)
            none = AnswerSpan("", 0, 0, float(draw.normal()), 0.5)
            pairs.append(TextPair(None, "", targets, "q"))  # type: ignore[arg-type]
            found.append(AnswerSpans((span,), none, 1, False))

        def total(threshold: float) -> float:
            return sum(
                answer_scores(pair.targets, each.decided(threshold).text)[1]
                for pair, each in zip(pairs, found, strict=True)  # noqa: B023
            )

        best = max(map(total, [-1e9, *(each.margin + 1e-9 for each in found)]))
        assert total(best_threshold(pairs, found)) == pytest.approx(best)
