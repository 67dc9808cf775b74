"""200,000 sentences through every reader: `python -m tests.attack.many_sentences`.

Each format is read to its end twice, a tenth of it and all, in processes of their own: the memory
that is held at most must not grow with the length. Costs a few minutes a format.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.attack.fuzz import _held

BLOCK = 2_000  # sentences that are written again and again
GROWTH = 200  # MiB that reading ten times as much may hold more
FORMATS = (".conllu", ".conll", ".jsonl", ".mrg", ".tsv", ".csv", ".txt", ".spacy")


def main() -> int:
    """Read every format; 1 where memory grows with the length, or sentences are lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack.many_sentences")
    parser.add_argument("--sentences", type=int, default=200_000, help="how many (default 200,000)")
    parser.add_argument("--only", choices=FORMATS, action="append", help="these formats")
    parser.add_argument("--read", type=Path, help="read this file and say what it took")
    options = parser.parse_args()
    if options.read:
        return _read(options.read)
    wrong = 0
    print("format    sentences  seconds     held  of a tenth")
    with tempfile.TemporaryDirectory(prefix="attack-sentences-") as folder:
        for suffix in options.only or FORMATS:
            told = []
            for number in (options.sentences // 10, options.sentences):
                path = Path(folder) / f"many{suffix}"
                _written(path, number)
                command = [sys.executable, "-m", "tests.attack.many_sentences", "--read", path]
                said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                found, seconds, held = said.split()
                told.append((int(found), float(seconds), int(held)))
                wrong += int(found) != number
            (_, _, less), (found_all, took, more) = told
            wrong += more - less > GROWTH
            print(f"{suffix:8} {found_all:10,} {took:8.1f} {more:4} MiB {less:7} MiB", flush=True)
    return 1 if wrong else 0


def _read(path: Path) -> int:
    from workbench import read

    began = time.monotonic()
    number = sum(1 for _ in read(path))
    print(number, f"{time.monotonic() - began:.1f}", _held("VmHWM") >> 20)
    return 0


def _written(path: Path, number: int) -> None:
    """So many sentences of the built-in corpus, a block of them over and over."""
    from workbench import read, write

    docs = list(read("primer:size=20000").docs("train", limit=BLOCK))
    if path.suffix == ".spacy":
        write((docs[at % BLOCK] for at in range(number)), path)
        return
    head = b""
    if path.suffix in (".conllu", ".jsonl"):
        block = path.with_name(f"block{path.suffix}")
        write(docs, block, layer="dependencies" if path.suffix == ".jsonl" else None)
        content = block.read_bytes()
        block.unlink()
    else:
        columns = {".tsv": "sentence\tlabel\n", ".csv": "sentence,label\n"}
        head = columns.get(path.suffix, "").encode()
        content = "".join(map(_LINES[path.suffix], docs)).encode()
    with path.open("wb") as file:
        file.write(head)
        for _ in range(number // BLOCK):
            file.write(content)


_LINES: dict[str, Callable[..., str]] = {
    ".conll": lambda doc: "".join(f"{word.text} {word.tag_} O\n" for word in doc) + "\n",
    ".mrg": lambda doc: f"(S {' '.join('(X w)' for word in doc)})\n",
    ".tsv": lambda doc: f"{doc.text}\t1\n",
    ".csv": lambda doc: f'"{doc.text.replace(chr(34), chr(34) * 2)}",1\n',
    ".txt": lambda doc: f"{doc.text}\n",
}


if __name__ == "__main__":
    sys.exit(main())
