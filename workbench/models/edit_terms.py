"""Edits of a model, as a reference names them: `mini:bert@edit:3.7=0,4.mlp=0.5,3.n45=mean`.

    3.7=0             head 7 of layer 3 is turned off
    4.attention=2     the output of the attention of layer 4 is doubled
    4.mlp=0.5         the output of the MLP of layer 4 is halved
    3.n45=mean        neuron 45 of the MLP of layer 3 is set to its mean
    decoder.3.7=0     the same head of the decoder of an encoder-decoder; also before other parts
    3.cross.7=0       a head of its attention to the encoder; 3.cross=0 is this attention
    2=0.5             of an ELMo, the states of layer 2
    5.RUN=2           the direction of layer 5 that a run of `steering` stored is added twice to the
                      states after layer 5; 5.RUN.3=2 that of its third pair of words,
                      embeddings.RUN=2 before layer 1, decoder.5.RUN=2 in an encoder-decoder

All numbers count from 1. The terms are separated by commas, and their order does not matter: an
edit is written in one way. A mean is that of the pieces of `mean_texts.txt`, or of given texts, in
the model without the edit. `interventions.edited` makes the changes. Costs: nothing.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.core.errors import WorkbenchError
from workbench.core.files import read_regular
from workbench.core.head_names import EMBEDDINGS, FIRST, head_number
from workbench.models.directions import direction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MEAN = "mean"
EXAMPLE = "3.7=0 turns head 7 of layer 3 off; 4.mlp=0.5 halves the MLP of layer 4"
_NUMBER = "[1-9][0-9]{0,5}"
_RUN = "[a-z][a-z0-9_]*(?:-[a-z0-9_]+)+"  # the name of a run, or the beginning of it
_TERM = re.compile(
    rf"(?P<stack>decoder\.)?(?P<layer>{_NUMBER}|embeddings(?=\.{_RUN}))"
    rf"(?:\.(?:(?P<part>attention|mlp|cross)|(?P<kind>cross\.|n)?(?P<number>{_NUMBER})"
    rf"|(?P<run>{_RUN})(?:\.(?P<pair>{_NUMBER}))?))?"
    rf"=(?P<value>{MEAN}|-?[0-9]{{1,6}}(?:\.[0-9]{{1,6}})?)"
)
_NUMBERED = {"head": "", "cross head": "cross.", "neuron": "n"}  # as they are written


class Term(NamedTuple):
    """One change: a part of a model, and the factor of its output, or None for its mean.

    Of a direction, the value is how many times it is added.
    """

    stack: str  # decoder, or "": the stack that reads the text
    layer: int  # from 1; 0: the embeddings, of a direction
    part: str  # head, cross head, attention, cross, mlp, neuron, layer or direction
    number: int  # of a head, a neuron, or the pair of words of a direction, from 1; else 0
    value: float | None
    run: str = ""  # that stored the direction

    @property
    def changes(self) -> bool:
        """Whether it changes anything: a factor of 1 and a direction added 0 times do not."""
        return self.value != (0 if self.run else 1)

    @property
    def place(self) -> str:
        """The part that is changed, as it is written."""
        if self.run:
            pair = f".{self.number}" if self.number > 1 else ""
            before = f"{self.stack}{'.' * bool(self.stack)}{self.layer or EMBEDDINGS}"
            return f"{before}.{self.run}{pair}"
        part = "" if self.part == "layer" else f".{_NUMBERED.get(self.part, self.part)}"
        return f"{self.stack}{'.' * bool(self.stack)}{self.layer}{part}{self.number or ''}"

    @property
    def site(self) -> str:
        """The name of this part for `wb.Write`."""
        number = f"{self.layer}.{self.number}"
        name = {
            "direction": f"block {self.layer}" if self.layer else EMBEDDINGS,
            "head": f"head {number}",
            "cross head": f"cross-attention head {number}",
            "neuron": f"neuron {number}",
            "cross": f"block {self.layer} cross-attention",
            "layer": f"block {self.layer}",
        }.get(self.part, f"block {self.layer} {self.part}")
        return f"{self.stack} {name}" if self.stack else name

    def __str__(self) -> str:
        return f"{self.place}={MEAN if self.value is None else format(self.value, '.12g')}"


def terms_of(edit: str) -> tuple[Term, ...]:
    """The terms of an edit in their order; those that change nothing, such as 3.7=1, are left out.

    Raises:
        WorkbenchError: A term cannot be read, or two terms change the same part.
    """
    return tuple(sorted((each for each in _read(edit) if each.changes), key=_order))


def _read(edit: str) -> Iterable[Term]:
    """The terms of an edit as they are written."""
    found: dict[str, Term] = {}
    for text in filter(None, (each.strip() for each in edit.split(","))):
        match = _TERM.fullmatch(text)
        if match is None:
            raise _invalid(f"{text!r:.60} is not an edit of a model", f"For example, {EXAMPLE}.")
        numbered = next(part for part, kind in _NUMBERED.items() if kind == (match["kind"] or ""))
        part = match["part"] or (numbered if match["number"] else "layer")
        if match["run"]:
            part = "direction"
            if match["value"] == MEAN:
                raise _invalid(f"{text:.60} has no strength", "Write a number, such as 2.")
        is_decoder = match["stack"] is not None and not part.startswith("cross")
        term = Term(
            "decoder" if is_decoder else "",
            0 if match["layer"] == EMBEDDINGS else int(match["layer"]),
            part,
            int(match["pair"] or 1) if match["run"] else int(match["number"] or 0),
            None if match["value"] == MEAN else float(match["value"]) + 0.0,
            match["run"] or "",
        )
        if term.place in found:
            raise _invalid(
                f"{term.place} is changed twice, in {edit!r:.60}", "Name each part once."
            )
        found[term.place] = term
    return found.values()


def _order(term: Term) -> tuple[str | int, ...]:
    return *term[:4], term.run


def written(edit: str) -> str:
    """The one way in which an edit is written.

    >>> written("4.mlp=0.50, 3.7=0, 2.1=1")
    '3.7=0,4.mlp=0.5'
    """
    return ",".join(map(str, terms_of(edit)))


def merged(edit: str, other: str) -> str:
    """An edit with the terms of another one, which replace its own of the same parts.

    >>> merged("4.mlp=0.5,3.7=0", "3.7=mean"), merged("3.7=0", "3.7=1")
    ('3.7=mean,4.mlp=0.5', '')
    """
    terms = {term.place: term for each in (edit, other) for term in _read(each)}
    return written(",".join(map(str, terms.values())))


def head_place(stack: str, kind: str, layer: int, head: int, has_several_stacks: bool) -> str:
    """How an edit names a head, by its indices in a table of heads.

    >>> head_place("decoder", "cross", 2, 6, True), head_place("encoder", "self", 2, 6, True)
    ('3.cross.7', '3.7')
    """
    before = "decoder." if has_several_stacks and (stack, kind) == ("decoder", "causal") else ""
    middle = ".cross" if kind == "cross" else ""
    return f"{before}{layer + FIRST}{middle}.{head + FIRST}"


def layer_places(
    stack: str, kinds: Iterable[str], layer: int, has_several_stacks: bool
) -> dict[str, str]:
    """How an edit names what a layer adds to the states, by its index, and the kinds of its heads.

    >>> layer_places("decoder", ["causal", "cross"], 2, True)
    {'attention': 'decoder.3.attention', 'cross-attention': '3.cross', 'MLP': 'decoder.3.mlp'}
    >>> layer_places("encoder", [], 2, False)
    {'layer': '3'}
    """
    number, before = layer + FIRST, "decoder." * (has_several_stacks and stack == "decoder")
    places = {"attention": f"{before}{number}.attention"}
    if "cross" in (kinds := set(kinds)):
        places["cross-attention"] = f"{number}.cross"
    return places | {"MLP": f"{before}{number}.mlp"} if kinds else {"layer": str(number)}


def changed_hash(content_hash: str, changes: str) -> str:
    """The content hash of a model with changes in its passes; "" for none."""
    text = f"{content_hash} {changes}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest() if changes else content_hash


def digest_of(edit: str, texts: Sequence[str] = ()) -> str:
    """What an edit adds to a content hash: itself, and the texts of its means."""
    if not edit:
        return ""
    read = "\n".join(texts or mean_texts()) if f"={MEAN}" in edit else ""
    for term in terms_of(edit):
        if term.run:  # the hash of a run is of its request, not of what it stored
            read += hashlib.blake2b(direction_of(term).tobytes(), digest_size=16).hexdigest()
    return f"@edit:{edit} {read}"


def mean_texts() -> list[str]:
    """The texts over which means are taken by default, of the built-in corpus."""
    return read_regular(Path(__file__).parent / "mean_texts.txt").decode("utf-8").splitlines()


def direction_of(term: Term) -> "NDArray[np.float32]":
    """The direction that a term adds.  # [width]"""
    return direction(term.run, term.number, term.layer)


