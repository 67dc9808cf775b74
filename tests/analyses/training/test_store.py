"""Text in the store: the right tokens, the same however it was made, whole or not there."""

import bz2
import gzip
import json
import lzma
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests import warm
from tests.analyses.training.texts import paragraphs, tokenizer
from workbench import WorkbenchError
from workbench.analyses.training.packing import pack, sentence_batch
from workbench.analyses.training.shards import sentence_ends
from workbench.analyses.training.token_store import Store, chunks, open_store, tokenize_text
from workbench.analyses.training.tokenizers import Algorithm, Layout
from workbench.analyses.training.vocabulary import vocabulary_of

SMALL = 2_000  # bytes of a chunk, so that a small text has several
KINDS: list[tuple[Algorithm, Layout]] = [("bpe", "gpt"), ("wordpiece", "bert"), ("unigram", "t5")]


def written(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


@pytest.mark.parametrize(("algorithm", "layout"), KINDS)
def test_the_store_holds_each_document_as_the_tokenizer_cuts_it(
    algorithm: Algorithm, layout: Layout, tmp_path: Path
) -> None:
    made = tokenizer(algorithm, layout)
    lines = paragraphs(60)
    store = tokenize_text(lines, made, tmp_path, processes=1, chunk=SMALL)
    expected: list[int] = []
    for document in "\n".join(lines).split("\n\n"):
        for number, line in enumerate(document.strip("\n").split("\n")):
            more = number + 1 < len(document.strip("\n").split("\n"))
            expected += made(line + "\n" * more, add_special_tokens=False)["input_ids"]
        expected.append(vocabulary_of(made).end)  # type: ignore[arg-type]
    assert store.read(0, len(store)).tolist() == expected
    assert len(store.manifest.shards) > 3
    assert store.manifest.tokens == len(expected)
    assert store.manifest.documents == len(store.documents) == 12
    assert store.manifest.text_bytes == sum(len(line) + 1 for line in lines if line)


def test_sentences_and_documents_begin_where_they_do(tmp_path: Path) -> None:
    made = tokenizer("bpe", "gpt")
    lines = paragraphs(40)
    store = tokenize_text(lines, made, tmp_path, processes=1, chunk=SMALL)
    texts = [made.decode(store.sentence(n)).strip() for n in range(store.manifest.sentences)]
    texts = [text.removesuffix("<|endoftext|>") for text in texts]
    assert texts == [f"{s}." for line in lines for s in line.rstrip(".").split(". ") if line]
    firsts = [lines[0], *(after for line, after in pairwise(lines) if not line)]
    assert [texts[n] for n in store.documents] == [f"{t.split('.')[0]}." for t in firsts if t]
    places = store.sentence_starts(0, len(store))
    assert len(places) == store.manifest.sentences
    for first, last in ((0, 1), (17, 300), (len(store) - 9, len(store)), (5, 5)):
        inside = places[(places >= first) & (places < last)]
        assert store.sentence_starts(first, last).tolist() == inside.tolist()


def test_files_of_any_kind_and_lines_make_the_same_store(tmp_path: Path) -> None:
    made = tokenizer("wordpiece", "bert")
    text = "\r\n".join(["", "", *paragraphs(30), "", "  "]).encode()
    files = {"a.txt": text, "a.gz": gzip.compress(text), "a.xz": lzma.compress(text)}
    files["a.bz2"] = bz2.compress(text)
    stores = [tokenize_text(paragraphs(30), made, tmp_path / "lines", processes=1)]
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        stores.append(tokenize_text(tmp_path / name, made, tmp_path / name[2:], processes=1))
    assert len({store.manifest for store in stores}) == 1


def tokenised(home: Path, processes: int) -> list[int]:
    """The bytes that were done at each report; the text is read no faster, so memory is bounded."""
    read, done, ahead = 0, [], []

    def lines() -> Iterator[str]:
        nonlocal read
        for line in paragraphs(400):
            read += len(line) + 1
            yield line

    def progress(size: int) -> None:
        done.append(size)
        ahead.append(read - size)

    made = tokenizer("unigram", "t5")
    tokenize_text(lines(), made, home, processes=processes, chunk=SMALL, progress=progress)
    assert len(ahead) > 20
    assert max(ahead) < (2 * processes + 3) * SMALL
    return done


def test_in_parallel_and_in_turn_are_the_same_bytes(tmp_path: Path) -> None:
    """And the text is read no faster than it is tokenised."""
    one, two = (tokenised(tmp_path / str(processes), processes) for processes in (1, 2))
    assert written(tmp_path / "1") == written(tmp_path / "2")
    assert one == two == sorted(one)


def test_the_processes_import_neither_torch_nor_transformers() -> None:
    """Which takes longer than a chunk."""
    told = "import sys; import workbench.analyses.training.shards; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert "tokenizers" in found.stdout.split()
    assert not {"torch", "transformers", "spacy"} & set(found.stdout.split())


def test_what_is_there_is_not_made_again_and_what_grew_is_continued(tmp_path: Path) -> None:
    made = tokenizer("bpe", "gpt")
    first = tokenize_text(paragraphs(100), made, tmp_path, processes=1, chunk=SMALL)
    times = {path: path.stat().st_mtime_ns for path in first.folder.glob("*.npy")}
    made("cut to", truncation=True, max_length=3)  # what it was last asked for is no part of it
    again = tokenize_text(paragraphs(100), made, tmp_path, processes=1, chunk=SMALL)
    assert again.manifest == first.manifest
    grown = tokenize_text(paragraphs(130), made, tmp_path, processes=1, chunk=SMALL)
    assert grown.manifest.key != first.manifest.key
    assert grown.manifest.shards[:-5] == first.manifest.shards[: len(grown.manifest.shards) - 5]
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    other = tokenize_text(paragraphs(100), tokenizer("bpe", "gpt", 380), tmp_path, processes=1)
    assert other.folder != first.folder
    assert open_store(first.folder / f"{first.manifest.key}.json").manifest == first.manifest


WRITER = """
import sys, time
from pathlib import Path
from tests import warm
from tests.analyses.training.texts import paragraphs, tokenizer
from workbench.analyses.training import token_store
from workbench.analyses.training.shards import Worker
slow = Worker.write
def write(self, chunk, folder):
    slow(self, chunk, folder)
    print("shard", flush=True)
    time.sleep(0.03)
if __name__ == "__main__":
    processes = int(sys.argv[2])
    if processes == 1:
        Worker.write = write
    kwargs = dict(processes=processes, chunk=2000, progress=lambda n: print("done", flush=True))
    token_store.tokenize_text(paragraphs(400), tokenizer("bpe", "gpt"), Path(sys.argv[1]), **kwargs)
"""


@pytest.mark.parametrize(("processes", "kills"), [(1, (2, 5)), (2, (5,))])
def test_killed_and_resumed_equals_one_left_alone(
    tmp_path: Path, processes: int, kills: tuple[int, ...]
) -> None:
    made = tokenizer("bpe", "gpt")
    killed = tmp_path / "killed"
    for shards in kills:
        reading, writing = os.pipe()
        writer = warm.start("-c", WRITER, str(killed), str(processes), output=writing)
        os.close(writing)
        with open(reading) as told:  # noqa: PTH123
            for _ in range(shards):
                assert told.readline()
            writer.kill()
            told.read()  # its processes end with it, and so does what they print
        writer.join()
        assert not list(killed.rglob("*.json")), "no manifest before the end"
    before = {path: path.stat().st_mtime_ns for path in killed.rglob("[!.]*.ids.npy")}
    assert before
    resumed = tokenize_text(paragraphs(400), made, killed, processes=1, chunk=SMALL)
    alone = tokenize_text(paragraphs(400), made, tmp_path / "alone", processes=1, chunk=SMALL)
    assert resumed.manifest == alone.manifest
    assert written(killed) == written(tmp_path / "alone")
    assert all(path.stat().st_mtime_ns == at for path, at in before.items()), "work done twice"


def test_special_tokens_in_the_text_are_text(tmp_path: Path) -> None:
    made = tokenizer("bpe", "gpt")
    store = tokenize_text(["a <|endoftext|> b <|pad|>"], made, tmp_path)
    ids = store.read(0, len(store))
    assert ids.tolist().count(0) == 1
    assert ids[-1] == 0
    assert made.decode(ids[:-1]) == "a <|endoftext|> b <|pad|>"


def test_text_that_cannot_be_stored_is_said(tmp_path: Path) -> None:
    made = tokenizer("bpe", "gpt")
    for nothing in ([], [""], [" ", "\t"]):
        with pytest.raises(WorkbenchError, match="empty-text"):
            tokenize_text(nothing, made, tmp_path / "none")
    with pytest.raises(WorkbenchError, match="cannot be read"):
        tokenize_text(tmp_path / "missing.txt", made, tmp_path)
    (tmp_path / "latin.txt").write_bytes(b"good\ncaf\xe9\n")
    with pytest.raises(WorkbenchError, match=r"latin.txt:2: not UTF-8"):
        tokenize_text(tmp_path / "latin.txt", made, tmp_path / "s")
    store = tokenize_text(["word"], made, tmp_path / "one")
    with pytest.raises(WorkbenchError, match=r"fewer than one sequence of 64.*\n.*at most"):
        pack(store, vocabulary_of(made), 64)
    with pytest.raises(WorkbenchError, match="no room for text: 2"):
        pack(store, vocabulary_of(tokenizer("bpe", "bert")), 2)


def test_broken_stores_are_said(tmp_path: Path) -> None:
    store = tokenize_text(paragraphs(20), tokenizer("bpe", "gpt"), tmp_path)
    manifest = store.folder / f"{store.manifest.key}.json"
    good = manifest.read_text()
    for bad in ("{", "[]", json.dumps({**json.loads(good), "format": "other"}), "{}"):
        manifest.write_text(bad)
        with pytest.raises(WorkbenchError, match="store is damaged"):
            open_store(manifest)
    manifest.write_text(good)
    shard = next(store.folder.glob("*.ids.npy"))
    shard.write_bytes(shard.read_bytes()[:-10])
    with pytest.raises(WorkbenchError, match="shard is damaged"):
        open_store(manifest)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    home = tmp_path_factory.mktemp("store")
    return tokenize_text(
        paragraphs(200), tokenizer("wordpiece", "bert"), home, processes=1, chunk=SMALL
    )


@given(first=st.integers(0, 5000), length=st.integers(0, 3000))
def test_reading_across_shards_is_reading_the_whole(store: Store, first: int, length: int) -> None:
    whole = store.read(0, len(store))
    first = min(first, len(store))
    last = min(first + length, len(store))
    assert store.read(first, last).tolist() == whole[first:last].tolist()


def test_sequences_are_contiguous_framed_and_waste_nothing(store: Store) -> None:
    vocabulary = vocabulary_of(tokenizer("wordpiece", "bert"))
    packing = pack(store, vocabulary, 32)
    found = packing.sequences(np.arange(len(packing)))
    assert (found.tokens[:, 0] == 2).all()
    assert (found.tokens[:, -1] == 3).all()
    whole = store.read(0, len(packing) * 30)
    assert found.tokens[:, 1:-1].flatten().tolist() == whole.tolist()
    assert len(store) - len(whole) < 30
    assert torch.equal(found.special, vocabulary.special[found.tokens])
    starts = found.sentences[:, 1:-1].flatten().nonzero()[:, 0]
    assert starts.tolist() == store.sentence_starts(0, len(whole)).tolist()
    assert not found.sentences[:, [0, -1]].any()


@given(seed=st.integers(0, 9), position=st.integers(0, 2000), count=st.integers(1, 40))
def test_any_step_is_reached_without_the_ones_before(
    store: Store, seed: int, position: int, count: int
) -> None:
    packing = pack(store, vocabulary_of(tokenizer("wordpiece", "bert")), 32, seed)
    endless = packing.order(0, position + count)
    assert packing.order(position, count).tolist() == endless[position:].tolist()
    whole = packing.batch(position, count)
    parts = [packing.batch(position + i, 1) for i in range(count)]
    for tensor, pieces in zip(whole, zip(*parts, strict=True), strict=True):
        assert torch.equal(tensor, torch.cat(pieces))


def test_each_epoch_has_every_sequence_once_in_another_order(store: Store) -> None:
    vocabulary = vocabulary_of(tokenizer("wordpiece", "bert"))
    packing = pack(store, vocabulary, 32)
    size = len(packing)
    first, second = packing.order(0, size), packing.order(size, size)
    assert sorted(first) == sorted(second) == list(range(size))
    assert first.tolist() != second.tolist()
    assert first.tolist() != pack(store, vocabulary, 32, seed=1).order(0, size).tolist()


def test_sentences_in_a_batch_are_framed_and_padded(store: Store) -> None:
    vocabulary = vocabulary_of(tokenizer("wordpiece", "bert"))
    numbers = np.array([3, 0, store.manifest.sentences - 1])
    found = sentence_batch(store, vocabulary, numbers)
    for row, number in zip(found.tokens.tolist(), numbers, strict=True):
        inside = [token for token in store.sentence(number).tolist() if token != 3]
        assert [token for token in row if token] == [2, *inside, 3]


def test_sentences_end_at_full_stops_and_not_after_titles() -> None:
    def cut(line: str) -> list[str]:
        bounds = [0, *sentence_ends(line), len(line)]
        return [line[a:b].strip() for a, b in pairwise(bounds)]

    assert cut("It is. He said so! “Is it?” She left… and came. 5 more.") == [
        "It is.",
        "He said so!",
        "“Is it?”",
        "She left… and came.",
        "5 more.",
    ]
    assert cut("Mr. Bennet and J. Smith met Dr. Who at 3.5 p.m. today.") == [
        "Mr. Bennet and J. Smith met Dr. Who at 3.5 p.m. today."
    ]
    assert cut("日本。東京！") == ["日本。", "東京！"]
    assert cut("") == [""]


@given(lines=st.lists(st.text("ab \n", max_size=6), max_size=30), size=st.integers(1, 20))
def test_chunks_hold_the_text_whatever_their_size(lines: list[str], size: int) -> None:
    found = [line for chunk in chunks(lines, size) for line in chunk.lines]
    whole = [line for chunk in chunks(lines, 10**6) for line in chunk.lines]
    assert found == whole
    assert [line for line in found if line is not None] == [x.rstrip() for x in lines if x.strip()]
    assert all(chunk.lines[0] is not None for chunk in chunks(lines, size))
    assert not found or found[-1] is None
