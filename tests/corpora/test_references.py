"""The references that name a corpus, and the errors for those that do not."""

import bz2
import gzip
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench import WorkbenchError
from workbench.corpora import read
from workbench.corpora.formats import formats, resolve
from workbench.corpora.validate import faults


def _touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text\ty\n{name}\t1\n")


def _found(path: Path) -> tuple[str, dict[str, list[str]]]:
    source = resolve(path)
    return source.name, {split: [p.name for p in ps] for split, ps in source.splits.items()}


def test_a_file_is_a_corpus_of_one_split(tmp_path: Path) -> None:
    _touch(tmp_path, "srl-x.dev.tsv", "novel.txt", "ewt/train.conllu")
    assert _found(tmp_path / "srl-x.dev.tsv") == ("srl-x", {"dev": ["srl-x.dev.tsv"]})
    assert _found(tmp_path / "novel.txt") == ("novel", {"all": ["novel.txt"]})
    assert _found(tmp_path / "ewt/train.conllu") == ("ewt", {"train": ["train.conllu"]})


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (["train.tsv", "dev.tsv", "test.tsv"], ["train", "dev", "test"]),
        (["test.tsv", "validation.tsv", "training.tsv"], ["train", "dev", "test"]),
        (["x-ud-train.tsv", "x-ud-val.tsv"], ["train", "dev"]),
        (["Train.TSV"], ["train"]),
        (["dev.tsv", "dev-out-of-domain.tsv"], ["dev", "dev-out-of-domain"]),
        (["trainer.tsv"], ["all"]),
        (["a.tsv", "b.tsv"], ["all"]),
        (["train.tsv", "notes.md", ".train.tsv", "a.tsv"], ["train"]),
    ],
)
def test_a_folders_splits_are_read_off_its_files(
    tmp_path: Path, names: list[str], splits: list[str]
) -> None:
    _touch(tmp_path, *names)
    assert list(resolve(tmp_path).splits) == splits


def test_split_files_are_named_by_their_prefix(tmp_path: Path) -> None:
    _touch(tmp_path, "srl-x.train.tsv", "srl-x.test.tsv", "spr-x.train.tsv")
    name, splits = _found(tmp_path / "srl-x")
    assert (name, list(splits)) == ("srl-x", ["train", "test"])
    assert [doc.text for doc in read(tmp_path / "srl-x").docs("test")] == ["srl-x.test.tsv"]


def test_a_folder_of_several_corpora_names_them(tmp_path: Path) -> None:
    _touch(tmp_path, "srl-x.train.tsv", "spr-x.train.tsv")
    with pytest.raises(WorkbenchError, match="2 corpora") as caught:
        resolve(tmp_path)
    assert str(tmp_path / "spr-x") in caught.value.remedy
    assert str(tmp_path / "srl-x") in caught.value.remedy


def test_two_files_for_one_split_are_ambiguous(tmp_path: Path) -> None:
    _touch(tmp_path, "x.val.tsv", "x.dev.tsv")
    with pytest.raises(
        WorkbenchError, match=r"'dev' .*more than one file: x\.dev\.tsv, x\.val\.tsv"
    ):
        resolve(tmp_path)


def test_a_near_name_is_suggested(tmp_path: Path) -> None:
    _touch(tmp_path, "srl-ewt.train.tsv", "spr-ewt.train.tsv")
    for wrong, meant in [("slr-ewt", "srl-ewt"), ("spr-ewt.trian.tsv", "spr-ewt.train.tsv")]:
        with pytest.raises(WorkbenchError, match=f"Did you mean '{meant}'"):
            resolve(tmp_path / wrong)


def test_a_missing_corpus_is_reported(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="no such file or folder"):
        read(tmp_path / "no" / "such")
    with pytest.raises(WorkbenchError, match="holds no corpus file"):
        read(tmp_path)
    with pytest.raises(WorkbenchError, match="no such file or folder"):
        read("a\x00b")


@pytest.mark.parametrize("name", ["x.docx", "x", "x.gz", "x.tsv.zip"])
def test_an_unknown_ending_lists_the_known(tmp_path: Path, name: str) -> None:
    _touch(tmp_path, name)
    with pytest.raises(WorkbenchError, match="ending") as caught:
        read(tmp_path / name)
    assert all(ending in caught.value.remedy for ending in (*formats(), ".gz", ".bz2", ".xz"))


def test_an_unknown_split_or_limit_is_reported(tmp_path: Path) -> None:
    _touch(tmp_path, "train.tsv", "dev.tsv")
    corpus = read(tmp_path)
    with pytest.raises(WorkbenchError, match="Did you mean 'train'"):
        corpus.docs("trian")
    with pytest.raises(WorkbenchError, match="limit"):
        corpus.docs(limit=-1)
    assert [len(list(corpus.docs(limit=n))) for n in (0, 1, 9)] == [0, 1, 2]
    with pytest.raises(WorkbenchError, match="unit"):
        read(tmp_path, unit="page")  # type: ignore[arg-type]


