"""Bracketed trees of the Penn Treebank, one Doc per tree.

    ( (S (NP-SBJ-1 (DT The) (NN cat)) (VP (VBZ sleeps)) (. .)) )

A tree may span many lines. An outer bracket without a label, TOP and ROOT are not constituents.
Function tags and indices are removed (NP-SBJ-1 is NP). Traces (-NONE-) are removed, with the
constituents that they leave empty and the trees that hold nothing else. Constituents are ordered
outermost first, with complete unary chains; tags of words are not constituents. In words, -LRB- and
similar codes become brackets, and escaped slashes and stars are unescaped; the quotes `` and ''
stay. The file does not store the original spacing: words are joined by single spaces.

Costs: about 1.5 s for 10,000 trees; one tree of any depth is in memory at a time.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from spacy.tokens import Doc
from spacy.vocab import Vocab

from workbench.core.errors import WorkbenchError
from workbench.core.files import numbered_lines, stem
from workbench.corpora.corpus import Options, Reading
from workbench.corpora.layers import Mention, set_spans, vocabulary

READS = (".mrg", ".ptb", ".parse")
PLACE = 4  # in lists of formats

_SYMBOL = re.compile(r"[()]|[^()\s]+", re.ASCII)  # other spaces of Unicode occur inside words
_BRACKETS = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
}
_OUTER = ("", "TOP", "ROOT")
_FORM = "Write trees as (S (NP (DT The) (NN cat)) (VP (VBZ sleeps)))."


@dataclass
class _Node:
    """A bracket that is still open."""

    line: int
    start: int  # number of words before it
    index: int  # in the tree's list of constituents, before those inside it
    label: str | None = None
    word: str | None = None
    parent: bool = False


@dataclass
class _Tree:
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    constituents: list[Mention | None] = field(default_factory=list)  # None: not a constituent


def reader(paths: Sequence[Path], options: Options) -> Reading:
    """A reader of trees: one Doc per tree, with tags and constituents; there are no documents."""
    return Reading(partial(_docs, vocab=vocabulary(options.language)))


def _docs(path: Path, vocab: Vocab) -> Iterator[Doc]:
    document = stem(path)
    for tree in _trees(path):
        words = len(tree.words)
        if not words:
            continue
        doc = Doc(
            vocab,
            words=tree.words,
            spaces=[True] * (words - 1) + [False],
            tags=tree.tags,
            sent_starts=[True, *[False] * (words - 1)],
        )
        doc._.document, doc._.sent_ids = document, ("",)
        set_spans(doc, "constituents", (m for m in tree.constituents if m is not None))
        yield doc


def _trees(path: Path) -> Iterator[_Tree]:
    tree, nodes = _Tree(), list[_Node]()  # from the root to the innermost open bracket
    for line, symbol in _symbols(path):
        if symbol == "(":
            _open(tree, nodes, line, path)
        elif not nodes:
            closing = symbol == ")"
            what = "this bracket was never opened" if closing else "there is text outside brackets"
            raise _malformed(what, path, line)
        elif symbol == ")":
            _close(tree, nodes.pop(), path)
            if not nodes:
                yield tree
                tree = _Tree()
        else:
            _fill(nodes[-1], symbol, path, line)
    if nodes:
        raise _malformed("this bracket is never closed", path, nodes[0].line)


def _symbols(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in numbered_lines(path):
        for symbol in _SYMBOL.findall(line):
            yield number, symbol


def _open(tree: _Tree, nodes: list[_Node], line: int, path: Path) -> None:
    if nodes:
        if nodes[-1].word is not None:
            raise _malformed("a bracket opens next to a word", path, line)
        nodes[-1].parent = True
    nodes.append(_Node(line, len(tree.words), len(tree.constituents)))
    tree.constituents.append(None)


def _fill(node: _Node, symbol: str, path: Path, line: int) -> None:
    """The first symbol in a bracket is its label, the second its word."""
    if node.parent:
        raise _malformed(f"the word {symbol!r:.40} is next to a bracket", path, line)
    if node.label is None:
        node.label = symbol
    elif node.word is None:
        node.word = symbol
    else:
        raise _malformed(f"{symbol!r:.40} is a second word in one bracket", path, line)


def _close(tree: _Tree, node: _Node, path: Path) -> None:
    label = node.label or ""
    if node.word is not None:
        if label != "-NONE-":
            tree.words.append(_unescaped(node.word))
            tree.tags.append(label)
    elif not node.parent:
        raise _malformed("this bracket holds no word", path, node.line)
    elif len(tree.words) > node.start and label not in _OUTER:
        tree.constituents[node.index] = Mention(node.start, len(tree.words), _category(label))


def _category(label: str) -> str:
    """A label without function tags and indices."""
    return label if label.startswith("-") else re.split("[-=]", label)[0] or label


def _unescaped(word: str) -> str:
    return _BRACKETS.get(word, word).replace(r"\/", "/").replace(r"\*", "*")


def _malformed(what: str, path: Path, line: int) -> WorkbenchError:
    return WorkbenchError(f"{what}.", code="file-format", where=f"{path}:{line}", remedy=_FORM)
