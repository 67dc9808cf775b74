"""A trained parser: it learns, its folder is complete or absent, and it parses raw text."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import spacy

from workbench import WorkbenchError
from workbench.cli.main import main
from workbench.corpora import layers, read, write
from workbench.corpora.corpus import Corpus
from workbench.corpora.train_parser import CONFIG, _parts, train_parser

DATA = os.environ.get("WORKBENCH_DATA", "")
TEXT = "The old dog is sleeping on the bench. Mary sees the cat.\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parser")


@pytest.fixture(scope="module")
def printed(folder: Path) -> tuple[str, str]:
    """What the command prints that makes of a hundred sentences the pipeline `folder / "own"`."""
    flat = folder.with_name("flat.conllu")
    write(read("primer:size=200").docs("train"), flat)  # no split is told
    words = ["train-parser", str(flat), "--out", str(folder / "own"), "--steps", "50"]
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr("workbench.corpora.train_parser.CHECKS", 2)  # each costs several steps
        small = CONFIG.replace("embed_size = 5000", "embed_size = 1000")
        small = small.replace("depth = 4", "depth = 2")
        patch.setattr("workbench.corpora.train_parser.CONFIG", small)
        patch.setattr(sys, "argv", ["workbench", "corpora", *words, "--limit", "100"])
        with pytest.raises(SystemExit) as end:
            main()
    assert not end.value.code, err.getvalue()
    return out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def found(folder: Path, printed: tuple[str, str]) -> dict[str, Any]:
    """The facts of that pipeline."""
    facts: dict[str, Any] = json.loads((folder / "own" / "meta.json").read_text("utf-8"))
    return facts["workbench"]  # type: ignore[no-any-return]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files are put for a while."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    return tmp_path / "scratch"


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["workbench", "corpora", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0), *capsys.readouterr()

    return run


def flat(corpus: str, tmp_path: Path) -> Corpus:
    """The first hundred sentences of a corpus as a file whose name tells no split."""
    write(read(corpus).docs("train", 100), tmp_path / "flat.conllu")
    return read(tmp_path / "flat.conllu")


# --- what is learnt -------------------------------------------------------------------------------


def test_it_learns_tags_trees_and_sentences(found: dict[str, Any]) -> None:
    assert found["sentences"] == {"train": 100, "dev": 15, "test": 20}
    assert set(found["scores"]) == {"dev", "test"}
    for scores in found["scores"].values():
        assert scores["words"] > 0.99
        assert scores["sentences"] > 0.7
        assert scores["upos"] > 0.85
        assert 1 > scores["uas"] >= scores["las"] > 0.6


def test_it_is_far_better_than_after_its_first_step(found: dict[str, Any]) -> None:
    first, *_, last = found["curve"]
    assert (first["step"], last["step"]) == (0, 50)
    assert found["scores"]["dev"]["las"] > first["las"] + 0.4
    best = next(point for point in found["curve"] if point["step"] == found["best_step"])
    assert best["las"] == pytest.approx(found["scores"]["dev"]["las"], abs=0.001)


def test_the_folder_is_a_spacy_pipeline_with_its_training_facts(
    found: dict[str, Any], folder: Path
) -> None:
    assert [path.name for path in folder.iterdir()] == ["own"]
    nlp = spacy.load(folder / "own")
    assert (found["corpus"], found["language"], found["seed"]) == ("flat", "en", 0)
    assert nlp.config["training"]["max_steps"] == 50
    assert nlp.config["paths"]["train"] is None
    assert nlp.config["training"]["logger"] == {"@loggers": "spacy.ConsoleLogger.v1"}
    assert nlp.pipe_names == ["tok2vec", "morphologizer", "parser"]


def test_its_scores_are_those_of_an_evaluation(found: dict[str, Any], folder: Path) -> None:
    nlp = spacy.load(folder / "own")
    pairs = [
        (word, gold)
        for doc in _parts(read(folder.with_name("flat.conllu")), 0, 100)[0]["test"]
        for word, gold in zip(nlp(doc.text), doc, strict=True)
    ]
    scores = found["scores"]["test"]
    tags = sum(word.pos_ == gold.pos_ for word, gold in pairs) / len(pairs)
    arcs = [word.head.i == gold.head.i for word, gold in pairs if gold.dep_ != "punct"]
    assert tags == pytest.approx(scores["upos"], abs=0.05)  # which is of several sentences at once
    assert sum(arcs) / len(arcs) == pytest.approx(scores["uas"], abs=0.1)


def test_raw_text_read_through_it_has_trees(
    found: dict[str, Any], folder: Path, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    docs = list(read(tmp_path / "text.txt", pipeline=str(folder / "own")).docs())
    assert " ".join(doc.text for doc in docs) == TEXT.strip()
    assert all(layers(doc) >= {"pos", "dependencies", "sentences"} for doc in docs)
    code, out, _ = command("show", tmp_path / "text.txt", "--pipeline", folder / "own")
    assert code == 0
    assert "dog" in out
    assert "nsubj" in out


@pytest.mark.slow
def test_the_same_seed_makes_the_same_pipeline(tmp_path: Path) -> None:
    seeds = {"a": 3, "b": 3, "c": 4}
    for name, seed in seeds.items():
        train_parser(read("primer:size=20"), tmp_path / name, steps=1, seed=seed)
    a, b, c = ((tmp_path / name / "parser" / "model").read_bytes() for name in seeds)
    assert a == b != c


# --- parts ----------------------------------------------------------------------------------------


def test_without_splits_documents_are_split(tmp_path: Path) -> None:
    parts, (note,) = _parts(flat("primer:size=100", tmp_path), 0, None)
    documents = [{doc._.document for doc in docs} for docs in parts.values()]
    assert list(parts) == ["train", "dev", "test"]
    assert all(documents)
    assert len(set.union(*documents)) == sum(map(len, documents))
    assert sum(map(len, parts.values())) == 100
    assert "no train split" in note
    again, _ = _parts(read(tmp_path / "flat.conllu"), 0, None)
    assert [doc.text for doc in again["test"]] == [doc.text for doc in parts["test"]]


def test_without_a_dev_split_a_part_of_train_is_dev(tmp_path: Path) -> None:
    primer = read("primer:size=100")
    for split in ("train", "test"):
        write(primer.docs(split), tmp_path / f"{split}.conllu")
    parts, (note,) = _parts(read(tmp_path), 0, None)
    assert len(parts["train"]) + len(parts["dev"]) == 100
    assert len(parts["test"]) == 10
    assert "no dev split" in note


def test_without_a_test_split_there_is_no_test_score(tmp_path: Path) -> None:
    primer = read("primer:size=100")
    for split in ("train", "dev"):
        write(primer.docs(split), tmp_path / f"{split}.spacy")
    parts, notes = _parts(read(tmp_path), 0, 7)
    assert ({part: len(docs) for part, docs in parts.items()}, notes) == (
        {"train": 7, "dev": 7},
        (),
    )


def test_whole_documents_are_split_into_sentences(tmp_path: Path) -> None:
    parts, _ = _parts(read("primer:size=100", unit="document"), 0, None)
    apart, _ = _parts(read("primer:size=100"), 0, None)
    assert [doc.text.strip() for doc in parts["train"]] == [doc.text for doc in apart["train"]]
    assert [[t.head.i for t in doc] for doc in parts["train"]] == [
        [t.head.i for t in doc] for doc in apart["train"]
    ]


# --- what goes wrong ------------------------------------------------------------------------------


def test_a_corpus_without_trees_is_refused(tmp_path: Path, command: Command) -> None:
    (tmp_path / "reviews.tsv").write_text("sentence\tlabel\nWhat a film .\tgood\n")
    code, out, err = command("train-parser", tmp_path / "reviews.tsv", "--out", tmp_path / "own")
    assert (code, out) == (2, "")
    assert "training a parser needs dependencies, pos, which this corpus does not have" in err
    assert [path.name for path in tmp_path.iterdir()] == ["reviews.tsv"]


@pytest.mark.parametrize(
    ("out", "options", "message"),
    [
        ("full", {}, "file-exists"),
        ("full/file", {}, "file-exists"),
        ("full/link", {}, "file-exists"),
        ("/", {}, "file-exists"),
        ("none/own", {}, "No such file or directory"),
        ("x" * 300, {}, "File name too long"),
        ("own", {"steps": 0}, "steps is 0"),
        ("own", {"seed": -1}, "seed is -1"),
        ("own", {"seed": 2**32}, "seed is 4294967296"),
        ("own", {"limit": -1}, "limit is -1"),
        ("own", {"limit": 0}, "there is no tree in train"),
    ],
)
def test_invalid_arguments_are_reported_and_nothing_changes(
    tmp_path: Path, scratch: Path, out: str, options: dict[str, int], message: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("kept")
    (tmp_path / "full" / "link").symlink_to(scratch)
    with pytest.raises(WorkbenchError, match=message):
        train_parser(read("primer:size=40"), tmp_path / out, **options)  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "scratch"]
    assert (tmp_path / "full" / "file").read_text() == "kept"
    assert not list(scratch.iterdir())


def test_two_sentences_are_too_few_to_split(tmp_path: Path, scratch: Path) -> None:
    write(read("primer").docs("train", 2), tmp_path / "two.conllu")
    with pytest.raises(WorkbenchError, match="too-few-sentences"):
        train_parser(read(tmp_path / "two.conllu"), tmp_path / "own")
    assert not (tmp_path / "own").exists()


def test_an_interrupt_leaves_nothing(tmp_path: Path, scratch: Path) -> None:
    def interrupted(done: int) -> None:
        assert (tmp_path / ".own.draft").is_dir()
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_parser(read("primer:size=40"), tmp_path / "own", steps=9, on_progress=interrupted)
    assert [path.name for path in tmp_path.iterdir()] == ["scratch"]
    assert not list(scratch.iterdir())


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.slow  # by day `test_the_command_prints_scores_and_how_to_use_the_pipeline`
def test_one_sentence_and_an_empty_folder_are_enough(tmp_path: Path, command: Command) -> None:
    out = tmp_path / "own"
    out.mkdir()
    code, printed, err = command(
        "train-parser", "primer:size=40", "--out", out, "--steps", 1, "--limit", 1, "--json"
    )
    facts = json.loads(printed)
    assert (code, err) == (0, "")
    assert (facts["out"], facts["steps"]) == (str(out), 1)
    assert facts["sentences"] == {"train": 1, "dev": 1, "test": 1}
    assert facts.items() >= json.loads((out / "meta.json").read_text("utf-8"))["workbench"].items()
    assert spacy.load(out).pipe_names == ["tok2vec", "morphologizer", "parser"]


def test_the_command_prints_scores_and_how_to_use_the_pipeline(
    printed: tuple[str, str], folder: Path
) -> None:
    out, err = printed
    assert err.startswith("note: There is no train split")
    heading, columns, dev, test, *_ = out.splitlines()
    assert "without punctuation" in heading
    assert columns.split() == ["words", "sentences", "UPOS", "UAS", "LAS"]
    assert (dev.split()[0], test.split()[0]) == ("dev", "test")
    assert f"--pipeline {folder / 'own'}" in out


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(not DATA, reason="set WORKBENCH_DATA to the folder with ewt/")
def test_english_ewt_is_trained_in_minutes(tmp_path: Path) -> None:
    found = train_parser(read(Path(DATA) / "ewt"), tmp_path / "own")
    assert found["scores"]["test"]["upos"] > 0.9
    assert found["scores"]["test"]["las"] > 0.75


def test_the_hash_of_a_pipeline_is_that_of_its_content(tmp_path: Path) -> None:
    """Another one under the same name makes another corpus; the same in another place does not."""
    from workbench.corpora.content_hash import content_hash

    text = tmp_path / "x.txt"
    text.write_text(TEXT)

    def known(pipeline: Path) -> str:
        return content_hash(read(text, pipeline=str(pipeline)))

    there, moved = tmp_path / "there", tmp_path / "moved"
    with_rules = spacy.blank("en")
    with_rules.add_pipe("sentencizer")
    with_rules.to_disk(there)
    shutil.copytree(there, moved)
    before = known(there)
    assert known(moved) == before
    with_rules.remove_pipe("sentencizer")
    with_rules.to_disk(there)
    assert known(there) != before


def test_a_folder_without_a_pipeline_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """`pipeline=/` would hash every file of the machine."""
    from workbench.corpora.content_hash import _pipeline

    (tmp_path / "large").write_bytes(b"0")
    with pytest.raises(WorkbenchError, match="holds no spaCy pipeline"):
        _pipeline(str(tmp_path))
