"""Measures of each head in one batch: sums over the words of each document, on the device.

Sums over the corpus, and over bootstrap samples of its documents, are sums of these. Sums that are
the same for all heads of a kind are apart: for how many words a measure is defined. Costs: about
ten passes over the maps of words.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from workbench.analyses.heads.gold import RULES, UNKNOWN, Arcs, BatchGold, baselines_of
from workbench.analyses.heads.word_maps import NOWHERE, TIE, Maxima, Sides
from workbench.engine.map_statistics import FARTHEST, OFFSETS

# sums for each head; offsets, and three counts for each relation and direction, follow
HEAD = (
    "confidence", "entropy", "away", "on_words", "special", "ends", "first", "normed",
    "previous", "diagonal", "vertical", "block", "rare", "two_rarest", "coreference", "order",
    "looks_first", "looks_last", "looks_special", "reliable_words",
)  # fmt: skip
EVEN = (
    "ends",
    "first",
    "vertical",
    "diagonal",
    "block",
)  # measures whose baseline is uniform attention
RELATION_COUNTS = ("hits", "confident", "reliable")  # of arcs; reliable: hit or not
# sums that all heads of a kind share
SHARED = ("words", "entropy", "previous", "block", "rare", "rare_longest", "order")


def parts_of(names: tuple[str, ...], more: Mapping[str, int]) -> dict[str, slice]:
    """Columns of each sum: one for each name, then several for each of `more`."""
    sizes = {**dict.fromkeys(names, 1), **more}
    ends = [0, *accumulate(sizes.values())]
    return {name: slice(ends[i], ends[i + 1]) for i, name in enumerate(sizes)}


def head_parts(relations: int) -> dict[str, slice]:
    """Columns of the sums of each head."""
    return parts_of(
        HEAD, {"offsets": len(OFFSETS), **dict.fromkeys(RELATION_COUNTS, 2 * relations)}
    )


def shared_parts(relations: int) -> dict[str, slice]:
    """Columns of the sums that all heads share."""
    more = {"offsets": len(OFFSETS), "by_chance": len(OFFSETS), "gold": baselines_of(relations)}
    return parts_of(SHARED, more)


@dataclass(frozen=True)
class Words:
    """Properties of the words of a batch, computed once for all sites of a kind."""

    sides: Sides
    gold: BatchGold
    rarest: Tensor  # [batch, words], the rank of the rarest visible word
    next_rarest: Tensor  # [batch, words]
    rare: Tensor  # [batch, words], rows whose rarest word is a rare one
    sentence: Tensor  # [batch, words, longest], the columns of the words of each word's sentence
    in_sentence: Tensor  # [batch, words, longest], which of these exist
    several: Tensor  # [batch, 1], texts with several sentences
    has_several: bool  # whether there is one
    seen: Tensor  # [batch, words], number of visible columns
    shares: Tensor  # [batch, pieces], share of each piece in its attending word
    shared: Tensor  # [batch, numbers]


def words_of(sides: Sides, gold: BatchGold, frequent: int) -> Words:
    """Properties of the words of a batch, for maps of these sides."""
    ranks = _seen_ranks(gold.ranks, sides)  # [batch, rows, words]
    rarest, next_rarest = two_largest(ranks)
    rare = sides.rows & (rarest >= frequent)
    several = (gold.sentences * sides.rows).amax(-1, keepdim=True) > 0  # [batch, 1]
    seen = sides.visible.sum(-1)
    shared = _shared(sides, gold, ranks, rarest, rare, several)
    return Words(
        sides,
        gold,
        rarest,
        next_rarest,
        rare,
        *_sentence_columns(gold, sides),
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
    """The largest value, and the largest of the smaller ones.  # [..., n] -> [...], [...]"""
    largest = values.amax(-1)
    return largest, torch.where(values == largest[..., None], UNKNOWN, values).amax(-1)


