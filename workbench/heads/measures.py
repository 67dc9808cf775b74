"""What a head's maps come to in one batch: sums for each document, on the device.

Every number is a sum over the words of a document, so that sums over the corpus, and over drawings
of its documents, are sums of these. What is the same for all heads of a kind stands apart: how many
words could have. Costs some ten passes over the maps of words.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from workbench.engine.map_statistics import FARTHEST, OFFSETS
from workbench.heads.gold import RULES, UNKNOWN, Arcs, Asked, baselines_of
from workbench.heads.word_maps import NOWHERE, TIE, Looks, Sides

# sums for each head; the offsets, and three counts for each relation and direction, follow
HEAD = (
    "confidence", "entropy", "away", "on_words", "special", "ends", "first", "normed",
    "previous", "diagonal", "vertical", "block", "rare", "two_rarest", "coreference", "order",
    "looks_first", "looks_last", "looks_special", "reliable_words",
)  # fmt: skip
EVEN = ("ends", "first", "vertical", "diagonal", "block")  # that uniform attention is a baseline of
RELATION_COUNTS = ("hits", "confident", "reliable")  # of arcs; reliable: whether hit or not
# and for all heads of a kind
SHARED = ("words", "entropy", "previous", "block", "rare", "rare_longest", "order")


def parts_of(names: tuple[str, ...], more: Mapping[str, int]) -> dict[str, slice]:
    """Where each sum stands: a column for each name, then some for each of `more`."""
    sizes = {**dict.fromkeys(names, 1), **more}
    ends = [0, *accumulate(sizes.values())]
    return {name: slice(ends[place], ends[place + 1]) for place, name in enumerate(sizes)}


def head_parts(relations: int) -> dict[str, slice]:
    return parts_of(
        HEAD, {"offsets": len(OFFSETS), **dict.fromkeys(RELATION_COUNTS, 2 * relations)}
    )


def shared_parts(relations: int) -> dict[str, slice]:
    more = {"offsets": len(OFFSETS), "by_chance": len(OFFSETS), "gold": baselines_of(relations)}
    return parts_of(SHARED, more)


@dataclass(frozen=True)
class Words:
    """What the words of a batch are, by kind of map: worked out once for all sites of that kind."""

    sides: Sides
    asked: Asked
    rarest: Tensor  # [batch, words], the rank of the rarest word that can be seen
    next_rarest: Tensor  # [batch, words]
    rare: Tensor  # [batch, words], rows whose rarest word is a rare one
    sentence: Tensor  # [batch, words, longest], the columns of the words of each word's sentence
    in_sentence: Tensor  # [batch, words, longest], which of these are there
    several: Tensor  # [batch, 1], texts of more than one sentence
    has_several: bool  # whether any is
    seen: Tensor  # [batch, words], how many columns each may look at
    shares: Tensor  # [batch, pieces], what part of a word that attends each piece is
    shared: Tensor  # [batch, numbers]


def words_of(sides: Sides, asked: Asked, frequent: int) -> Words:
    """Everything that is the same for all heads."""
    ranks = _seen_ranks(asked.ranks, sides)  # [batch, rows, words]
    rarest, next_rarest = two_largest(ranks)
    rare = sides.rows & (rarest >= frequent)
    several = (asked.sentences * sides.rows).amax(-1, keepdim=True) > 0  # [batch, 1]
    seen = sides.visible.sum(-1)
    shared = _shared(sides, asked, ranks, rarest, rare, several)
    return Words(
        sides,
        asked,
        rarest,
        next_rarest,
        rare,
        *_own_sentence(asked, sides),
        several,
        bool(several.any()),
        seen,
        sides.shares,
        shared,
    )


def _seen_ranks(ranks: Tensor, sides: Sides) -> Tensor:
    words = sides.words
    if ranks.shape[1] < words:
        ranks = torch.nn.functional.pad(ranks, (0, words - ranks.shape[1]), value=UNKNOWN)
    return torch.where(sides.pairs, ranks[:, None, :words], UNKNOWN)


def two_largest(values: Tensor) -> tuple[Tensor, Tensor]:
    """The largest value, and the largest of those that are less.  # [..., n] -> [...], [...]"""
    largest = values.amax(-1)
    return largest, torch.where(values == largest[..., None], UNKNOWN, values).amax(-1)