def require_parts(
    terms: Iterable[Term],
    name: str,
    family: str,
    stacks: Sequence[Mapping[str, Any]],
    width: int,
) -> None:
    """Raise if a model, by its facts, has not all that an edit changes."""

    def missing(what: str, remedy: str, code: str = "layer-missing") -> WorkbenchError:
        return WorkbenchError(
            f"{name} ({family}) {what}.", code=code, where=f"@edit:{term}", remedy=remedy
        )

    has_heads = any(stack["heads"] for stack in stacks)
    for term in terms:
        if term.run:
            if family == "vectors":
                raise missing("has no states of words in context", "Choose another model.")
            if len(stacks) > 1 and not term.stack:
                what = f"predicts with its {stacks[-1]['name']}, which directions are of"
                raise missing(what, f"Write {stacks[-1]['name']}.{term}.")
        elif not has_heads and (term.part != "layer" or family != "elmo" or term.value is None):
            what = f"has no attention heads and no MLPs, so {term} changes nothing"
            elmo = "Scale its layers, such as 2=0.5, or choose a model with attention."
            remedy = elmo if family == "elmo" else "Choose a model with attention."
            raise missing(what, remedy, "no-attention")
        elif has_heads and term.part == "layer":
            part = f"{term.place}.attention=0,{term.place}.mlp=0"
            raise missing("is edited by parts of its layers", f"Name them: {part}.")
        is_decoder = term.stack or term.part.startswith("cross")
        stack = stacks[-1 if is_decoder else 0]
        if term.part.startswith("cross") and "cross" not in stack["kinds"]:
            raise missing("has no cross-attention", "Leave out .cross, or choose a T5 or a BART.")
        if term.stack and len(stacks) == 1:
            raise missing("has one stack", f"Leave out {term.stack}.")
        if term.layer > stack["layers"]:
            what = f"has no layer {term.layer} in its {stack['name']}"
            raise missing(what, f"Its layers are 1 to {stack['layers']}.")
        if term.part.endswith("head") and term.number > stack["heads"]:
            last = head_number(term.layer - 1, stack["heads"] - 1)
            what = f"has no head {term.layer}.{term.number} in its {stack['name']}"
            raise missing(what, f"The last head of this layer is {last}.", "head-missing")
        if term.run and (own := len(direction_of(term))) != width:
            what = f"has states of {width} numbers, and the direction of {term.run} has {own}"
            remedy = "Use a run of steering with this model, or with one of the same width."
            raise missing(what, remedy, "direction-misfit")


def _invalid(what: str, remedy: str) -> WorkbenchError:
    return WorkbenchError(f"{what}.", code="edit-invalid", remedy=remedy)
