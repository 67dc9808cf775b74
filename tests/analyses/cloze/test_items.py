"""Items of each form, their files as published, and what is wrong in them."""

import json
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from workbench import WorkbenchError
from workbench.corpora.cloze import Cloze, cloze_items, with_options


def items(path: Path) -> list[Cloze]:
    return cloze_items(wb.read(path).docs())


def jsonl(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def texts(item: Cloze) -> tuple[str, str]:
    bare = item.without_passage()
    return item.doc.text, "" if bare is None else bare.doc.text


# --- the last word --------------------------------------------------------------------------------


def test_the_last_word_of_a_text_and_its_passage(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "lambada.jsonl",
        {"text": 'Ann lost her key. "Where is it?" she said. Ben found the key'},
        {"text": "It rained on the hill"},
    )
    first, second = items(path)
    assert first.answer == "key" and first.doc[first.gap[0] :].text == "key"
    assert texts(first)[1] == "Ben found the key"
    assert second.answer == "hill" and second.without_passage() is None


def test_sentences_of_a_document_are_one_item() -> None:
    docs = list(wb.read("primer").docs("test", 10))
    found = cloze_items(docs)
    documents = list(dict.fromkeys(doc._.document for doc in docs))
    assert len(found) == len(documents)
    own = [doc.text for doc in docs if doc._.document == documents[0]]
    assert found[0].doc.text == " ".join(own)
    assert texts(found[0])[1] == own[-1]
    assert found[0].doc[found[0].gap[0]].is_alpha and own[-1].rstrip(".").endswith(found[0].answer)


def test_other_words_in_a_gap() -> None:
    (item,) = cloze_items(wb.read(["Ben saw Ann. He met the dog."]).docs())
    other = item.filled("very old cat")
    assert (
        other.doc.text == "Ben saw Ann. He met the very old cat." and other.answer == "very old cat"
    )
    assert other.without_passage().answer == "very old cat"  # type: ignore[union-attr]
    assert (
        item.shortened(2).doc.text == "Ann. He met the dog." and item.shortened(99).answer == "dog"
    )


def test_counterfactual_pairs_are_two_items_each() -> None:
    found = cloze_items(wb.read("primer/counterfactuals").docs("test", 5))
    pairs = {item.pair for item in found}
    assert len(found) == 2 * len(pairs)
    one, other = found[:2]
    assert one.options == other.options == (one.answer, other.answer)


# --- published forms ------------------------------------------------------------------------------


def test_winogrande(tmp_path: Path) -> None:
    text = "The trophy does not fit into the case because the _ is too {}."
    path = jsonl(
        tmp_path / "dev.jsonl",
        {"qID": "A-1", "sentence": text.format("big"), "option1": "trophy", "option2": "case",
         "answer": "1"},
        {"qID": "A-2", "sentence": text.format("small"), "option1": "trophy", "option2": "case",
         "answer": "2"},
    )  # fmt: skip
    one, other = items(path)
    assert (one.answer, other.answer) == ("trophy", "case") and one.pair == other.pair == "A"
    assert one.doc.text.endswith("because the trophy is too big.")


def test_winogender(tmp_path: Path) -> None:
    path = tmp_path / "all_sentences.tsv"
    path.write_text(
        "sentid\tsentence\n"
        "nurse.patient.0.male.txt\tThe nurse told the patient that he was late.\n"
        "nurse.patient.1.female.txt\tThe nurse washed the patient while her mother slept.\n"
        "chef.someone.1.neutral.txt\tThe chef cooked for someone and looked at them.\n"
        "chef.someone.1.female.txt\tThe chef cooked for someone and gave the dish to her.\n"
    )
    one, other, them, her = items(path)
    assert one.options == ("the nurse", "the patient") and one.answer == "the nurse"
    assert one.doc.text == "The nurse told the patient that the nurse was late."
    assert (one.phenomenon, one.pair) == ("male", "nurse patient male")
    assert other.doc.text.endswith("while the patient's mother slept.")
    assert them.answer == her.answer == "someone"
    path.write_text("sentid\tsentence\nnurse.male.txt\tHe was late.\n")
    with pytest.raises(WorkbenchError, match="WinoGender"):
        items(path)


def test_lama(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "P19.jsonl",
        {"masked_sentences": ["Dante was born in [MASK]."], "obj_label": "Florence",
         "sub_label": "Dante", "pred": "place_of_birth"},
    )  # fmt: skip
    (item,) = items(path)
    assert texts(item) == ("Dante was born in Florence.", "was born in Florence.")
    assert item.phenomenon == "all" or item.phenomenon == "place_of_birth"


def test_the_childrens_book_test(tmp_path: Path) -> None:
    block = [f"{n} Sentence {n} has a dog ." for n in range(1, 21)]
    question = "21 Then the XXXXX barked .\tdog\t\tcat|dog|man|hat|box|sun|sea|cup|key|pen"
    path = tmp_path / "cbtest_NE_test.txt"
    path.write_text("\n".join([*block, question, "", *block, question]) + "\n")
    one, other = items(path)
    assert one.answer == other.answer == "dog" and len(one.options) == 10
    assert texts(one)[1] == "Then the dog barked ."
    assert texts(one)[0].startswith("Sentence 1 has a dog .")


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    path.write_text(
        "text\toptions\tanswer\tpassage\n"
        "Ann has a cat. It is a ___ .\tcat | dog\tcat\tAnn has a cat.\n"
    )
    (item,) = items(path)
    assert item.options == ("cat", "dog") and texts(item)[1] == "It is a cat ."


def test_a_table_without_options_has_its_marked_gaps(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("text,answer\nThe girl ___ home.,walks\nThe girls ___ home.,walk\n")
    found = items(path)
    assert [(item.doc.text, item.answer) for item in found] == [
        ("The girl walks home.", "walks"),
        ("The girls walk home.", "walk"),
    ]
    assert not any(item.options for item in found)
    path.write_text("text,answer\nIs foo _ bar right?,yes\n")  # a question and its answer
    assert next(iter(wb.read(path).docs()))._.labels == {"answer": "yes"}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"text": "A ___ and a ___", "options": ["x", "y"], "answer": "x"}, "2 gaps"),
        ({"text": "A ___", "options": ["x", "y"], "answer": "z"}, "not one of the options"),
        ({"text": "A ___", "options": ["x"], "answer": ""}, "not one of the options"),
        ({"text": "A b[MASK]c", "options": ["x"], "answer": "x"}, "not whole words"),
    ],
)
def test_what_is_wrong_says_where(row: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match=said) as caught:
        items(jsonl(tmp_path / "own.jsonl", row))
    assert "own.jsonl:1" in str(caught.value.where) and caught.value.remedy


def test_options_joined_otherwise_say_how_to_join_them(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="not one of the options") as caught:
        items(jsonl(tmp_path / "own.jsonl", {"text": "A ___", "options": "x / y", "answer": "x"}))
    assert "is|are" in caught.value.remedy


def test_a_corpus_without_gaps_says_what_to_read() -> None:
    with pytest.raises(WorkbenchError, match="no gaps") as caught:
        cloze_items(wb.read(["1 2 3", "! ?"]).docs())
    assert "LAMA" in caught.value.remedy


# --- options --------------------------------------------------------------------------------------


def test_options_are_of_the_text_and_the_same_part_of_speech() -> None:
    found = with_options(cloze_items(wb.read("primer").docs("test", 120)), 4, 0)
    for item in found:
        assert item.answer in item.options and len(set(item.options)) == len(item.options) <= 4
    places = [item.options.index(item.answer) for item in found]
    assert len(set(places)) == 4
    tags = {t.text: t.pos for item in found for t in item.doc}
    same = [tags.get(o) == i.doc[i.gap[0]].pos for i in found for o in i.options if o in tags]
    assert sum(same) / len(same) > 0.8
    assert with_options(found, 4, 0) == found