def _shared(
    sides: Sides, asked: Asked, ranks: Tensor, rarest: Tensor, rare: Tensor, several: Tensor
) -> Tensor:
    rows = sides.rows.double()
    seen = sides.visible.sum(-1)  # [batch, words]
    pairs = sides.pairs
    there = [pairs.diagonal(o, -2, -1).sum(-1).double() for o in OFFSETS]  # [batch] each
    # what a word chosen at random among those in sight would hit
    alike = pairs / pairs.sum(-1, keepdim=True).clamp(min=1)  # [batch, words, words]
    by_chance = [alike.diagonal(o, -2, -1).sum(-1).double() for o in OFFSETS]
    longest = ranks.gather(-1, asked.longest[..., None])[..., 0]  # [batch, words]
    numbers = [
        rows.sum(1),
        (sides.rows & (seen > 1)).sum(1),
        pairs.diagonal(-1, -2, -1).sum(-1),
        (sides.rows & several).sum(1),
        rare.sum(1),
        (rare & (longest == rarest)).sum(1),
        (rows * (rows.sum(1, keepdim=True) > 2)).sum(1),
        *there,
        *by_chance,
    ]
    return torch.cat([torch.stack([n.double() for n in numbers], 1), asked.baselines], 1)


def _own_sentence(asked: Asked, sides: Sides) -> tuple[Tensor, Tensor]:
    """The columns of the words of each word's own sentence, and which of them are there.

    A sentence is much shorter than its document, so these few columns are gathered and added; a
    product with all sentences costs three times as much.  # [batch, words, longest] each
    """
    number = asked.sentences  # [batch, words]
    batch, words = number.shape
    read = sides.columns[:, : min(sides.words, words)]
    read = torch.nn.functional.pad(read, (0, words - read.shape[1]))
    place = torch.arange(words, device=number.device).expand(batch, -1)
    begins = torch.full_like(number, words)
    begins.scatter_reduce_(1, number, place.where(read, words), "amin")
    ends = torch.zeros_like(number).scatter_reduce_(1, number, (place + 1).where(read, 0), "amax")
    size = (ends - begins).gather(1, number)  # [batch, words]
    longest = torch.arange(max(int(size.max()), 1), device=number.device)
    columns = begins.gather(1, number)[..., None] + longest  # [batch, words, longest]
    inside = (longest < size[..., None]) & (columns < sides.words)
    columns = columns.clamp(max=sides.words - 1)
    return columns, inside & sides.columns.gather(1, columns.flatten(1)).view_as(columns)