def _shared(
    sides: Sides, gold: BatchGold, ranks: Tensor, rarest: Tensor, rare: Tensor, several: Tensor
) -> Tensor:
    rows = sides.rows.double()
    seen = sides.visible.sum(-1)  # [batch, words]
    pairs = sides.pairs
    with_offset = [pairs.diagonal(o, -2, -1).sum(-1).double() for o in OFFSETS]  # [batch] each
    # hits of a visible word chosen at random
    uniform = pairs / pairs.sum(-1, keepdim=True).clamp(min=1)  # [batch, words, words]
    by_chance = [uniform.diagonal(o, -2, -1).sum(-1).double() for o in OFFSETS]
    longest = ranks.gather(-1, gold.longest[..., None])[..., 0]  # [batch, words]
    numbers = [
        rows.sum(1),
        (sides.rows & (seen > 1)).sum(1),
        pairs.diagonal(-1, -2, -1).sum(-1),
        (sides.rows & several).sum(1),
        rare.sum(1),
        (rare & (longest == rarest)).sum(1),
        (rows * (rows.sum(1, keepdim=True) > 2)).sum(1),
        *with_offset,
        *by_chance,
    ]
    return torch.cat([torch.stack([n.double() for n in numbers], 1), gold.baselines], 1)


def _sentence_columns(gold: BatchGold, sides: Sides) -> tuple[Tensor, Tensor]:
    """The columns of the words in the sentence of each word, and which of them exist.

    A sentence is much shorter than its document, so these few columns are gathered and added; a
    product with all sentences costs three times as much.  # [batch, words, longest] each
    """
    sentence = gold.sentences  # [batch, words]
    batch, words = sentence.shape
    read = sides.columns[:, : min(sides.words, words)]
    read = torch.nn.functional.pad(read, (0, words - read.shape[1]))
    position = torch.arange(words, device=sentence.device).expand(batch, -1)
    begins = torch.full_like(sentence, words)
    begins.scatter_reduce_(1, sentence, position.where(read, words), "amin")
    ends = torch.zeros_like(sentence)
    ends.scatter_reduce_(1, sentence, (position + 1).where(read, 0), "amax")
    size = (ends - begins).gather(1, sentence)  # [batch, words]
    longest = torch.arange(max(int(size.max()), 1), device=sentence.device)
    columns = begins.gather(1, sentence)[..., None] + longest  # [batch, words, longest]
    inside = (longest < size[..., None]) & (columns < sides.words)
    columns = columns.clamp(max=sides.words - 1)
    return columns, inside & sides.columns.gather(1, columns.flatten(1)).view_as(columns)


