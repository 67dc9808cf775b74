"""Pieces as people read them: a tokenizer's signs for bytes and spaces made plain.

WordPiece keeps its ## before what goes on, SentencePiece its ▁ before what begins; byte-level
pieces show their characters, with the same ▁ for the space before them. Half a character shows as
its bytes, <E2>. Costs a lookup a piece.
"""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from workbench.models.spelling import as_bytes, speaks_bytes

_BEGINS = "▁"


def written(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> tuple[str, ...]:
    """Each piece by itself."""
    tokens: Sequence[str | None] = tokenizer.convert_ids_to_tokens(list(ids))
    in_bytes = speaks_bytes(tokenizer)
    special = set(tokenizer.all_special_ids)
    return tuple(
        f"<{number}>"
        if token is None
        else _plain(token)
        if in_bytes and number not in special
        else token
        for number, token in zip(ids, tokens, strict=True)
    )


def _plain(token: str) -> str:
    """A byte-level token as its characters."""
    raw = as_bytes(token).encode("latin-1", "replace")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(f"<{byte:02X}>" for byte in raw)
    return f"{_BEGINS}{text[1:]}" if text.startswith(" ") else text
