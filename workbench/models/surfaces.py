"""Where in the text each token of a Python tokenizer came from, found by its spelling.

Such tokenizers (ByT5's, CANINE's, CTRL's, those on sentencepiece) tell no characters. Tokens are
read from left to right and compared with the text: as they stand, else without their marks and
folded on both sides (`spelling`). A lone mark is the space before what follows. What fits nowhere,
such as an unknown token, takes the text up to the next tokens that do fit: a unit each (letters in
a row, an ideograph, a sign) where there are as many units as tokens, else equal shares of the
characters. That last rule is a guess; the others are not. Costs about 2 µs a character.
"""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

from transformers import PreTrainedTokenizerBase

from workbench.models.spelling import (
    Line,
    Span,
    as_bytes,
    characters,
    folded,
    forms,
    in_bytes,
    speaks_bytes,
    stands_alone,
    unmarked,
    unseen,
)

CONTEXT = 12  # as many characters of tokens are looked for in a row
AFTER = 8  # as many tokens past one that was found again are tried


def locate(tokenizer: PreTrainedTokenizerBase, text: str, tokens: Sequence[str]) -> list[Span]:
    """The characters of each token."""
    if speaks_bytes(tokenizer):
        return _walk(in_bytes(text), [as_bytes(token) for token in tokens], unknown="")
    groups = list(characters(tokens))
    unknown = str(tokenizer.unk_token)
    spans = _walk(folded(text), [surface for surface, _ in groups], unknown)
    return [span for span, (_, count) in zip(spans, groups, strict=True) for _ in range(count)]


def _walk(line: Line, surfaces: Sequence[str], unknown: str) -> list[Span]:
    """Place tokens one after the other; where one does not fit, go on where the next ones do."""
    spelled = [None if surface == unknown else line.spell(surface) for surface in surfaces]
    spans: list[Span] = []
    at, here = 0, 0  # the next character, the next sign
    while (i := len(spans)) < len(surfaces):
        found, there = _fit(line, surfaces, spelled, i, at, here)
        if found is None:
            token, there = _anchor(line, spelled, i, here)
            spans += _shares(line.text, (at, line.where[there]), token - i)
            at = line.where[there]
        else:
            spans.append(found)
            at = min(found[1], line.where[there])
        here = there
    starts = accumulate((first for first, _ in spans), max)  # tokens come in the order of the text
    ends = accumulate((last for _, last in spans), max)
    return list(zip(starts, ends, strict=True))


def _fit(
    line: Line,
    surfaces: Sequence[str],
    spelled: Sequence[str | None],
    i: int,
    at: int,
    here: int,
) -> tuple[Span | None, int]:
    """The characters of the next token, if it fits, and the sign after it."""
    text, surface, spelling = line.text, surfaces[i], spelled[i]
    inside = here and line.where[here - 1] == line.where[here]
    if line.folds and not inside:
        start = _past_spaces(text, at, unmarked(surface)[:1])
        for form in forms(surface):
            if text.startswith(form, start):
                return (start, start + len(form)), line.begin[start + len(form)]
        if not unmarked(surface):
            return _before_next(line, surface, surfaces[i + 1 : i + 2], at, start, here), here
    if spelling and not line.folds and not line.signs.startswith(spelling, here):
        spelling = spelling.removeprefix(" ")  # put before the text by the tokenizer
    if spelling is None or not line.signs.startswith(spelling, here):
        return None, here
    if not spelling:  # an accent, say, that the text has not by itself
        follows = at > 0 and not text[at - 1].isspace()
        place = at - 1 if follows else line.where[here]
        return (place, min(place + 1, len(text))), here
    there = here + len(spelling)
    return (line.where[here], line.before(there)), there


def _past_spaces(text: str, at: int, wanted: str) -> int:
    """The next character that is no white space, or is the white space that is wanted."""
    while at < len(text) and text[at].isspace() and text[at] != wanted:
        at += 1
    return at


def _before_next(
    line: Line, mark: str, following: Sequence[str], at: int, start: int, here: int
) -> Span:
    """The place of a lone mark: the space before the next token, or one of several before it."""
    token = following[0] if following else ""
    if token[:1] == mark[:1]:  # a space of its own, and the next token has another
        return at, min(at + 1, start)
    exact = line.text.find(token, at, start + len(token)) if token else -1
    end = exact if exact >= 0 else line.where[here]
    return max(at, end - 1), end


def _anchor(line: Line, spelled: Sequence[str | None], i: int, here: int) -> tuple[int, int]:
    """The next token that is found again, and its place.

    Of the next few, that with most characters of it and of those after it found in a row, less the
    characters of the text passed over and twice those of the known tokens.
    """
    best, most = (len(spelled), len(line.signs)), -math.inf
    for j in range(i, len(spelled)):
        if j > best[0] + AFTER:
            break
        passed = [spelling for spelling in spelled[i:j] if spelling is not None]
        unknown = j - i - len(passed)
        for context in _contexts(spelled, j):
            there = _found(line, context, here + unknown, unknown > 0)
            if there >= 0:
                worth = len(context) - (there - here) - 2 * len("".join(passed))
                best, most = ((j, there), worth) if worth > most else (best, most)
                break
    return best


def _contexts(spelled: Sequence[str | None], j: int) -> list[str]:
    """A token with those after it up to an unknown one, then with ever fewer of them."""
    contexts: list[str] = []
    for spelling in spelled[j:]:
        if spelling is None or (contexts and len(contexts[0]) >= CONTEXT):
            break
        contexts.insert(0, (contexts[0] if contexts else "") + spelling)
    return [context for context in contexts if context]


def _found(line: Line, context: str, start: int, parted: bool) -> int:
    """Where the signs come next, at the beginning of a word if so wished and possible; or −1."""
    there = first = line.signs.find(context, start)
    while parted and there >= 0 and not line.parted(there):
        there = line.signs.find(context, there + 1)
    return there if there >= 0 else first


def _shares(text: str, span: Span, tokens: int) -> list[Span]:
    """A stretch of text shared out among tokens of which none is known to be where."""
    if not tokens:
        return []
    units = _units(text, *span)
    if len(units) == tokens:
        return units
    first, last = (units[0][0], units[-1][1]) if units else span
    edges = [first + (last - first) * k // tokens for k in range(tokens + 1)]
    return [(low, max(high, min(low + 1, last))) for low, high in pairwise(edges)]


def _units(text: str, first: int, last: int) -> list[Span]:
    """Characters in a row up to a space; ideographs and punctuation each by itself."""
    units: list[Span] = []
    joins = False
    for place in range(first, last):
        alone = stands_alone(text[place])
        if unseen(text[place]):
            continue
        if text[place].isspace():
            joins = False
        elif joins and not alone:
            units[-1] = units[-1][0], place + 1
        else:
            units.append((place, place + 1))
            joins = not alone
    return units
