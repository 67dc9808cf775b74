"""The occurrences of the words of a corpus, with their states in every layer of a model.

A table has a row for each occurrence, with its form, lemma, tag and relation. The states come from
the activation store, in single precision and memory-mapped. Both are kept in Workbench's cache,
under hashes of the model, of the corpus and of the request, so that the second index of the same
corpus reads neither the texts nor the model. Costs: one forward pass, the first time, and 4 bytes
per number on disk: 250,000 words take 0.6 GB with 5 layers of width 128, and 10 GB with 13 of 768.
An index that is on disk opens in half a second; a layer is read from disk when it is first used.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from workbench.analyses.words.nearest import Rows
from workbench.core import machine
from workbench.core.arrays import Ints
from workbench.core.display import Displayed
from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.files import DAMAGED, reason_of, require_regular, unwritable
from workbench.core.findings import plural
from workbench.core.public import public
from workbench.corpora.content_hash import content_hash
from workbench.corpora.corpus import Corpus
from workbench.corpora.encode import encode
from workbench.corpora.layers import edges
from workbench.corpora.layers import layers as layers_of
from workbench.engine import batch as batches
from workbench.engine.activation_store import word_states
from workbench.engine.batch import Batch
from workbench.engine.model import Model, not_a_number
from workbench.engine.taps import StackName

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

OnProgress = Callable[[int, int], object]  # texts done, texts in total

FORMAT = "workbench-occurrences-1"
MOST = 250_000  # default maximum number of occurrences
ROOM = 60  # characters on either side of a word in its context
CATEGORIES = ("form", "lemma", "tag", "relation")
COLUMNS = ("doc", "word", "sentence", "position", "start", "end", *CATEGORIES)


# --- the words of a corpus ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Words:
    """The occurrences of words in some texts, their sentences, and the encoded texts.

    `table` has a row for each occurrence: `doc` and `word` are indices in the batch, `sentence` is
    a row of `sentences`, `position` the index of the word in its sentence, and `start` and `end`
    are its characters in the sentence. `sentences` has the split, the document and the text.
    """

    table: pd.DataFrame
    sentences: pd.DataFrame
    batch: Batch

    def only(self, rows: Ints) -> "Words":
        """Some of the occurrences; the texts stay."""
        table = self.table.iloc[rows].reset_index(drop=True)
        return Words(table, self.sentences, self.batch)


def tabulated(docs: "Iterable[tuple[str, Doc]]", labels: Sequence[str] = ()) -> Words:
    """The words of Docs, each with the name of its split, without white space.

    `labels` are layers whose spans of one word label this word; they become columns.
    """
    rows: list[tuple[Any, ...]] = []
    sentences: list[tuple[str, str, str]] = []

    def recorded() -> "Iterator[Doc]":
        for number, (split, doc) in enumerate(docs):
            given = [_labels(doc, layer) for layer in labels]
            name = doc._.document or f"text {number}"
            for sentence in _sentences(doc):
                begin = sentence.start_char
                for position, token in enumerate(sentence):
                    if token.is_space:
                        continue
                    start = token.idx - begin
                    tag, form = token.pos_ or token.tag_, token._.form or token.text
                    rows.append(
                        (number, token.i, len(sentences), position, start, start + len(token),
                         form, token.lemma_, tag, token.dep_,
                         *(each.get(token.i, "") for each in given))
                    )  # fmt: skip
                sentences.append((split, name, sentence.text))
            yield doc

    batch = encode(recorded())
    table = pd.DataFrame(rows, columns=[*COLUMNS, *labels])
    kinds: dict[str, Any] = dict.fromkeys([*CATEGORIES, *labels], "category")
    kinds |= {name: np.int32 for name in COLUMNS if name not in CATEGORIES}
    about = pd.DataFrame(sentences, columns=["split", "document", "text"])
    return Words(table.astype(kinds), about, batch)


def _sentences(doc: "Doc") -> "Iterable[Span]":
    """The sentences of a Doc; a Doc without sentence boundaries is one."""
    return doc.sents if doc.has_annotation("SENT_START") else [doc[:]]


def _labels(doc: "Doc", layer: str) -> dict[int, str]:
    """The label of each word that is a span of a layer."""
    if layer not in layers_of(doc):
        return {}
    return {
        edge.span1[0]: "+".join(edge.labels)
        for edge in edges(doc, layer)
        if edge.span2 is None and edge.span1[1] - edge.span1[0] == 1
    }


def sampled(words: Words, most: int | None, seed: int) -> Words:
    """At most so many occurrences, drawn at random, in the order of the texts."""
    if most is None or len(words.table) <= most:
        return words
    random = np.random.default_rng([seed, len(words.table)])
    return words.only(np.sort(random.choice(len(words.table), most, replace=False)))


def in_context(text: str, start: int, end: int, room: int = ROOM) -> str:
    """A word with the characters before and after it, on one line: `… before [word] after …`."""
    before, word, after = around(text, start, end, room)
    return f"{before}[{word}]{after}"


def around(text: str, start: int, end: int, room: int = ROOM) -> tuple[str, str, str]:
    """The characters before a word, the word, and those after it, on one line, cut at spaces."""
    before, word, after = (
        " ".join(part.split()) for part in (text[:start], text[start:end], text[end:])
    )
    if len(before) > room:
        cut = before[-room:]
        before = f"… {cut.partition(' ')[2] or cut}"
    if len(after) > room:
        cut = after[:room]
        after = f"{cut.rpartition(' ')[0] or cut} …"
    gaps = text[:start][-1:].isspace(), text[end:][:1].isspace()
    return f"{before}{' ' * gaps[0]}", word, f"{' ' * gaps[1]}{after}"


# --- with their states ----------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class Occurrences(Displayed):
    """The occurrences of words in a corpus, with the states of every layer of a model.

    `table` has a row for each occurrence, and `sentences` one for each sentence.

    Args:
        model: Name of the model.
        corpus: Name of the corpus.
        table: A row for each occurrence, with `sentence` (a row of `sentences`), `start`, `end`
            (its characters in the sentence), `position`, `form`, `lemma`, `tag`, `relation`.
        sentences: A row for each sentence, with `split`, `document` and `text`.
        stacks: The states of each layer of each stack, embeddings first.
        model_hash: Content hash of the model (default: not compared with that of a query's model).
        sample_of: The number of words of the corpus, if the index is a sample of them (default: 0).

    Example:
        >>> model = wb.load("mini:bert", device="cpu")
        >>> wb.occurrences(model, wb.read("primer:size=40"), split="test")
        <Occurrences mini:bert in primer:size=40: 35 words, 4 sentences; encoder of 4 layers>
    """

    model: str
    corpus: str
    table: pd.DataFrame
    sentences: pd.DataFrame
    stacks: Mapping[StackName, Sequence[Tensor]]  # [layers + 1] of [occurrences, width]
    model_hash: str = ""
    sample_of: int = 0
    _rows: dict[tuple[str, int], Rows] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        """The model, the corpus, and the size."""
        stacks = ", ".join(f"{name} of {len(own) - 1} layers" for name, own in self.stacks.items())
        size = f"{len(self):,} words, {plural(len(self.sentences), 'sentence')}"
        return f"<Occurrences {self.model} in {self.corpus}: {size}; {stacks}>"

    @cached_property
    def lowered(self) -> tuple[Ints, dict[str, int]]:
        """The lower-case form of each occurrence as a code, and the code of each such form."""
        codes, names = lowered_codes(self.table["form"])
        return codes, {name: code for code, name in enumerate(names)}

    def require_split(self, name: str | None) -> None:
        """An error if the index has no sentence of this split."""
        names = self.sentences["split"].unique().tolist()
        if name is not None and name not in names:
            raise WorkbenchError(
                f"the index has no split {name!r:.60}.",
                code="split-not-found",
                where=self.corpus,
                remedy=did_you_mean(name, names),
            )

    def stack(self, name: str | None) -> StackName:
        """The stack of this name (default: the first one, which reads the text)."""
        for own in self.stacks:
            if name in (None, own):
                return own
        raise WorkbenchError(
            f"{self.model} has no {name} stack.",
            code="setting-invalid",
            remedy=f"Its stacks are {', '.join(self.stacks)}.",
        )

    def rows(self, stack: StackName, layer: int) -> Rows:
        """The states of one layer with their norms; norms are computed once."""
        layers = self.stacks[stack]
        if not 0 <= layer < len(layers):
            raise WorkbenchError(
                f"there is no layer {layer}.",
                code="layer-missing",
                where=self.model,
                remedy=f"Choose a layer from 0 (the embeddings) to {len(layers) - 1}.",
            )
        if (stack, layer) not in self._rows:
            rows = Rows.of(layers[layer])
            if not bool(rows.norms.isfinite().all()):
                raise not_a_number(self.model, "texts of the corpus")
            self._rows[stack, layer] = rows
        return self._rows[stack, layer]

    def notes(self, rows: Rows, chosen: NDArray[np.bool_] | None = None) -> list[str]:
        """Notes on a sample, and on occurrences without a state in these rows.

        # chosen: [occurrences]
        """
        notes = []
        if self.sample_of:
            notes.append(
                f"{len(self):,} of {self.sample_of:,} words are searched, drawn at random."
            )
        missing = (rows.norms == 0).numpy()
        of = np.ones(len(self), dtype=bool) if chosen is None else chosen
        if n_missing := int((missing & of).sum()):
            notes.append(
                f"{n_missing:,} of {plural(of.sum(), 'word')} have no state: they are beyond the "
                "end of what the model reads, have no piece of their own, or are unknown to it."
            )
        return notes

    def sentence_of(self, occurrence: int) -> str:
        """The text of the sentence of an occurrence."""
        row = self.table["sentence"].to_numpy(np.int64)[occurrence]
        return str(self.sentences["text"].to_numpy()[row])

    def described(self, occurrences: Sequence[int] | Ints) -> pd.DataFrame:
        """Some occurrences with their forms, labels, places and sentences."""
        own = self.table.iloc[np.asarray(occurrences, dtype=np.int64)]
        where = self.sentences.iloc[own["sentence"]].reset_index(drop=True)
        names = [name for name in own.columns if name not in ("doc", "word", "sentence")]
        shown = own[names].reset_index(drop=True)
        labels = shown.select_dtypes("category").columns
        shown = shown.astype(dict.fromkeys(labels, object))
        shown.insert(0, "occurrence", np.asarray(occurrences, dtype=np.int64))
        return shown.assign(
            split=where["split"], document=where["document"], sentence=where["text"]
        )


def require_counts(**counts: int | None) -> None:
    """An error for a count below 1; None is no limit."""
    for name, value in counts.items():
        if value is not None and value < 1:
            raise WorkbenchError(
                f"{name} is {value}.", code="setting-invalid", remedy="Use 1 or more."
            )


def lowered_codes(forms: pd.Series) -> tuple[Ints, list[str]]:
    """Lower-case forms as codes, and the form of each code.  # [occurrences]"""
    known = forms.cat.categories.str.lower()
    codes, names = pd.factorize(known)
    return codes[forms.cat.codes.to_numpy()].astype(np.int64), list(names)


@public
def occurrences(
    model: Model,
    corpus: Corpus,
    *,
    split: str | None = None,
    max_occurrences: int | None = MOST,
    labels: Sequence[str] = (),
    seed: int = 0,
    home: str | Path | None = None,
    on_progress: OnProgress | None = None,
) -> Occurrences:
    """Index the words of a corpus by their states in every layer of a model.

    The index is kept in the cache, by the content of model and corpus: the second time it is read
    from there. `wb.neighbours` and `wb.senses` make it when they need it.

    Args:
        model: Any `Model`, static vectors included.
        corpus: The corpus.
        split: The split to use (default: all).
        max_occurrences: Maximum number of occurrences, drawn at random (default 250,000).
        labels: Layers of the corpus whose spans of one word label this word, such as senses.
        seed: Seed of the draw (default 0).
        home: Folder of the index (default: in Workbench's cache).
        on_progress: Function that is called with the number of texts done, and of all texts.

    Returns:
        `Occurrences`, whose states are memory-mapped.

    Raises:
        WorkbenchError: The corpus has no words or no such layer, or the disk has no room.

    Example:
        >>> model = wb.load("mini:bert", device="cpu")
        >>> index = wb.occurrences(model, wb.read("primer:size=40"), split="test")
        >>> index.table["form"].astype(str).tolist()[:3], index.stacks["encoder"][4].shape
        (['Ben', 'walks', 'to'], torch.Size([35, 128]))
    """
    require_counts(max_occurrences=max_occurrences)
    corpus.require(labels, "this index")
    folder = machine.home() / "words" if home is None else Path(home)
    words = _read_or_written(corpus, split, max_occurrences, labels, seed, folder)
    if not len(words.table):
        raise WorkbenchError(
            "the corpus has no words.",
            code="corpus-empty",
            where=corpus.name if split is None else f"{corpus.name}, {split}",
            remedy="Name a corpus or a split with texts.",
        )
    stacks = states_of(model, words, folder, on_progress)
    n_words = len(words.batch.words)
    is_sample = max_occurrences is not None and len(words.table) == max_occurrences < n_words
    return Occurrences(
        model.name,
        corpus.name,
        words.table,
        words.sentences,
        stacks,
        model.content_hash,
        n_words if is_sample else 0,
    )


def states_of(
    model: Model, words: Words, home: Path, on_progress: OnProgress | None = None
) -> dict[StackName, tuple[Tensor, ...]]:
    """The states of the occurrences in every layer of every stack, memory-mapped.

    # [layers + 1] of [occurrences, width]
    """
    spans = None
    if len(words.table) < len(words.batch.words):
        first = words.table["word"].to_numpy(np.int64)
        spans = np.stack([words.table["doc"].to_numpy(np.int64), first, first + 1], 1)
    n_layers = sum(stack.layers + 1 for stack in model.stacks)
    _require_room(home, 4 * n_layers * len(words.table) * model.width)
    stores, _ = word_states(
        model,
        words.batch,
        home,
        spans=spans,
        kind="fp32",
        progress=on_progress and (lambda now: on_progress(now.done, now.total)),
    )
    return {
        name: tuple(store.layer(layer) for layer in range(store.description.layers + 1))
        for name, store in stores.items()
    }


def _require_room(home: Path, size: int) -> None:
    """An error if the disk is smaller than this: a memory-mapped file would end the process."""
    folder = home
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if size > free:
        raise WorkbenchError(
            f"the states need {size / 1e9:,.1f} GB, and the disk has {free / 1e9:,.1f} GB free.",
            code="disk-full",
            where=str(home),
            remedy="Use fewer occurrences (max_occurrences), or another disk (WORKBENCH_HOME).",
        )


# --- the words of a corpus on disk ----------------------------------------------------------------


def _read_or_written(
    corpus: Corpus,
    split: str | None,
    most: int | None,
    labels: Sequence[str],
    seed: int,
    home: Path,
) -> Words:
    """The words of a corpus, from disk if they were read before."""
    corpus.docs(split, 0)  # raises if there is no such split
    files = [path.name for _, path in corpus.origin.files] if corpus.origin else []
    request = [FORMAT, content_hash(corpus), files, split, most, [*labels], seed]
    key = hashlib.blake2b(json.dumps(request).encode(), digest_size=16).hexdigest()
    folder = home / f"words-{key}"
    if folder.is_dir():
        return _read(folder)
    names = [*corpus.splits] if split is None else [split]
    docs = ((name, doc) for name in names for doc in corpus.docs(name))
    words = sampled(tabulated(docs, labels), most, seed)
    _write(words, folder)
    return words


def _read(folder: Path) -> Words:
    try:
        table, sentences = (
            pd.read_parquet(require_regular(folder / f"{name}.parquet"))
            for name in ("occurrences", "sentences")
        )
        return Words(table, sentences, batches.load(folder / "batch.safetensors"))
    except DAMAGED as error:
        raise WorkbenchError(
            f"this index of words cannot be read: {reason_of(error)}.",
            code="file-format",
            where=str(folder),
            remedy="Delete the folder; it is made again when needed.",
        ) from None


def _write(words: Words, folder: Path) -> None:
    """Write complete or not at all; what another process wrote meanwhile is equivalent."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".writing-", dir=folder.parent))
    except OSError as error:
        raise unwritable(folder, error) from None
    try:
        words.table.to_parquet(draft / "occurrences.parquet", index=False)
        words.sentences.to_parquet(draft / "sentences.parquet", index=False)
        batches.save(words.batch, draft / "batch.safetensors")
        draft.rename(folder)
    except OSError as error:
        if not folder.is_dir():
            raise unwritable(folder, error) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


# --- forms ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """A word form of the corpus: how often it occurs, and with which tags."""

    form: str
    n: int
    tags: tuple[tuple[str, int], ...]  # the most frequent first

    @property
    def second(self) -> int:
        """Occurrences with the second most frequent tag."""
        return self.tags[1][1] if len(self.tags) > 1 else 0


def frequent_forms(index: Occurrences, fewest: int) -> list[Form]:
    """Forms that occur this often; first those with a second tag that is frequent."""
    codes, names = index.lowered
    tags = index.table["tag"].cat
    n_tags = max(1, len(tags.categories))
    cells = codes * n_tags + np.maximum(tags.codes.to_numpy(), 0)
    counts = np.bincount(cells, minlength=len(names) * n_tags).reshape(len(names), n_tags)
    found = []
    for name, code in names.items():
        n = int(counts[code].sum())
        if n >= fewest and any(map(str.isalpha, name)):
            own = np.argsort(-counts[code], kind="stable").tolist()
            labels = [(str(tags.categories[tag]), int(counts[code][tag])) for tag in own]
            found.append(Form(name, n, tuple(each for each in labels if each[0] and each[1])))
    return sorted(found, key=lambda form: (-form.second, -form.n, form.form))


def form_count(index: Occurrences, form: str) -> int:
    """How often a form occurs, in any case."""
    codes, names = index.lowered
    return int((codes == names.get(form.lower(), -1)).sum())
