"""The layers of a `Doc`, each with one name, and one way to read every layer as labelled edges.

A layer is stored in spaCy's own attribute if there is one, otherwise in an extension attribute:

| layer          | where it is stored                                                           |
|----------------|------------------------------------------------------------------------------|
| words          | the Doc itself; `doc.text` is the raw text, the input of a model             |
| sentences      | sentence starts                                                              |
| pos, tags      | UPOS and the treebank's own tags                                             |
| lemmas, morphs | lemma and features                                                           |
| dependencies   | heads and relations; a root is its own head, as always in spaCy              |
| entities       | `doc.spans["entities"]`, which may nest; else `doc.ents`                     |
| constituents   | `doc.spans["constituents"]`                                                  |
| coreference    | `doc.spans["coreference"]`: all mentions; those of a chain share their `id_` |
| segments       | `doc.spans["segments"]`: the two texts of a sentence-pair task               |
| answers        | `doc.spans["answers"]`: the spans that answer a question                     |
| anything else  | `doc._.edges[layer]`: labelled edges (roles, proto-roles, relations, …)      |

`doc._.labels` holds the labels of the whole text (`{"sentiment": "positive"}`, `{"relatedness":
3.6}`), `doc._.document` the name of the document that a Doc comes from, `doc._.sent_ids` one name
per sentence, `doc._.multiword` the ranges of words written as one, and `token._.form` a word's own
form if the text shows only a part of it ("im" = "in" + "dem").

The extension attributes exist once both spaCy and this module are imported, in any order; this
module does not import spaCy itself. Costs: one pass over the Doc per layer; coreference is
quadratic in the number of mentions.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from itertools import combinations
from operator import index
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.groups import grouped
from workbench.core.public import public

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Span
    from spacy.vocab import Vocab

Range = tuple[int, int]  # words from the first to one past the last


class Edge(NamedTuple):
    """One labelled span, or a labelled pair of spans; ranges are half-open over the Doc's words.

    Example:
        >>> doc = next(wb.read("primer").docs("test"))
        >>> from workbench.corpora import edges
        >>> edges(doc, "dependencies")[0].labels
        ('nsubj',)
    """

    span1: Range
    span2: Range | None
    labels: tuple[str, ...]


class Mention(NamedTuple):
    """A span with its label and, for coreference, the name of its chain."""

    start: int
    end: int
    label: str
    id: str = ""


TOKENS = "spacy.tokens"  # the module of Doc
LEFT_OUT = "left_out"  # in user_data of the first Doc of a stored table: the note on rows
_EXTENSIONS: dict[str, object] = {
    "edges": {},
    "labels": {},
    "document": "",
    "sent_ids": (),
    "multiword": (),
}


def _extend() -> None:
    from spacy.tokens import Doc, Token

    for name, default in _EXTENSIONS.items():
        if not Doc.has_extension(name):
            Doc.set_extension(name, default=default)
    if not Token.has_extension("form"):
        Token.set_extension("form", default="")


class _WhenImported(MetaPathFinder):
    """Extends Docs when `spacy.tokens` is first imported."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != TOKENS:
            return None
        sys.meta_path.remove(self)  # otherwise find_spec would call this method again
        try:
            spec = find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_extend(module: ModuleType) -> None:
                load(module)
                _extend()

            spec.loader.exec_module = load_and_extend  # type: ignore[method-assign]
        return spec


if TOKENS in sys.modules:
    _extend()
else:
    sys.meta_path.insert(0, _WhenImported())


def set_spans(doc: "Doc", layer: str, mentions: Iterable[Mention]) -> None:
    """Write a span layer into `doc.spans`, in the order of `mentions`."""
    from spacy.tokens import Span, SpanGroup

    spans = [Span(doc, m.start, m.end, label=m.label, span_id=m.id) for m in mentions]
    doc.spans[layer] = SpanGroup(doc, name=layer, spans=spans)


def mentions(doc: "Doc", layer: str) -> list[Mention]:
    """The spans of a layer of a Doc; without an `entities` layer, `doc.ents` is used."""
    spans: Iterable[Span]
    if layer in doc.spans:
        spans = doc.spans[layer]
    else:
        spans = doc.ents if layer == "entities" else ()
    return [Mention(s.start, s.end, s.label_, s.id_) for s in spans]


def chains(doc: "Doc") -> dict[str, list[Mention]]:
    """Coreference chains by name, mentions in text order."""
    return grouped((mention.id, mention) for mention in sorted(mentions(doc, "coreference")))


def _word_edges(attribute: str) -> "Callable[[Doc], Iterator[Edge]]":
    def edges_of(doc: "Doc") -> Iterator[Edge]:
        for token in doc:
            if label := str(getattr(token, attribute)):
                yield Edge((token.i, token.i + 1), None, (label,))

    return edges_of


def _dependencies(doc: "Doc") -> Iterator[Edge]:
    """An edge from each dependent to its head; a root has no head, so no edge."""
    for token in doc:
        if token.head.i != token.i and token.dep_:
            yield Edge((token.i, token.i + 1), (token.head.i, token.head.i + 1), (token.dep_,))


def _spans(layer: str) -> "Callable[[Doc], Iterator[Edge]]":
    def edges_of(doc: "Doc") -> Iterator[Edge]:
        for m in mentions(doc, layer):
            yield Edge((m.start, m.end), None, (m.label,))

    return edges_of


