"""What a tokenizer makes of raw texts: one form for tokenizers in Rust and in Python.

Texts go in whole, with the special tokens of production. Those in Rust are called once for a batch
and tell characters; those in Python are called once a text, and `surfaces` finds the characters.
Costs what the tokenizer costs, plus 8 µs a sentence to read its answer.
"""

from collections.abc import Sequence
from itertools import accumulate, chain, groupby
from typing import Any, NamedTuple, cast

from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from workbench.models.spelling import Span, characters
from workbench.models.surfaces import locate

BYTE = "<0x41>"  # how a vocabulary with a piece for each byte writes one


class Source(NamedTuple):
    """One document: its text or two, and its words as ranges of both together."""

    first: str
    second: str | None
    begins: int  # where the second begins, in characters of the document
    length: int  # characters
    words: NDArray[Any]  # [words, 2], integers
    in_first: int  # how many words are the first text's


class Encoded(NamedTuple):
    """One document in pieces."""

    ids: Sequence[int]
    offsets: Sequence[Span]  # characters of the text the piece is of
    special: Sequence[int]  # 1 where the tokenizer added it
    second: int  # the first piece of the second text; as many as there are where there is none
    types: Sequence[int]  # token type ids


def source(text: str, words: NDArray[Any], pair_from: int | None) -> Source:
    """A document as one text, or as the pair whose second begins at the word `pair_from`."""
    if pair_from is None:
        return Source(text, None, len(text), len(text), words, len(words))
    begins = int(words[pair_from, 0])
    return Source(text[:begins].rstrip(), text[begins:], begins, len(text), words, pair_from)


def encode(tokenizer: PreTrainedTokenizerBase, sources: Sequence[Source]) -> list[Encoded]:
    """Each document in pieces, however long."""
    if not tokenizer.is_fast:
        return [_in_python(tokenizer, each) for each in sources]
    answers: dict[int, Encoded] = {}
    for paired in (False, True):
        places = [
            place for place, each in enumerate(sources) if (each.second is not None) == paired
        ]
        if places:
            chosen = [sources[place] for place in places]
            answers |= zip(places, _in_rust(tokenizer, chosen, paired), strict=True)
    return [answers[place] for place in range(len(sources))]


def takes_segments(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the model was trained to be told which text of a pair a piece is from.

    Either the tokenizer says so or, having tokens to begin and to part texts, numbers them apart:
    ALBERT's and XLNet's do the second and, in transformers 5, no longer the first.
    """
    if "token_type_ids" in tokenizer.model_input_names:
        return True
    if tokenizer.cls_token is None or tokenizer.sep_token is None:
        return False
    return any(tokenizer(["a"], ["b"], return_token_type_ids=True)["token_type_ids"][0])


def pad_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """What fills a row up; a model that knows no padding gets an id it does know."""
    known = (tokenizer.pad_token_id, tokenizer.eos_token_id)
    return next((int(found) for found in known if found is not None), 0)


def _in_rust(
    tokenizer: PreTrainedTokenizerBase, sources: Sequence[Source], paired: bool
) -> list[Encoded]:
    found = tokenizer(
        [each.first for each in sources],
        [each.second for each in sources] if paired else None,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,
    )
    in_runs = _bytes_in_runs(tokenizer)
    answers = []
    for encoding in found.encodings:
        ids = encoding.ids
        texts = encoding.sequence_ids if paired else ()
        second = texts.index(1) if 1 in texts else len(ids)
        mask, types = encoding.special_tokens_mask, encoding.type_ids
        offsets = encoding.offsets
        tokens = encoding.tokens if in_runs else ()
        if any(token.startswith("<0x") for token in tokens):
            offsets = _shared_out(tokens, offsets)
        answers.append(Encoded(ids, offsets, mask, second, types))
    return answers


def _bytes_in_runs(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether bytes stand for what is unknown and each tells the characters of its whole run."""
    number = tokenizer.convert_tokens_to_ids(BYTE)
    known = number is not None and tokenizer.convert_ids_to_tokens(number) == BYTE
    return known and type(tokenizer.backend_tokenizer.model).__name__ == "Unigram"


def _shared_out(tokens: Sequence[str], offsets: Sequence[Span]) -> list[Span]:
    """The same, but of a run of byte pieces each has its own character."""
    spans: list[Span] = []
    for ((first, last), _), run in groupby(
        zip(offsets, tokens, strict=True), key=lambda piece: (piece[0], piece[1].startswith("<0x"))
    ):
        made = list(characters([token for _, token in run]))
        ends = accumulate(len(text) for text, _ in made)
        length, width = sum(len(text) for text, _ in made), last - first
        for (text, count), end in zip(made, ends, strict=True):
            low, high = (end - len(text)) * width // length, -(-end * width // length)
            spans += [(first + low, first + high)] * count
    return spans


def _in_python(tokenizer: PreTrainedTokenizerBase, document: Source) -> Encoded:
    """What `tokenizer(text)` does inside, step by step, so that each token's spelling is seen.

    A tokenizer only joins lists when it adds its own pieces: negative numbers come out where the
    texts' pieces go. Some add no end where the text already has one (ByT5's after "</s>").
    """
    texts = [text for text in (document.first, document.second) if text is not None]
    tokens = [tokenizer.tokenize(text) for text in texts]
    ids = [cast(list[int], tokenizer.convert_tokens_to_ids(each)) for each in tokens]
    spans = [locate(tokenizer, text, each) for text, each in zip(texts, tokens, strict=True)]
    places = tokenizer.build_inputs_with_special_tokens(
        *([-1 - which] * len(each) for which, each in enumerate(tokens))
    )
    inside = zip(chain.from_iterable(ids), chain.from_iterable(spans), strict=True)
    expected = iter([(p, *next(inside)) if p < 0 else (p, p, (0, 0)) for p in places])
    made = tokenizer.build_inputs_with_special_tokens(*ids)
    found = [next(each for each in expected if each[1] == number) for number in made]
    return Encoded(
        ids=made,
        offsets=[span for _, _, span in found],
        special=[int(place >= 0) for place, _, _ in found],
        second=next((i for i, (place, _, _) in enumerate(found) if place == -2), len(found)),
        types=tokenizer.create_token_type_ids_from_sequences(*ids)[: len(made)],
    )