def head_sums(
    maps: Tensor, maxima: Maxima, words: Words, normed: Tensor | None, min_word_attention: float
) -> Tensor:
    """Sums over the words of each document.  # [batch, heads, words, columns] -> [batch, heads, n]

    `normed` [batch, heads, pieces] is the share of special pieces, weighted by value norms.
    """
    sides, gold = words.sides, words.gold
    rows = sides.rows.to(maps.dtype)[:, None]  # [batch, 1, words]
    word_maps = maps[..., : sides.words]
    n_words = rows.sum(-1)  # [batch, 1]

    def total(by_row: Tensor) -> Tensor:
        return (by_row * rows).sum(-1)

    seen = words.seen.to(maps.dtype)  # [batch, words]
    logs = maps.clamp(min=torch.finfo(maps.dtype).tiny).log_()  # torch.special.entr is slower
    entropy = -logs.mul_(maps).sum(-1) / seen.clamp(min=2).log()[:, None]
    on_words = maxima.on_words
    extra = maps[..., sides.words :]  # columns of pieces that belong to no word
    special = _product(extra, sides.special[:, None, None, sides.words :])
    separators = sides.ends[:, None, None, sides.words :]
    ends = _product(extra, separators)
    begins = sides.first.int().argmax(-1)[:, None, None, None].expand(*maps.shape[:3], 1)
    first = maps.gather(-1, begins)[..., 0] * sides.first.any(-1)[:, None, None]
    position = torch.arange(max(word_maps.shape[-2:]), device=maps.device, dtype=maps.dtype)
    columns = position[: word_maps.shape[-1]]
    mean_target = _product(word_maps, columns)
    distances = (columns - position[: word_maps.shape[-2], None]).abs()  # [words, words]
    in_sentence = torch.zeros_like(on_words)
    if words.has_several:
        index = words.sentence[:, None].expand(-1, maps.shape[1], -1, -1)
        within = _product(maps.gather(-1, index), words.in_sentence[:, None])
        in_sentence = within / on_words.clamp(min=1e-9) * words.several[:, None]
    largest = torch.maximum(
        maxima.top.clamp(min=0),
        extra.masked_fill(separators, 0).amax(-1) if extra.shape[-1] else maxima.top.clamp(min=0),
    )
    previous, itself, following = (
        (word_maps.diagonal(offset, -2, -1) * sides.pairs.diagonal(offset, -2, -1)[:, None]).sum(-1)
        for offset in (-1, 0, 1)
    )
    vertical = maps.sum(2).amax(-1)  # [batch, heads]; rows of padding are 0
    rank = _rank_of(maxima.any, gold.ranks)
    rare = words.rare[:, None]
    sums = [
        total(largest),
        total(entropy * (seen > 1)[:, None]),
        total(_product(word_maps, distances)),
        total(on_words),
        total(special),
        total(ends),
        total(first),
        on_words.new_zeros(on_words.shape[:2])
        if normed is None
        else (normed * words.shares[:, None]).sum(-1),
        previous,
        previous + itself + following,
        vertical,
        total(in_sentence),
        (rare & (rank == words.rarest[:, None])).sum(-1),
        (rare & (rank >= words.next_rarest[:, None]) & (rank > UNKNOWN)).sum(-1),
        _coreference(maps, on_words, gold, min_word_attention),
        _order(mean_target / on_words.clamp(min=1e-9), rows, n_words),
        (maxima.any == 0).sum(-1),
        (maxima.any == _last_word(sides)[:, None, None]).sum(-1),
        total(special > on_words),
        (maxima.any != NOWHERE).sum(-1),
    ]
    stacked = torch.stack([each.to(torch.float32) for each in sums], -1)
    return torch.cat([stacked, _offset_hits(maxima.any), *_relation_counts(maxima, gold)], -1)


def _last_word(sides: Sides) -> Tensor:
    """Index of the last word that was read; below NOWHERE if there is none.  # [batch]"""
    is_read = sides.columns[:, : sides.words]
    position = torch.arange(1, sides.words + 1, device=is_read.device)
    last = (is_read * position).amax(-1) - 1
    return torch.where(last >= 0, last, NOWHERE - 1)


def _product(maps: Tensor, weights: Tensor) -> Tensor:
    """Weighted sums of the rows of maps; matmul takes four times as long on a CPU.

    [batch, heads, words, columns], weights that broadcast -> [batch, heads, words]
    """
    return (maps * weights).sum(-1)


def _rank_of(maxima: Tensor, ranks: Tensor) -> Tensor:
    """Frequency rank of the word that each word attends to.  # [batch, heads, words]"""
    heads = maxima.shape[1]
    rank = ranks[:, None].expand(-1, heads, -1).gather(2, maxima.clamp(0, ranks.shape[1] - 1))
    return torch.where(maxima == NOWHERE, UNKNOWN, rank)


def _coreference(
    maps: Tensor, on_words: Tensor, gold: BatchGold, min_word_attention: float
) -> Tensor:
    """Number of mentions whose largest weight on an earlier mention is on one of their chain."""
    hits = maps.new_zeros(maps.shape[:2])
    if not len(gold.anaphor_row):
        return hits
    exists = gold.candidates != UNKNOWN  # [anaphors, longest]
    row, mention = gold.anaphor_row[:, None], gold.mention[:, None]
    weights = maps[row, :, mention, gold.candidates.clamp(min=0)]  # [anaphors, longest, heads]
    weights = weights.mT.masked_fill(~exists[:, None], -1.0)  # [anaphors, heads, longest]
    largest, best = weights.max(-1)  # [anaphors, heads]
    second = weights.scatter(2, best[..., None], 0.0).amax(-1).clamp(min=0)
    on_words = on_words[gold.anaphor_row, :, gold.mention]
    is_reliable = (largest - second > TIE * largest) & (on_words >= min_word_attention)
    right = gold.right.gather(1, best) & is_reliable
    return hits.index_add_(0, gold.anaphor_row, right.to(hits.dtype))


