"""Edits of a model, as a reference names them: `mini:bert@edit:3.7=0,4.mlp=0.5,3.n45=mean`.

    3.7=0             head 7 of layer 3 is turned off
    4.attention=2     the output of the attention of layer 4 is doubled
    4.mlp=0.5         the output of the MLP of layer 4 is halved
    3.n45=mean        neuron 45 of the MLP of layer 3 is set to its mean
    decoder.3.7=0     the same head of the decoder of an encoder-decoder; also before other parts
    3.cross.7=0       a head of its attention to the encoder; 3.cross=0 is this attention
    2=0.5             of an ELMo, the states of layer 2

All numbers count from 1. The terms are separated by commas, and their order does not matter: an
edit is written in one way. A mean is that of the pieces of `mean_texts.txt`, or of given texts, in
the model without the edit. `interventions.edited` makes the changes. Costs: nothing.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from workbench.core.errors import WorkbenchError
from workbench.core.files import read_regular
from workbench.core.head_names import FIRST, head_number

MEAN = "mean"
EXAMPLE = "3.7=0 turns head 7 of layer 3 off; 4.mlp=0.5 halves the MLP of layer 4"
_NUMBER = "[1-9][0-9]{0,5}"
_TERM = re.compile(
    rf"(?P<stack>decoder\.)?(?P<layer>{_NUMBER})"
    rf"(?:\.(?:(?P<part>attention|mlp|cross)|(?P<kind>cross\.|n)?(?P<number>{_NUMBER})))?"
    rf"=(?P<value>{MEAN}|-?[0-9]{{1,6}}(?:\.[0-9]{{1,6}})?)"
)
_NUMBERED = {"head": "", "cross head": "cross.", "neuron": "n"}  # as they are written


class Term(NamedTuple):
    """One change: a part of a model, and the factor of its output, or None for its mean."""

    stack: str  # decoder, or "": the stack that reads the text
    layer: int  # from 1
    part: str  # head, cross head, attention, cross, mlp, neuron or layer
    number: int  # of a head or neuron, from 1; else 0
    value: float | None

    @property
    def place(self) -> str:
        """The part that is changed, as it is written."""
        part = "" if self.part == "layer" else f".{_NUMBERED.get(self.part, self.part)}"
        return f"{self.stack}{'.' * bool(self.stack)}{self.layer}{part}{self.number or ''}"

    @property
    def site(self) -> str:
        """The name of this part for `wb.Write`."""
        number = f"{self.layer}.{self.number}"
        name = {
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
    found: dict[str, Term] = {}
    for text in filter(None, (each.strip() for each in edit.split(","))):
        match = _TERM.fullmatch(text)
        if match is None:
            raise _invalid(f"{text!r:.60} is not an edit of a model", f"For example, {EXAMPLE}.")
        numbered = next(part for part, kind in _NUMBERED.items() if kind == (match["kind"] or ""))
        part = match["part"] or (numbered if match["number"] else "layer")
        is_decoder = match["stack"] is not None and not part.startswith("cross")
        term = Term(
            "decoder" if is_decoder else "",
            int(match["layer"]),
            part,
            int(match["number"] or 0),
            None if match["value"] == MEAN else float(match["value"]) + 0.0,
        )
        if term.place in found:
            raise _invalid(
                f"{term.place} is changed twice, in {edit!r:.60}", "Name each part once."
            )
        found[term.place] = term
    return tuple(sorted((each for each in found.values() if each.value != 1), key=_order))


def _order(term: Term) -> tuple[str | int, ...]:
    return term[:4]


def written(edit: str) -> str:
    """The one way in which an edit is written.

    >>> written("4.mlp=0.50, 3.7=0, 2.1=1")
    '3.7=0,4.mlp=0.5'
    """
    return ",".join(map(str, terms_of(edit)))


def with_value(edit: str, place: str, value: str) -> str:
    """The edit with another value of one part, which 1 leaves out.

    >>> with_value("4.mlp=0.5,3.7=0", "3.7", "mean"), with_value("3.7=0", "3.7", "1")
    ('3.7=mean,4.mlp=0.5', '')
    """
    others = [str(term) for term in terms_of(edit) if term.place != place]
    return written(",".join([*others, f"{place}={value}"]))


def head_place(stack: str, kind: str, layer: int, head: int, has_several_stacks: bool) -> str:
    """How an edit names a head, by its indices in a table of heads.

    >>> head_place("decoder", "cross", 2, 6, True), head_place("encoder", "self", 2, 6, True)
    ('3.cross.7', '3.7')
    """
    before = "decoder." if has_several_stacks and (stack, kind) == ("decoder", "causal") else ""
    middle = ".cross" if kind == "cross" else ""
    return f"{before}{layer + FIRST}{middle}.{head + FIRST}"


def changed_hash(content_hash: str, changes: str) -> str:
    """The content hash of a model with changes in its passes; "" for none."""
    text = f"{content_hash} {changes}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest() if changes else content_hash


def digest_of(edit: str, texts: Sequence[str] = ()) -> str:
    """What an edit adds to a content hash: itself, and the texts of its means."""
    if not edit:
        return ""
    read = "\n".join(texts or mean_texts()) if f"={MEAN}" in edit else ""
    return f"@edit:{edit} {read}"


def mean_texts() -> list[str]:
    """The texts over which means are taken by default, of the built-in corpus."""
    return read_regular(Path(__file__).parent / "mean_texts.txt").decode("utf-8").splitlines()


def require_parts(
    terms: Iterable[Term], name: str, family: str, stacks: Sequence[Mapping[str, Any]]
) -> None:
    """Raise if a model, by its facts, has not all that an edit changes."""

    def missing(what: str, remedy: str, code: str = "layer-missing") -> WorkbenchError:
        return WorkbenchError(
            f"{name} ({family}) {what}.", code=code, where=f"@edit:{term}", remedy=remedy
        )

    has_heads = any(stack["heads"] for stack in stacks)
    for term in terms:
        if not has_heads and (term.part != "layer" or family != "elmo" or term.value is None):
            what = f"has no attention heads and no MLPs, so {term} changes nothing"
            elmo = "Scale its layers, such as 2=0.5, or choose a model with attention."
            remedy = elmo if family == "elmo" else "Choose a model with attention."
            raise missing(what, remedy, "no-attention")
        if has_heads and term.part == "layer":
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


def _invalid(what: str, remedy: str) -> WorkbenchError:
    return WorkbenchError(f"{what}.", code="edit-invalid", remedy=remedy)