def test_a_corpus_can_be_read_again_from_the_start(tmp_path: Path) -> None:
    _touch(tmp_path, "train.tsv", "dev.tsv")
    corpus = read(tmp_path)
    first = [doc.text for doc in corpus]
    assert first == [doc.text for doc in corpus] == ["train.tsv", "dev.tsv"]


COMPRESSORS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("ending", COMPRESSORS)
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.dev.tsv", "text\ty\nWords\t1\n"),
        ("x.dev.csv", "text,y\nWords,1\n"),
        ("x.dev.jsonl", '{"text": "Words"}\n'),
        ("x.dev.mrg", "(S (NNS Words))"),
        ("x.dev.txt", "Words"),
    ],
)
def test_text_formats_are_read_compressed(
    tmp_path: Path, name: str, content: str, ending: str
) -> None:
    path = tmp_path / f"{name}{ending}"
    path.write_bytes(COMPRESSORS[ending](content.encode()))
    corpus = read(path)
    assert (corpus.name, list(corpus.splits)) == ("x", ["dev"])
    (doc,) = corpus.docs()
    assert doc.text == "Words"
    assert doc._.document.startswith("x.dev")
    assert ending not in doc._.document


@pytest.mark.parametrize("ending", COMPRESSORS)
@pytest.mark.parametrize("broken", [lambda raw: raw[:-9], lambda raw: b"text\ty\na\tb\n"])
def test_a_broken_archive_is_reported(
    tmp_path: Path, ending: str, broken: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"x.tsv{ending}"
    path.write_bytes(broken(COMPRESSORS[ending](b"text\ty\n" + b"Words\t1\n" * 9)))
    with pytest.raises(WorkbenchError, match="cannot be read") as caught:
        list(read(path).docs())
    assert caught.value.where.startswith(str(path))


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    for name, content in [
        ("a.tsv", "text\ty\nWords\t1\n"),
        ("a.txt", "Words"),
        ("a.mrg", "(W Words)"),
    ]:
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + content.encode())
        assert [doc.text for doc in read(tmp_path / name).docs()] == ["Words"]


def test_latin_1_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes("text\ty\nWords\t1\nCafé\t1\nThé\t1\n".encode("latin-1"))
    with pytest.raises(
        WorkbenchError,
        match=r"a\.tsv:3: not UTF-8 text \(byte 0xe9 at column 4\), probably Windows-1252",
    ) as caught:
        list(read(path).docs())
    assert "iconv -f cp1252" in caught.value.remedy and "CSV UTF-8" in caught.value.remedy
    assert [fault.line for fault in faults(path)] == [3]  # once, not for each line


def test_a_path_that_is_not_a_regular_file_is_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.conllu")
    (tmp_path / "loop.conllu").symlink_to("loop.conllu")
    for path in (tmp_path / "pipe.conllu", "/dev/null"):
        with pytest.raises(WorkbenchError, match="not a regular file"):
            read(path)
    with pytest.raises(WorkbenchError, match=r"[Ss]ymbolic links"):
        read(tmp_path / "loop.conllu")


def test_files_without_a_split_next_to_split_files_are_reported(tmp_path: Path) -> None:
    _touch(tmp_path, "train.tsv", "a.tsv", "b.txt")
    assert "Skipped files (no split in the file name): a.tsv, b.txt." in read(tmp_path).notes


@pytest.mark.parametrize("ref", [b"x", 5, None])
def test_a_corpus_is_named_by_text(ref: object) -> None:
    with pytest.raises(WorkbenchError, match="setting-invalid"):
        read(ref)  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["text", "labels", "pipeline", "language", "layer"])
@pytest.mark.parametrize("value", [5, b"x"])
def test_options_are_named_by_text(tmp_path: Path, option: str, value: object) -> None:
    _touch(tmp_path, "x.tsv")
    with pytest.raises(WorkbenchError, match=option):
        read(tmp_path / "x.tsv", **{option: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [1.5, "2"])
def test_a_limit_is_a_whole_number(tmp_path: Path, limit: object) -> None:
    _touch(tmp_path, "x.tsv")
    with pytest.raises(WorkbenchError, match="limit"):
        read(tmp_path / "x.tsv").docs(limit=limit)  # type: ignore[arg-type]


def test_an_empty_corpus_has_no_layers_to_offer(tmp_path: Path) -> None:
    (tmp_path / "x.conllu").touch()
    with pytest.raises(WorkbenchError, match=r"It has no Docs\."):
        read(tmp_path / "x.conllu").require(["pos"], "This")
