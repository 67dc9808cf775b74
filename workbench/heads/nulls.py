"""What could pass for a role by chance: shuffled trees, and sign tests against simple rules.

A shuffle moves the words of a document and takes their arcs and their rarity along, so the shapes
of trees and the habits of heads stay as they are; the p-value of a score is the share of shuffles
in which the largest of all scores is as large (`corrected`). Shuffles alone let through whoever
attends to near words, for arcs are short; so a head must also be ahead of every simple rule in more
sentences than it is behind (`more_often`). Costs shuffles times arcs times heads look-ups a batch
and site.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom
from torch import Tensor

from workbench.heads.asked import UNKNOWN, Asked
from workbench.heads.looks import NOWHERE
from workbench.heads.sides import Sides

AT_ONCE = 16  # shuffles
Floats = NDArray[np.float64]


def shuffled_hits(looks: Tensor, asked: Asked) -> Tensor:
    """Words that look at their partner in each shuffle.

    [batch, heads, words] -> [shuffles, questions, heads]
    """
    arcs, shuffles = asked.arcs, asked.shuffles
    number, batch, words = shuffles.shape
    heads, questions = looks.shape[1], 2 * asked.relations
    by_word = looks.transpose(1, 2).reshape(batch * looks.shape[2], heads).to(torch.int16)
    row = arcs.document * words
    flat = shuffles.reshape(number, -1)
    found = []
    for part in torch.split(flat, AT_ONCE):
        word = part.index_select(1, row + arcs.word).long()  # [some, arcs]
        partner = part.index_select(1, row + arcs.partner)
        there = (arcs.document * looks.shape[2] + word).flatten()
        hits = by_word.index_select(0, there).view(*word.shape, heads) == partner[..., None]
        if looks.device.type != "cpu":  # which would have to tell the host how many there are
            none = torch.zeros(len(part), questions, heads, device=looks.device)
            found.append(none.index_add_(1, arcs.question, hits.float()))
            continue
        shuffle, arc, head = hits.nonzero(as_tuple=True)  # few: shuffled trees are rarely hit
        cell = (shuffle * questions + arcs.question[arc]) * heads + head
        counts = torch.bincount(cell, minlength=len(part) * questions * heads)
        found.append(counts.view(len(part), questions, heads))
    return torch.cat(found).float()


def shuffled_asked(asked: Asked, sides: Sides) -> Tensor:
    """Arcs of each question whose partner is in sight, in each shuffle.

    [shuffles, questions]
    """
    arcs, shuffles = asked.arcs, asked.shuffles.long()
    word = shuffles[:, arcs.document, arcs.word]  # [shuffles, arcs]
    partner = shuffles[:, arcs.document, arcs.partner]
    seen = sides.pairs[arcs.document, word, partner].float()
    found = torch.zeros(len(shuffles), 2 * asked.relations, device=seen.device)
    return found.index_add_(1, arcs.question, seen)


@dataclass(frozen=True)
class Rarity:
    """How rare the word at each place is in each shuffle, and the rarest that each row can see."""

    ranks: Tensor  # [shuffles, batch, words]
    rarest: Tensor  # [shuffles, batch, words]; NEVER where it is no rare one
    could: Tensor  # [shuffles], rows that see a rare one


NEVER = -2


def rarity_of(asked: Asked, sides: Sides, frequent: int) -> Rarity:
    """The same for all heads."""
    shuffles = asked.shuffles.long()
    ranks = torch.full_like(shuffles, UNKNOWN)
    ranks.scatter_(2, shuffles, asked.ranks.expand_as(shuffles))
    if sides.kind == "causal":
        rarest = ranks.cummax(2).values
    else:
        rarest = ranks.amax(2, keepdim=True).expand_as(ranks)
    rare = sides.rows & (rarest >= frequent)
    kept = torch.where(rare, rarest, NEVER)
    return Rarity(ranks.int(), kept.int(), rare.sum((1, 2)).double())


def shuffled_rarity(looks: Tensor, rarity: Rarity) -> Tensor:
    """Words that look at the rarest word in each shuffle.

    [batch, heads, words] -> [shuffles, heads]
    """
    heads, words = looks.shape[1], rarity.ranks.shape[2]
    place = looks.clamp(0, words - 1).flatten(1)  # [batch, heads * words]
    nowhere = (looks == NOWHERE)[None]
    found = []
    for ranks, rarest in zip(
        torch.split(rarity.ranks, AT_ONCE), torch.split(rarity.rarest, AT_ONCE), strict=True
    ):
        own = ranks.gather(2, place.expand(len(ranks), -1, -1))
        own = own.view(len(ranks), len(looks), heads, -1)
        found.append(((own == rarest[:, :, None]) & ~nowhere).sum((1, 3)))
    return torch.cat(found).double()


def corrected(scores: Tensor, null: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of each score's null, and its p-value among all that was tried.

    The largest score of each shuffle is what a score is held against. Scores are put on one scale
    by the arcsine of their root, whose spread hardly depends on the mean and is bounded for small
    counts: a standard score is not, and a few hits of a rare relation would outdo everything.
    scores [n] and null [shuffles, n] are shares, number [n] of how many -> [n], [n]
    """
    mean = null.mean(0)
    if not scores.numel():
        return mean, mean
    root = number.clamp(min=1).sqrt()

    def scaled(shares: Tensor) -> Tensor:
        angle: Tensor = shares.clamp(0, 1).sqrt().asin() - mean.clamp(0, 1).sqrt().asin()
        return 2 * root * angle

    highest = scaled(null).amax(1)  # [shuffles]
    above = (highest[:, None] >= scaled(scores)[None]).sum(0)
    return mean, (above + 1) / (len(null) + 1)


def more_often(ahead: Floats, behind: Floats) -> Floats:
    """P-values of being ahead of every simple rule, corrected for everything that was tried.

    Sign tests over pairs (sentences or documents, so that words of one need not be independent),
    which are exact for any count. A head is as surely ahead of all rules as of the one it is least
    surely ahead of, so the choice of the best rule needs no correction. What was tried counts where
    it could have reached the same p-value: with n pairs none is below 2^-n (Tarone 1990), and so
    the least count follows from how much is tried.
    ahead and behind [n, rules] -> [n]
    """
    pairs = ahead + behind
    p_values: Floats = binom.sf(ahead - 1, pairs, 0.5).max(1)
    least = np.sort(0.5 ** pairs.max(1))
    tried = np.searchsorted(least, p_values * (1 + 1e-9), side="right")
    return np.minimum(1.0, p_values * tried)