def _coreference(doc: "Doc") -> Iterator[Edge]:
    """Every pair of mentions, earlier first; label "1" if they share a chain, otherwise "0"."""
    for first, second in combinations(sorted(mentions(doc, "coreference")), 2):
        same = "1" if first.id == second.id else "0"
        yield Edge((first.start, first.end), (second.start, second.end), (same,))


_READ: "dict[str, Callable[[Doc], Iterator[Edge]]]" = {
    "pos": _word_edges("pos_"),
    "tags": _word_edges("tag_"),
    "dependencies": _dependencies,
    "entities": _spans("entities"),
    "constituents": _spans("constituents"),
    "answers": _spans("answers"),
    "coreference": _coreference,
}

_ATTRIBUTES = {
    "pos": "POS",
    "tags": "TAG",
    "lemmas": "LEMMA",
    "morphs": "MORPH",
    "dependencies": "DEP",
    "sentences": "SENT_START",
}


def layers(doc: "Doc") -> set[str]:
    """The names of the layers of this Doc; labels appear as `label:NAME`."""
    names = {"words"}
    names |= {layer for layer, attribute in _ATTRIBUTES.items() if doc.has_annotation(attribute)}
    if len(doc) < 2:
        names.discard("sentences")  # spaCy marks a single word as a sentence start in any case
    if not len(doc):
        names -= set(_ATTRIBUTES)  # spaCy reports every attribute for a Doc without words
    names |= {str(name) for name in doc.spans}
    if doc.has_annotation("ENT_IOB"):
        names.add("entities")
    names |= set(doc._.edges)
    names |= {f"label:{name}" for name in doc._.labels}
    return names


def checked_edge(doc: "Doc", edge: Any) -> Edge:
    """The edge as an `Edge`; ValueError or TypeError if it is not a valid edge of this Doc."""
    span1, span2, labels = edge
    second = None if span2 is None else checked_range(doc, span2)
    return Edge(checked_range(doc, span1), second, tuple(map(checked_text, labels)))


def checked_range(doc: "Doc", words: Any) -> Range:
    """The range of words; ValueError if the Doc does not have these words."""
    start, end = map(index, words)
    if not 0 <= start <= end <= len(doc):
        raise ValueError(f"there are no words {start} to {end}")
    return start, end


def checked_text(value: Any) -> str:
    """The value; ValueError if it is not text."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.80} is not text")
    return value


@public
def edges(doc: "Doc", layer: str) -> list[Edge]:
    """Read a layer of a Doc as labelled edges, the input of probes.

    Args:
        doc: A Doc of a corpus.
        layer: Name of the layer, such as `dependencies`.

    Returns:
        The edges, in the order of the text: `span1`, `span2` (None of a single span) and `labels`.
        Spans are ranges of words, from the first to one past the last.

    Raises:
        WorkbenchError: The Doc has no such layer, or one of its edges is not within the Doc.

    Example:
        >>> doc = next(wb.read("primer").docs("test"))
        >>> from workbench.corpora import edges
        >>> edges(doc, "dependencies")[0]
        Edge(span1=(0, 1), span2=(1, 2), labels=('nsubj',))
    """
    if layer in doc._.edges:
        try:
            return [checked_edge(doc, edge) for edge in doc._.edges[layer]]
        except (TypeError, ValueError) as error:
            raise WorkbenchError(
                f"an edge of {layer!r} is invalid: {error}.",
                code="edge-invalid",
                where=_where(doc),
                remedy="Write an edge as (first words, second words or None, labels): ranges "
                "(start, end) of this Doc's words, and labels as text.",
            ) from None
    present = layers(doc)
    if layer not in _READ or layer not in present:
        known = (present & set(_READ)) | set(doc._.edges)
        raise WorkbenchError(
            f"there is no layer {layer!r}.",
            code="layer-missing",
            where=_where(doc),
            remedy=did_you_mean(layer, known),
        )
    return list(_READ[layer](doc))


def _where(doc: "Doc") -> str:
    return doc._.document or f"the text {doc.text[:40]!r}"


# --- the vocabulary that the Docs of one reader share: a language's, without its tokenizer --------
#
# Gold words need no tokenizer, so languages whose tokenizer is a separate package can be read too.
# Costs: nothing; of the first of a language 10 ms, or the import of its rules if these are large.


def vocabulary(language: str) -> "Vocab":
    """A new vocabulary for a language code such as `en`; `xx` stands for any language."""
    from spacy.vocab import create_vocab

    try:
        kind = _language(language)
    except (ImportError, AttributeError, TypeError, ValueError):
        raise WorkbenchError(
            f"spaCy does not know the language {language!r}.",
            code="language-unknown",
            remedy="Use a code such as en, de or zh; xx stands for any language.",
        ) from None
    return create_vocab(kind.lang, kind.Defaults)


@cache
def _language(code: str) -> "type[Language]":
    from spacy.util import get_lang_class  # it asks every installed package each time

    return get_lang_class(code)


FEW_DOCUMENTS = 5


def document_numbers(docs: Sequence["Doc"]) -> list[int]:
    """The document of each Doc, from 0: what a bootstrap resamples.

    If there are only a few documents, such as the files of a table whose rows are independent, each
    Doc counts as one: resampling one or two documents gives intervals without width.
    """
    numbers: dict[str, int] = {}
    found = [
        numbers.setdefault(doc._.document or f"text {index}", len(numbers))
        for index, doc in enumerate(docs)
    ]
    return found if len(numbers) >= FEW_DOCUMENTS else list(range(len(docs)))
