"""What a planted model is: a real model, its tokenizer, and the answers its heads must give.

Costs 7 MB on disk for BERT or GPT-2, and milliseconds to run on a sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spacy.tokens import Doc
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from tests.planted.answers import Rule
from tests.planted.scores import rarity
from tests.planted.signs import PLACES, table
from tests.planted.words import KINDS, Facts

SHARPNESS = 2.0  # the answer's logit is 24, that of a code one bit away 20, without an answer 0


@dataclass(frozen=True)
class Planted:
    """A model whose named heads are at `heads`, as (layer, head), and answer by `rules`."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    facts: Mapping[str, Facts]  # every piece, in the order of its number
    heads: Mapping[str, tuple[int, int]]
    rules: Mapping[str, Rule]
    causal: bool = False
    spare: Mapping[str, Tensor] = field(default_factory=dict)  # on disk only, as on the hub

    def pieces(self, text: str | Doc) -> list[str]:
        """A text as the model sees it, special pieces included."""
        numbers = self.tokenizer(text.text if isinstance(text, Doc) else text)["input_ids"]
        return list(self.tokenizer.convert_ids_to_tokens(numbers))

    def expected(self, head: str, text: Doc | str | Sequence[str]) -> list[int]:
        """Where each piece of a Doc, a text or a list of pieces has all its weight."""
        pieces = self.pieces(text) if isinstance(text, str | Doc) else text
        facts = [self.facts[piece] for piece in pieces]
        return [self.rules[head](pieces, facts, at) for at in range(len(pieces))]

    def save(self, folder: Path) -> None:
        """Write the hub's format, which `AutoModel` and `AutoTokenizer` read."""
        self.model.save_pretrained(folder, state_dict={**self.model.state_dict(), **self.spare})
        self.tokenizer.save_pretrained(folder)


def piece_table(facts: Mapping[str, Facts], ranks: int) -> Tensor:
    """The embedding of every piece.  # [pieces, WIDTH]"""
    number_of = rarity(ranks + 1)
    said: dict[str, list[int | None]] = {
        "code": _codes(facts),
        "rarity": [number_of[fact.rank] for fact in facts.values()],
        "kind": [1 << KINDS.index(fact.kind) for fact in facts.values()],
    }
    always = {"one": 1, "before": None, "answer": None, "unread": None, "filler": 0}
    return table(said | {field: [number] * len(facts) for field, number in always.items()})


def place_table() -> Tensor:
    """The embedding of every place.  # [PLACES, WIDTH]"""
    squares = [divmod(place**2, 128) for place in range(PLACES)]
    high, low = zip(*squares, strict=True)
    return table({"place": range(PLACES), "square_high": high, "square_low": low})


def answer_table(facts: Mapping[str, Facts]) -> Tensor:
    """The output map: a piece's logit is how well its code agrees with the answer's bits.

    Special pieces have no code, and without an answer all logits are 0.  # [pieces, WIDTH]
    """
    codes = _codes(facts)
    found = SHARPNESS / 2 * table({"answer": codes})
    found[[i for i, code in enumerate(codes) if code is None]] = 0
    return found


def _codes(facts: Mapping[str, Facts]) -> list[int | None]:
    return [number if fact.rank else None for number, fact in enumerate(facts.values())]
