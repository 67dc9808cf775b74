"""What can be learnt from a corpus: which labels are tasks, of which corpus, judged how."""

from pathlib import Path

import pytest

from tests.minis import shared
from workbench import WorkbenchError, read
from workbench.analyses.transfer.experiments import FINETUNE, Finetune
from workbench.analyses.transfer.finetune import adapter_of
from workbench.corpora.splits import SplitSizes
from workbench.corpora.tasks import Task, corpora_of, corpus_of, scored_of, split_of, task_of
from workbench.experiment import Inputs


def table(folder: Path, values: list[str], column: str = "label") -> Path:
    """A TSV in the order that was given."""
    path = folder / "own.tsv"
    rows = [f"text number {place}\t{value}\n" for place, value in enumerate(values)]
    path.write_text(f"sentence\t{column}\n" + "".join(rows))
    return path


@pytest.mark.parametrize(
    ("names", "positive"),
    [
        (("0", "1"), "1"),
        (("equivalent", "not_equivalent"), "equivalent"),
        (("entailment", "not_entailment"), "entailment"),
        (("acceptable", "unacceptable"), "acceptable"),
        (("neg", "pos"), "pos"),
        (("maybe", "no"), "maybe"),
        (("no", "yes"), "yes"),
        (("False", "True"), "True"),
        (("ham", "spam"), "spam"),
        (("a", "b", "c"), "c"),
    ],
)
def test_f1_is_of_what_is_so(names: tuple[str, ...], positive: str) -> None:
    task = Task("any", "class", "label", names, False, "accuracy")
    assert names[task.positive] == positive


def test_a_table_sorted_by_its_labels_teaches_all_of_them(tmp_path: Path) -> None:
    corpus = read(table(tmp_path, ["a"] * 900 + ["b"] * 900 + ["c"] * 200))
    task = task_of(corpus, "")
    assert task.names == ("a", "b", "c")
    split = split_of(corpus, task, None, 0, SplitSizes(60, 30, 30))
    assert {*split.train.gold} == {*split.test.gold} == {0, 1, 2}
    assert [len(part) for part in (split.train, split.dev, split.test)] == [60, 30, 30]


def test_a_label_with_too_many_values_is_told_with_their_number(tmp_path: Path) -> None:
    corpus = read(table(tmp_path, [f"name {place}" for place in range(200)]))
    for name in ("", "label"):
        with pytest.raises(WorkbenchError, match="'label' has 200 values"):
            task_of(corpus, name)


def test_a_label_with_one_value_teaches_nothing(tmp_path: Path) -> None:
    corpus = read(table(tmp_path, ["same"] * 40))
    for name in ("", "label"):
        with pytest.raises(WorkbenchError, match="every label is 'same'"):
            task_of(corpus, name)


def test_a_corpus_of_words_alone_teaches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "plain.txt"
    path.write_text("A dog barks.\n\nIt rains.\n\nThey sleep.\n")
    ((corpus, name),) = corpora_of(read(path), [])
    with pytest.raises(WorkbenchError, match="no labels to learn"):
        task_of(corpus, name)


def test_an_empty_file_is_told_as_one(tmp_path: Path) -> None:
    (tmp_path / "empty.conll").write_text("\n")
    with pytest.raises(WorkbenchError, match="no texts"):
        task_of(read(tmp_path / "empty.conll"), "")


def test_scores_that_are_missing_here_and_there_are_scores(tmp_path: Path) -> None:
    corpus = read(table(tmp_path, [f"{n / 10}" if n % 7 else "n/a" for n in range(80)], "score"))
    task = task_of(corpus, "")
    assert task.kind == "score"
    split = split_of(corpus, task, None, 0, SplitSizes(50, 10, 10))
    assert "12 of 80 texts of own have no score: left out." in split.notes
    assert len(split.train) == 50, "drawn from those that have one"


def test_test_texts_that_are_in_train_are_counted(tmp_path: Path) -> None:
    for part, texts in (("train", "abcdef"), ("dev", "xy"), ("test", "azd")):
        rows = "".join(f"text {each}\t{each < 'c'}\n" for each in texts)
        (tmp_path / f"{part}.tsv").write_text(f"sentence\tlabel\n{rows}")
    corpus = read(tmp_path)
    split = split_of(corpus, task_of(corpus, "label"), None, 0, SplitSizes(None, None, None))
    assert any(note.startswith("2 of 3 texts of test are in train") for note in split.notes)


def test_what_is_scored_alone_needs_no_labels_elsewhere(tmp_path: Path) -> None:
    for part, labels in (("train", [""] * 20), ("test", ["good", "bad"] * 10)):
        table(tmp_path, labels).rename(tmp_path / f"{part}.tsv")
    corpus = read(tmp_path)
    task = task_of(corpus, "label")
    scored, _ = scored_of(corpus, task, None, 0, None)
    assert len(scored) == 20
    with pytest.raises(WorkbenchError, match="no text of train has a label"):
        split_of(corpus, task, None, 0, SplitSizes(10, 10, 10))


def test_the_first_of_several_layers_is_learnt_and_that_is_told() -> None:
    inputs = Inputs((shared("mini:bert"),), (read("primer:size=200"),), None)
    adapter, caveats = adapter_of(inputs, Finetune(max_train=40, max_dev=10, max_test=10), Path())
    assert adapter.split.task.name == "entities"
    assert any(
        text.startswith("primer:size=200 has several tasks: entities, sent") for text in caveats
    )
    named = Finetune(max_train=40, max_dev=10, max_test=10, task="pos")
    adapter, caveats = adapter_of(inputs, named, Path())
    assert adapter.split.task.name == "pos" and not any("several" in text for text in caveats)


def test_the_stories_stand_for_the_tasks_of_the_primer() -> None:
    primer = read("primer:size=200")
    corpus, name = corpus_of(primer, "sentiment")
    assert corpus.name.startswith("primer/sentiment")
    assert task_of(corpus, name).names == ("negative", "positive")
    assert corpus_of(primer, "pos") == (primer, "pos")
    assert [name for _, name in corpora_of(primer, ["pos", "pos"])] == ["pos"]
    assert FINETUNE.fits is not None
    FINETUNE.fits(primer, Finetune(task="sentiment"))
    FINETUNE.fits(primer, Finetune())
    with pytest.raises(WorkbenchError, match=r"no task 'sentimnt'[\s\S]*sentiment"):
        FINETUNE.fits(primer, Finetune(task="sentimnt"))


@pytest.mark.parametrize("experiment", ["finetune", "frozen-vs-finetuned", "drift", "pretraining"])
@pytest.mark.parametrize(("old", "new"), [("train", "max_train"), ("dev", "max_dev")])
def test_an_old_name_of_a_size_leads_to_the_new_one(experiment: str, old: str, new: str) -> None:
    from workbench import experiments
    from workbench.runs.request import checked_settings

    with pytest.raises(WorkbenchError, match=f"Did you mean '{new}'"):
        checked_settings(experiments()[experiment], {old: 5})
