"""For any bytes in a file, a reader returns valid Docs or a WorkbenchError with the file name."""

import zlib
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.corpora.strategies import contents
from tests.night import mostly
from workbench import WorkbenchError
from workbench.corpora.corpus import Options
from workbench.corpora.formats import formats
from workbench.corpora.layers import edges, layers
from workbench.corpora.readers import conllu, docbin

pytestmark = pytest.mark.usefixtures("one_pipeline")

CONLLU = """\
# newdoc id = one
# global.Entity = GRP-etype-infstat
# sent_id = 1
1-2\tIm\t_\t_\t_\t_\t_\t_\t_\t_
1\tIn\tin\tADP\tIN\t_\t3\tcase\t_\tEntity=(1-place-new
2\tdem\tder\tDET\tDT\tCase=Dat|Number=Sing\t3\tdet\t_\t_
3\tWald\tWald\tNOUN\tNN\t_\t0\troot\t_\tEntity=(2[1/2]-animal-new)1)|SpaceAfter=No
3.1\tx\t_\t_\t_\t_\t_\t_\t3:dep\t_

# sent_id = 2
1\t_\t_\tPUNCT\t.\t_\t0\troot\t_\t_
"""
EDGES = """\
{"text": "The dog barks", "info": {}, "targets": [{"span1": [2, 3], "span2": [0, 2], "label": "A"}]}
{"text": "It rains", "targets": [{"span1": [0, 1], "label": ["B", "C"]}]}
"""
TREES = (
    "(TOP (S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .)))\n(S (NP (-NONE- *)) (VP (VB Go)))\n"
)
ENTITIES = """\
-DOCSTART- -X- O O

# id 7
Mary NNP B-NP B-PER
saw VBD B-VP O

York\t_\t_\tS-LOC
"""
SAMPLES = {
    ".conllu": CONLLU,
    ".conll": ENTITIES,
    ".bio": ENTITIES,
    ".jsonl": EDGES,
    ".json": EDGES,
    ".mrg": TREES,
    ".ptb": TREES,
    ".parse": TREES,
    ".tsv": "sentence\tlabel\nThe dog barks.\t1\nIt rains.\t0\n",
    ".csv": 'sentence,label\n"The dog, it barks.",1\nIt rains.,0\n',
    ".txt": "The dog barks.\n\nA new paragraph.\n",
}
SNIPPETS = [
    *(b"\n\n", b"\t", b"\r\n", b"\x00", b"\xff", "\u2028".encode(), b'"', b"\\", b",", b":", b"#"),
    *(b"(", b")", b"[", b"]", b"{", b"}", b"_", b"-1", b"0", b"1-2", b"1.1", b"9" * 30, b"1e999"),
    *(b"Entity=(1-x", b"Entity=1)", b"SpaceAfter=No", b"null", b"NaN", b"-NONE-", b"# newdoc\n"),
]
DRAWN = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "overwrite", "delete", "repeat", "cut"]),
        st.floats(0, 1),
        st.one_of(st.sampled_from(SNIPPETS), st.binary(min_size=1, max_size=8)),
    ),
    min_size=1,
    max_size=4,
)
ALIKE = {".bio", ".json", ".ptb", ".parse"}  # read as .conll, .jsonl, and .mrg are
SUFFIXES = pytest.mark.parametrize("suffix", mostly(formats(), *(formats().keys() - ALIKE)))


def changed(content: bytes, edits: list[tuple[str, float, bytes]]) -> bytes:
    for kind, place, piece in edits:
        at = round(place * len(content))
        before, after = content[:at], content[at:]
        match kind:
            case "insert":
                content = before + piece + after
            case "overwrite":
                content = before + piece + after[len(piece) :]
            case "delete":
                content = before + after[len(piece) :]
            case "repeat":
                content = before + after[:40] + after
            case "cut":
                content = before
    return content


@cache
def sample(suffix: str) -> bytes:
    """A sound file of two Docs; the `.spacy` one is written from the CoNLL-U one."""
    if suffix in SAMPLES:
        return SAMPLES[suffix].encode()
    assert suffix.startswith(".spacy"), f"give {suffix} a sample in SAMPLES"
    with TemporaryDirectory() as folder:
        text, packed = Path(folder) / "x.conllu", Path(folder) / "x.spacy"
        text.write_text(CONLLU)
        docbin.write(conllu.reader([text], Options()).docs(text), packed)
        return packed.read_bytes()


def read_soundly(path: Path, unit: str = "sentence") -> int:
    """The number of Docs; each must give all its layers."""
    try:
        reading = import_module(formats()[path.suffix]).reader([path], Options(unit=unit))
        docs = list(reading.docs(path))
    except WorkbenchError as error:
        if not error.where.startswith(str(path)):
            pytest.fail(f"the error does not say which file: {error}")
        return 0
    for doc in docs:
        contents(doc)
        for layer in layers(doc) & {"pos", "tags", "dependencies", "entities", "coreference"}:
            edges(doc, layer)
        assert all(doc.text[t.idx : t.idx + len(t)] == t.text for t in doc)
        if "sentences" in layers(doc):
            assert sum(map(len, doc.sents)) == len(doc)
    return len(docs)


@SUFFIXES
def test_the_samples_themselves_are_sound(suffix, tmp_path):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(sample(suffix))
    assert read_soundly(path) == 2


@SUFFIXES
@DRAWN
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_arbitrary_bytes(suffix, content, tmp_path):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    read_soundly(path)


@SUFFIXES
@DRAWN
@given(edits=EDITS, unit=st.sampled_from(["sentence", "document"]))
@example(edits=[("cut", 0.5, b"")], unit="document")
def test_a_good_file_that_was_changed(suffix, edits, unit, tmp_path):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(changed(sample(suffix), edits))
    read_soundly(path, unit)


@DRAWN
@given(edits=EDITS)
def test_a_spacy_file_that_was_changed_inside(edits, tmp_path):
    path = tmp_path / "x.spacy"
    path.write_bytes(zlib.compress(changed(zlib.decompress(sample(".spacy")), edits)))
    read_soundly(path)


@SUFFIXES
def test_a_file_that_cannot_be_opened(suffix, tmp_path):
    path = tmp_path / f"x{suffix}"
    path.mkdir()
    assert read_soundly(path) == 0