def head_sums(
    maps: Tensor, looks: Looks, words: Words, normed: Tensor | None, residual: float
) -> Tensor:
    """Sums over the words of each document.  # [batch, heads, words, columns] -> [batch, heads, n]

    `normed` [batch, heads, pieces] is the share of special pieces, weights and values together.
    """
    sides, asked = words.sides, words.asked
    rows = sides.rows.to(maps.dtype)[:, None]  # [batch, 1, words]
    among = maps[..., : sides.words]
    number = rows.sum(-1)  # [batch, 1]

    def of(by_row: Tensor) -> Tensor:
        return (by_row * rows).sum(-1)

    seen = words.seen.to(maps.dtype)  # [batch, words]
    logs = maps.clamp(min=torch.finfo(maps.dtype).tiny).log_()  # torch.special.entr is slower
    entropy = -logs.mul_(maps).sum(-1) / seen.clamp(min=2).log()[:, None]
    on_words = looks.on_words
    extra = maps[..., sides.words :]  # of pieces that belong to no word
    special = _product(extra, sides.special[:, None, None, sides.words :])
    behind = sides.ends[:, None, None, sides.words :]
    ends = _product(extra, behind)
    begins = sides.first.int().argmax(-1)[:, None, None, None].expand(*maps.shape[:3], 1)
    first = maps.gather(-1, begins)[..., 0] * sides.first.any(-1)[:, None, None]
    place = torch.arange(max(among.shape[-2:]), device=maps.device, dtype=maps.dtype)
    places = place[: among.shape[-1]]
    looks_at = _product(among, places)
    distances = (places - place[: among.shape[-2], None]).abs()  # [words, words]
    stays = torch.zeros_like(on_words)
    if words.has_several:
        chosen = words.sentence[:, None].expand(-1, maps.shape[1], -1, -1)
        within = _product(maps.gather(-1, chosen), words.in_sentence[:, None])
        stays = within / on_words.clamp(min=1e-9) * words.several[:, None]
    largest = torch.maximum(
        looks.top.clamp(min=0),
        extra.masked_fill(behind, 0).amax(-1) if extra.shape[-1] else looks.top.clamp(min=0),
    )
    previous, own, following = (
        (among.diagonal(offset, -2, -1) * sides.pairs.diagonal(offset, -2, -1)[:, None]).sum(-1)
        for offset in (-1, 0, 1)
    )
    upright = maps.sum(2).amax(-1)  # [batch, heads]; rows of words that are not there are 0
    rank = _rank_of(looks.any, asked.ranks)
    rare = words.rare[:, None]
    sums = [
        of(largest),
        of(entropy * (seen > 1)[:, None]),
        of(_product(among, distances)),
        of(on_words),
        of(special),
        of(ends),
        of(first),
        on_words.new_zeros(on_words.shape[:2])
        if normed is None
        else (normed * words.shares[:, None]).sum(-1),
        previous,
        previous + own + following,
        upright,
        of(stays),
        (rare & (rank == words.rarest[:, None])).sum(-1),
        (rare & (rank >= words.next_rarest[:, None]) & (rank > UNKNOWN)).sum(-1),
        _coreference(maps, on_words, asked, residual),
        _order(looks_at / on_words.clamp(min=1e-9), rows, number),
        (looks.any == 0).sum(-1),
        (looks.any == _last_word(sides)[:, None, None]).sum(-1),
        of(special > on_words),
        (looks.any != NOWHERE).sum(-1),
    ]
    found = torch.stack([each.to(torch.float32) for each in sums], -1)
    return torch.cat([found, _offset_hits(looks.any), *_relation_counts(looks, asked)], -1)


def _last_word(sides: Sides) -> Tensor:
    """Where the last word that was read stands; nowhere a word looks, if none was.  # [batch]"""
    there = sides.columns[:, : sides.words]
    place = torch.arange(1, sides.words + 1, device=there.device)
    last = (there * place).amax(-1) - 1
    return torch.where(last >= 0, last, NOWHERE - 1)


def _product(maps: Tensor, weights: Tensor) -> Tensor:
    """Rows of maps, weighted and added up; matmul takes four times as long on a CPU.

    [batch, heads, words, columns], anything that fits it -> [batch, heads, words]
    """
    return (maps * weights).sum(-1)


def _rank_of(looks: Tensor, ranks: Tensor) -> Tensor:
    """How rare the word is that each word looks at.  # [batch, heads, words]"""
    heads = looks.shape[1]
    found = ranks[:, None].expand(-1, heads, -1).gather(2, looks.clamp(0, ranks.shape[1] - 1))
    return torch.where(looks == NOWHERE, UNKNOWN, found)


