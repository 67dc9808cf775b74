"""Corpus files of every format, changed at random, through reader, faults, counts and writers.

Costs milliseconds a case.
"""

import bz2
import gzip
import lzma
import random
import zlib
from collections.abc import Callable
from pathlib import Path

from tests.attack.mutations import changed
from workbench import WorkbenchError

_COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
_samples: dict[str, list[bytes]] = {}


def prepare(folder: Path) -> None:
    """Sound files of every format, small and larger."""
    from tests.corpora.test_byte_soup import SAMPLES, sample
    from workbench import read, write
    from workbench.corpora.formats import formats

    for suffix in formats():
        _samples[suffix] = [sample(suffix)]
    for suffix, layer in ((".conllu", None), (".spacy", None), (".jsonl", "dependencies")):
        path = folder / f"primer{suffix}"
        write(read("primer").docs("test", limit=40), path, layer=layer)
        _samples[suffix].append(path.read_bytes())
    _samples[".txt"].append(
        "\n".join(doc.text for doc in read("primer").docs("test", limit=200)).encode()
    )
    assert SAMPLES.keys() <= _samples.keys()


def case(draw: random.Random, folder: Path) -> tuple[str, Callable[[], object]]:
    """A file that was changed, or several of them as one corpus."""
    suffix = draw.choice(list(_samples))
    several = draw.random() < 0.1
    names = ["train", "dev"] if several else [draw.choice(["x", "dev", "some.train", "é x"])]
    outer = draw.choice(list(_COMPRESS)) if suffix != ".spacy" and draw.random() < 0.15 else ""
    for name in names:
        content = draw.choice(_samples[suffix])
        if suffix == ".spacy" and draw.random() < 0.7:
            content = zlib.compress(changed(draw, zlib.decompress(content)))
        else:
            content = changed(draw, content)
        if outer:
            content = _COMPRESS[outer](content)
            content = changed(draw, content, 1) if draw.random() < 0.5 else content
        path = folder / f"{name}{suffix}{outer}"
        path.write_bytes(content)
    options = {
        "unit": draw.choice(["sentence", "sentence", "document"]),
        "text": draw.choice([(), (), "sentence", ("sentence", "label")]),
        "labels": draw.choice([(), (), "label"]),
    }
    return suffix, lambda: _read(folder if several else path, path, options)


def _read(ref: Path, path: Path, options: dict[str, object]) -> None:
    """Read it, count it, write it; where the reader refuses, the list of faults has one."""
    from tests.corpora.strategies import contents
    from workbench import describe, encode, read, write
    from workbench.corpora import edges
    from workbench.corpora.content_hash import content_hash
    from workbench.corpora.layers import layers
    from workbench.corpora.validate import faults

    kept = {name: options[name] for name in ("text", "labels")}
    try:
        corpus = read(ref, **options)  # type: ignore[arg-type]
        docs = list(corpus)
    except WorkbenchError as error:
        if not error.where:
            raise AssertionError(f"the error names no file: {error}") from None
        if ref == path and not faults(path, **kept):  # type: ignore[arg-type]
            raise AssertionError(f"refused, yet without a fault: {error}") from None
        raise
    if ref == path and options["unit"] == "sentence":
        found = faults(path, **kept)  # type: ignore[arg-type]
        assert not found, f"read, yet with a fault: {found[0]}"
    content_hash(corpus)
    for doc in docs[:50]:
        contents(doc)
        for layer in layers(doc) & {"pos", "tags", "dependencies", "entities", "coreference"}:
            edges(doc, layer)
        assert all(doc.text[t.idx : t.idx + len(t)] == t.text for t in doc)
    if docs:
        describe(corpus)
        encode(docs[:20])
        for ending in (".spacy", ".conllu"):
            out = path.with_name(f"out{ending}")
            try:
                write(docs[:50], out)
            except WorkbenchError:
                continue
            assert len(list(read(out))) >= min(len(docs), 50) or ending == ".conllu"
