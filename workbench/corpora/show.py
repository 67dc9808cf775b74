"""A Doc as text for people: its trees in the order of the words, then one line per other layer.

       ┌─ 1 The  DET   det
    ┌─ 2 dog     NOUN  nsubj
    3 barks      VERB  root

Each head has its left dependents above it and its right ones below, so the words read downwards (if
the tree has no crossing arcs). Costs: one pass over the Doc per function.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from workbench.core.groups import grouped
from workbench.corpora.layers import Edge, Mention, chains, edges, mentions

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

_KNOWN_SPANS = {"constituents", "coreference", "entities", "segments"}


def shown(doc: "Doc") -> str:
    """All layers of a Doc as text."""
    lines = [doc.text.strip() or "(no text)"]
    lines += [f"  {line}".rstrip() for line in _word_lines(doc)]
    lines += [f"  {name}: {text}" for name, text in _layer_lines(doc)]
    return "\n".join(lines)


def doc_name(doc: "Doc") -> str:
    """The sentence's name if the Doc is one sentence with a name, else the document's name."""
    return str(doc._.sent_ids[0] if len(doc._.sent_ids) == 1 else doc._.document)


def as_data(doc: "Doc") -> dict[str, Any]:
    """All layers of a Doc as plain data; ranges are half-open over the words."""
    words: dict[str, Any] = {"text": [token.text for token in doc]}
    if doc.has_annotation("POS"):
        words["upos"] = [token.pos_ for token in doc]
    if doc.has_annotation("TAG"):
        words["xpos"] = [token.tag_ for token in doc]
    if doc.has_annotation("LEMMA"):
        words["lemma"] = [token.lemma_ for token in doc]
    if doc.has_annotation("MORPH"):
        words["morph"] = [str(token.morph) for token in doc]
    if doc.has_annotation("DEP"):
        words["head"] = [token.head.i for token in doc]
        words["relation"] = [token.dep_ for token in doc]
    names = {str(name) for name in doc.spans} | ({"entities"} if doc.ents else set())
    spans = {name: [mention._asdict() for mention in mentions(doc, name)] for name in sorted(names)}
    starts = [sentence.start for sentence in doc.sents] if doc.has_annotation("SENT_START") else []
    return {
        "text": doc.text,
        "document": doc._.document,
        "sentences": starts,
        "words": words,
        "spans": spans,
        "edges": {name: [edge._asdict() for edge in edges(doc, name)] for name in doc._.edges},
        "labels": dict(doc._.labels),
    }


def tree_lines(tokens: "list[Token]") -> list[str]:
    """The tree over these words as lines; each word with its tag and relation."""
    inside = {token.i for token in tokens}
    dependents = grouped((token.head.i, token) for token in tokens if not _is_root(token, inside))
    drawn = [
        line
        for root in tokens
        if _is_root(root, inside)
        for line in _in_order(root, dependents, tokens[0].i)
    ]
    return _columns([(text, token.pos_ or token.tag_, token.dep_) for text, token in drawn])


def _is_root(token: "Token", inside: set[int]) -> bool:
    return token.head.i == token.i or token.head.i not in inside


def _in_order(
    root: "Token", dependents: "dict[int, list[Token]]", first: int
) -> "Iterator[tuple[str, Token]]":
    """Each word with the branches before it: left dependents above their head, right ones below.

    A branch has three forms: on its word's line, above it and below it. The stack is explicit,
    because a chain of heads may be longer than Python's recursion limit.
    """
    stack: list[tuple[Token, str, str, str, bool]] = [(root, "", "", "", False)]
    while stack:
        token, here, above, below, opened = stack.pop()
        if opened:
            yield f"{here}{token.i - first + 1} {token.text}", token
            continue
        left = [child for child in dependents.get(token.i, []) if child.i < token.i]
        right = [child for child in dependents.get(token.i, []) if child.i > token.i]
        for child in reversed(right):
            last = child is right[-1]
            after = below + ("   " if last else "│  ")
            stack.append((child, below + ("└─ " if last else "├─ "), below + "│  ", after, False))
        stack.append((token, here, above, below, True))
        for child in reversed(left):
            top = child is left[0]
            before = above + ("   " if top else "│  ")
            stack.append((child, above + ("┌─ " if top else "├─ "), before, above + "│  ", False))


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows as lines, each column as wide as its widest cell; empty columns are left out."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(c.ljust(width) for c, width in zip(row, widths, strict=True) if width).rstrip()
        for row in rows
    ]


def _word_lines(doc: "Doc") -> Iterator[str]:
    """A tree per sentence; else words with tags; else the words, if they differ from the text."""
    if doc.has_annotation("DEP"):
        sentences = list(doc.sents)
        for sentence in sentences:
            if len(sentences) > 1:
                yield ""
            yield from tree_lines(list(sentence))
    elif doc.has_annotation("POS") or doc.has_annotation("TAG"):
        yield " ".join(f"{token.text}/{token.pos_ or token.tag_}" for token in doc)
    elif (words := " ".join(token.text for token in doc)) != doc.text.strip():
        yield words


def _layer_lines(doc: "Doc") -> Iterator[tuple[str, str]]:
    if segments := mentions(doc, "segments"):
        yield "segments", " | ".join(_text(doc, m.start, m.end) for m in segments)
    if constituents := mentions(doc, "constituents"):
        yield "constituents", bracketed(doc, constituents) or _listed(doc, constituents)
    if entities := mentions(doc, "entities"):
        yield "entities", _listed(doc, entities)
    all_chains = chains(doc)
    several = {name: chain for name, chain in all_chains.items() if len(chain) > 1}
    for name, chain in several.items():
        yield f"chain {name}", " = ".join(f"[{_text(doc, m.start, m.end)}]" for m in chain)
    if single := len(all_chains) - len(several):
        yield "chains of one mention", str(single)
    for layer in sorted({str(name) for name in doc.spans} - _KNOWN_SPANS):
        if spans := mentions(doc, layer):
            yield layer, _listed(doc, spans)
    for layer in doc._.edges:
        for edge in edges(doc, layer):
            yield layer, _edge(doc, edge)
    for label, value in doc._.labels.items():
        yield label, "unknown" if value is None else str(value)


def bracketed(doc: "Doc", constituents: list[Mention]) -> str:
    """Constituents as one bracketed string; empty if two of them cross."""
    opening: dict[int, list[Mention]] = {}
    closing = [0] * (len(doc) + 1)
    for mention in sorted(constituents, key=lambda m: (m.start, -m.end)):
        opening.setdefault(mention.start, []).append(mention)
        closing[mention.end] += 1
    ends: list[int] = []
    text = ""
    for token in doc:
        for mention in opening.get(token.i, []):
            if ends and mention.end > ends[-1]:
                return ""
            ends.append(mention.end)
            text += f"({mention.label} "
        text += token.text
        closed = closing[token.i + 1]
        ends = ends[: len(ends) - closed]
        text += ")" * closed + " "
    return text.strip()


def _listed(doc: "Doc", spans: list[Mention]) -> str:
    return "; ".join(f"[{_text(doc, m.start, m.end)}] {m.label}".strip() for m in spans)


def _edge(doc: "Doc", edge: Edge) -> str:
    labels = ", ".join(edge.labels) or "no label"
    first = f"[{_text(doc, *edge.span1)}]"
    second = f" → [{_text(doc, *edge.span2)}]" if edge.span2 else ""
    return f"{first}{second} {labels}"


def _text(doc: "Doc", start: int, end: int) -> str:
    return doc[start:end].text
