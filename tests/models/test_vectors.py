"""Static vectors come out the same from every form they are kept in; faults are named by place."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workbench import WorkbenchError
from workbench.models.word_models import Found, Vectors, read_vectors

WORDS = ["the", "The", "naïve", "漢字", ". .", "nan", "a\u2028b", "1990", ","]
TABLE = torch.tensor([[1.5, -2.0, 3.25], *([k / 8, -k, 1e-3 * k] for k in range(1, 9))])


def records(words: list[str]) -> list[tuple[str, list[float]]]:
    return list(zip(words, TABLE.tolist(), strict=True))


def text(words: list[str] = WORDS, header: bool = False, end: str = "\n") -> bytes:
    lines = [f"{len(words)} 3"] if header else []
    lines += [f"{word} {' '.join(map(repr, row))}" for word, row in records(words)]
    return (end.join(lines) + end).encode()


# A space ends a word in the binary form.
WHOLE = [word.replace(" ", "_") for word in WORDS]


def binary(words: list[str] = WHOLE, end: bytes = b"\n") -> bytes:
    rows = [
        word.encode() + b" " + np.array(row, dtype="<f4").tobytes() + end
        for word, row in records(words)
    ]
    return f"{len(words)} 3\n".encode() + b"".join(rows)


FORMS = {
    "glove.txt": text(),
    "glove.txt.gz": gzip.compress(text()),
    "dos.txt": text(end="\r\n"),
    "marked.txt": b"\xef\xbb\xbf" + text(),
    "word2vec.txt": text(header=True),
    "marked.vec": b"\xef\xbb\xbf" + text(header=True),
    "fasttext.vec": text(header=True, end=" \n"),
    "word2vec.bin": binary(),
    "gensim.bin": binary(end=b""),
    "word2vec.bin.gz": gzip.compress(binary()),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same_words_and_vectors(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FORMS[name])
    vectors = read_vectors(tmp_path / name)
    assert list(vectors.rows) == (WHOLE if ".bin" in name else WORDS)
    assert torch.equal(vectors.table, TABLE)


def test_unknown_words_are_zeros_and_counted(tmp_path: Path) -> None:
    vectors = Vectors(WORDS, TABLE)
    words = ["The", "the", "THE", "NAÏVE", "dog", "", "the"]
    found = vectors.lookup(words)
    assert torch.equal(found[:4], TABLE[[1, 0, 0, 2]])
    assert not found[4:6].any()
    assert torch.equal(found[6], TABLE[0])
    assert vectors.found(words) == Found(exact=3, lowered=2, unknown=2)
    assert vectors.width == 3
    assert vectors.lookup([]).shape == (0, 3)


def test_what_is_saved_is_read_back_from_the_folder_or_its_table(tmp_path: Path) -> None:
    words = [*WORDS[:-2], "carriage\r", ""]
    Vectors(words, TABLE).save(tmp_path / "saved")
    for path in (tmp_path / "saved", tmp_path / "saved" / "vectors.safetensors"):
        again = read_vectors(path)
        assert list(again.rows) == words
        assert torch.equal(again.table, TABLE)
        assert torch.equal(again.lookup(["NAN"]), TABLE[5:6])


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="\n")), st.none(), min_size=1
    )
)
def test_any_words_without_line_feeds_survive_saving(
    tmp_path_factory: pytest.TempPathFactory, words: dict[str, None]
) -> None:
    folder = tmp_path_factory.mktemp("saved")
    table = torch.arange(len(words) * 2.0).view(-1, 2)
    Vectors(list(words), table).save(folder)
    again = read_vectors(folder)
    assert list(again.rows) == list(words)
    assert torch.equal(again.table, table)


def test_fresh_vectors_keep_words_and_width_and_follow_the_seed() -> None:
    vectors = Vectors([str(k) for k in range(500)], torch.zeros(500, 40))
    first, again, other = (vectors.random(seed) for seed in (3, 3, 4))
    assert first.rows == vectors.rows
    assert torch.equal(first.table, again.table)
    assert not torch.equal(first.table, other.table)
    assert first.table.std() == pytest.approx(1, rel=0.02)


def test_of_a_word_that_comes_twice_the_first_is_kept(tmp_path: Path) -> None:
    (tmp_path / "twice.txt").write_text("3 2\na 1 2\nb 3 4\na 5 6\n")
    vectors = read_vectors(tmp_path / "twice.txt")
    assert list(vectors.rows) == ["a", "b"]
    assert vectors.table.tolist() == [[1, 2], [3, 4]]


def test_a_word_that_word2vec_cut_in_a_letter_does_not_stop_a_binary_file(tmp_path: Path) -> None:
    (tmp_path / "cut.bin").write_bytes(binary().replace("naïve".encode(), b"na\xc3"))
    assert list(read_vectors(tmp_path / "cut.bin").rows)[2] == "na\ufffd"


def line(number: int) -> str:
    return f"vectors.txt:{number}"


@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        (b"a 1 2\nb 3\n", line(2), "1 numbers after 'b', expected 2"),
        (b"a 1 2\nb\n", line(2), "0 numbers after 'b', expected 2"),
        (b"a 1 2\nb 3 4 5\n", line(2), "more than 2 numbers"),
        (b"a 1 2\nb 3 x\n", line(2), "not a number: 'x'"),
        (b"a 1 2\nb 3  4\n", line(2), "not a number: ''"),
        (b"a 1 2\nb 3 inf\n", line(2), "'b' has a number that is not finite"),
        (b"a 1 2\nb 3 1e99\n", line(2), "'b' has a number that is not finite"),
        (b"a 1 2\n\xff 3 4\n", line(2), "not UTF-8"),
        (b"2 2\na 1 2\nb 3 4 5\n", line(3), "more than 2 numbers"),
        (b"3 2\na 1 2\nb 3 4\n", line(3), "promises 3 words, but the file has 2"),
        (b"1 2\na 1 2\nb 3 4\n", line(3), "promises 1 words, but the file has 2"),
        (b"only words\n", line(1), "not a number: 'words'"),
        (b"word\n", line(1), "0 numbers after 'word', expected some"),
        (b"", "vectors.txt", "has no vectors"),
        (b"\n\n", "vectors.txt", "has no vectors"),
    ],
)
def test_a_fault_in_text_is_named_by_its_line(
    tmp_path: Path, content: bytes, where: str, what: str
) -> None:
    (tmp_path / "vectors.txt").write_bytes(content)
    with pytest.raises(WorkbenchError) as caught:
        read_vectors(tmp_path / "vectors.txt")
    assert caught.value.where == str(tmp_path / where)
    assert what in caught.value.what
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        (text(), "", "not a word2vec binary file"),
        (b"", "", "not a word2vec binary file"),
        (b"3 0\n", "", "not a word2vec binary file"),
        (binary()[:-9], ", word 9 of 9", "cut off"),
        (binary().replace(b"9 3\n", b"12 3\n"), ", word 10 of 12", "cut off"),
        (binary().replace(b"9 3\n", b"8 3\n"), "", "continues after the 8 words"),
        (b"1 3\n" + b"x" * 20_000, ", word 1 of 1", "cut off"),
        (b"2 1\na \0\0\0\0b\nc \0\0\0\0", ", word 2 of 2", "damaged"),
        (b"0 3\n", "", "has no vectors"),
        (b"1 1\na \x00\x00\xc0\x7f", ", word 1 of 1", "'a' has a number that is not finite"),
    ],
)
def test_a_fault_in_a_binary_file_is_named_by_its_word(
    tmp_path: Path, content: bytes, where: str, what: str
) -> None:
    path = tmp_path / "vectors.bin"
    path.write_bytes(content)
    with pytest.raises(WorkbenchError) as caught:
        read_vectors(path)
    assert caught.value.where == f"{path}{where}"
    assert what in caught.value.what


@pytest.mark.parametrize(
    "content", [gzip.compress(text())[:-20], text()], ids=["cut off", "not compressed"]
)
def test_a_gzip_file_that_is_cut_off_or_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "vectors.txt.gz").write_bytes(content)
    with pytest.raises(WorkbenchError, match="cannot be read"):
        read_vectors(tmp_path / "vectors.txt.gz")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="No such file"):
        read_vectors(tmp_path / "vectors.txt")


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda folder: (folder / "words.txt").unlink(), "No such file"),
        (lambda folder: (folder / "vectors.safetensors").unlink(), "No such file"),
        (lambda folder: (folder / "vectors.safetensors").write_bytes(b"none"), "cannot be read"),
        (lambda folder: (folder / "words.txt").write_bytes(b"\xff\n"), "not UTF-8"),
        (lambda folder: (folder / "words.txt").write_text("a\nb\n"), "2 words do not match"),
        (lambda folder: (folder / "words.txt").write_text("a\n" * 9), "a word occurs twice"),
    ],
)
def test_a_spoilt_folder_is_refused(tmp_path: Path, spoil: object, what: str) -> None:
    Vectors(WORDS, TABLE).save(tmp_path)
    spoil(tmp_path)  # type: ignore[operator]
    with pytest.raises(WorkbenchError, match=what):
        read_vectors(tmp_path)


def test_a_table_of_whole_numbers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"2 words do not match a table of int64 \[2, 3\]"):
        Vectors(["a", "b"], torch.ones(2, 3, dtype=torch.long))


def test_a_word_over_two_lines_cannot_be_saved_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="contains a line feed"):
        Vectors(["a\nb"], TABLE[:1]).save(tmp_path)
    assert not list(tmp_path.iterdir())