def _order(targets: Tensor, rows: Tensor, n_words: Tensor) -> Tensor:
    """Correlation of the position of a word with the mean position it attends to, times words.

    [batch, heads, words], [batch, 1, words], [batch, 1] -> [batch, heads]
    """
    index = torch.arange(targets.shape[-1], device=targets.device, dtype=targets.dtype)
    positions = index.expand_as(targets)

    def centred(values: Tensor) -> Tensor:
        mean = (values * rows).sum(-1, keepdim=True) / n_words[..., None].clamp(min=1)
        return (values - mean) * rows

    first, second = centred(positions), centred(targets)
    norm = (first.square().sum(-1) * second.square().sum(-1)).sqrt()
    correlation = torch.where(norm > 1e-6, (first * second).sum(-1) / norm.clamp(min=1e-6), 0.0)
    return correlation * n_words * (n_words > 2)


def _offset_hits(maxima: Tensor) -> Tensor:
    """Number of words that attend to each offset.

    [batch, heads, words] -> [batch, heads, offsets]
    """
    offset = maxima - torch.arange(maxima.shape[-1], device=maxima.device)
    near = (maxima != NOWHERE) & (offset.abs() <= FARTHEST)
    hits = torch.zeros(*maxima.shape[:2], len(OFFSETS), device=maxima.device)
    return hits.scatter_add_(2, (offset + FARTHEST).clamp(0, len(OFFSETS) - 1), near.float())


def _relation_counts(maxima: Maxima, gold: BatchGold) -> list[Tensor]:
    """`RELATION_COUNTS` of each arc type, each [batch, heads, arc types]."""
    arcs = gold.arcs
    published = maxima.argmax[arcs.document, :, arcs.word]  # [arcs, heads]
    reliable = maxima.other[arcs.document, :, arcs.word]
    partner = arcs.partner[:, None]
    of_arcs = torch.cat([published == partner, reliable == partner, reliable != NOWHERE], 1).float()
    batch, heads = maxima.argmax.shape[:2]
    arc_types = 2 * gold.relations
    counts = torch.zeros(batch * arc_types, of_arcs.shape[1], device=of_arcs.device)
    counts.index_add_(0, arcs.document * arc_types + arcs.arc_type, of_arcs)
    counts = counts.view(batch, arc_types, len(RELATION_COUNTS), heads)
    return list(counts.permute(2, 0, 3, 1))


def sentence_wins(maxima: Tensor, arcs: Arcs, arc_types: int) -> Tensor:
    """Number of sentences in which a head hits more arcs of a type than a simple rule, and fewer.

    [batch, heads, words] -> [2, arc types, heads, rules]
    """
    heads = maxima.shape[1]
    hits = (maxima[arcs.document, :, arcs.word] == arcs.partner[:, None]).float()  # [arcs, heads]
    by_cell = torch.zeros(len(arcs.cells), heads, device=maxima.device)
    by_cell.index_add_(0, arcs.cell, hits)
    difference = by_cell[:, :, None] - arcs.simple[:, None]  # [cells, heads, rules]
    wins = torch.zeros(2, arc_types, heads, RULES, device=maxima.device)
    wins[0].index_add_(0, arcs.cells, (difference > 0).float())
    wins[1].index_add_(0, arcs.cells, (difference < 0).float())
    return wins


def document_wins(hits: Tensor, baselines: Tensor) -> Tensor:
    """Number of documents in which a head has more correct mentions than each rule, and fewer.

    [batch, heads], [batch, rules] -> [2, rules, heads]
    """
    difference = hits[:, None] - baselines[..., None].to(hits.dtype)  # [batch, rules, heads]
    return torch.stack([(difference > 0).sum(0), (difference < 0).sum(0)])