def _coreference(maps: Tensor, on_words: Tensor, asked: Asked, residual: float) -> Tensor:
    """Mentions whose largest weight among the mentions before them is on one of their chain."""
    found = maps.new_zeros(maps.shape[:2])
    if not len(asked.own):
        return found
    there = asked.candidates != UNKNOWN  # [questions, most]
    own, mention = asked.own[:, None], asked.mention[:, None]
    rows = maps[own, :, mention, asked.candidates.clamp(min=0)]  # [questions, most, heads]
    weights = rows.mT.masked_fill(~there[:, None], -1.0)  # [questions, heads, most]
    largest, best = weights.max(-1)  # [questions, heads]
    second = weights.scatter(2, best[..., None], 0.0).amax(-1).clamp(min=0)
    given = on_words[asked.own, :, asked.mention]
    sure = (largest - second > TIE * largest) & (given >= residual)
    right = asked.right.gather(1, best) & sure
    return found.index_add_(0, asked.own, right.to(found.dtype))


def _order(looks: Tensor, rows: Tensor, number: Tensor) -> Tensor:
    """How far attention moves on with the words: the correlation of a word's place with where it
    looks on average [batch, heads, words], times the words of the document."""
    own = torch.arange(looks.shape[-1], device=looks.device, dtype=looks.dtype).expand_as(looks)

    def centred(values: Tensor) -> Tensor:
        mean = (values * rows).sum(-1, keepdim=True) / number[..., None].clamp(min=1)
        return (values - mean) * rows

    first, second = centred(own), centred(looks)
    size = (first.square().sum(-1) * second.square().sum(-1)).sqrt()
    found = torch.where(size > 1e-6, (first * second).sum(-1) / size.clamp(min=1e-6), 0.0)
    return found * number * (number > 2)


def _offset_hits(looks: Tensor) -> Tensor:
    """How many words look at each offset.  # [batch, heads, words] -> [batch, heads, offsets]"""
    offset = looks - torch.arange(looks.shape[-1], device=looks.device)
    near = (looks != NOWHERE) & (offset.abs() <= FARTHEST)
    found = torch.zeros(*looks.shape[:2], len(OFFSETS), device=looks.device)
    return found.scatter_add_(2, (offset + FARTHEST).clamp(0, len(OFFSETS) - 1), near.float())


def _relation_counts(looks: Looks, asked: Asked) -> list[Tensor]:
    """`RELATION_COUNTS` by relation and direction, each [batch, heads, questions]."""
    arcs = asked.arcs
    plain = looks.argmax[arcs.document, :, arcs.word]  # [arcs, heads]
    reliable = looks.other[arcs.document, :, arcs.word]
    partner = arcs.partner[:, None]
    of_arcs = torch.cat([plain == partner, reliable == partner, reliable != NOWHERE], 1).float()
    batch, heads = looks.argmax.shape[:2]
    questions = 2 * asked.relations
    found = torch.zeros(batch * questions, of_arcs.shape[1], device=of_arcs.device)
    found.index_add_(0, arcs.document * questions + arcs.question, of_arcs)
    found = found.view(batch, questions, len(RELATION_COUNTS), heads)
    return list(found.permute(2, 0, 3, 1))


def sentence_wins(looks: Tensor, arcs: Arcs, questions: int) -> Tensor:
    """Sentences in which a head hits more arcs of a relation than a simple rule, and fewer.

    [batch, heads, words] -> [2, questions, heads, rules]
    """
    heads = looks.shape[1]
    hits = (looks[arcs.document, :, arcs.word] == arcs.partner[:, None]).float()  # [arcs, heads]
    own = torch.zeros(len(arcs.cells), heads, device=looks.device).index_add_(0, arcs.cell, hits)
    apart = own[:, :, None] - arcs.simple[:, None]  # [cells, heads, rules]
    found = torch.zeros(2, questions, heads, RULES, device=looks.device)
    found[0].index_add_(0, arcs.cells, (apart > 0).float())
    found[1].index_add_(0, arcs.cells, (apart < 0).float())
    return found


def document_wins(hits: Tensor, baselines: Tensor) -> Tensor:
    """Documents in which a head gets more mentions right than each simple rule, and fewer.

    [batch, heads], [batch, rules] -> [2, rules, heads]
    """
    apart = hits[:, None] - baselines[..., None].to(hits.dtype)  # [batch, rules, heads]
    return torch.stack([(apart > 0).sum(0), (apart < 0).sum(0)])
