"""What heads would be credited with if trees and rare words lay anywhere: shuffles, counted.

A shuffle moves the words of a document and takes their arcs and their rarity along, so the shapes
of trees and the habits of heads stay as they are. Significance is corrected over everything that
was tried at once: a score counts by how far it lies above its own null, and its p-value is the
share of shuffles in which any head and relation lies as far above. Costs shuffles times arcs times
heads look-ups a batch and site.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.heads.asked import UNKNOWN, Asked
from workbench.heads.looks import NOWHERE
from workbench.heads.sides import Sides

AT_ONCE = 32  # shuffles


def shuffled_hits(looks: Tensor, asked: Asked) -> Tensor:
    """Words that look at their partner in each shuffle.

    [batch, heads, words] -> [shuffles, questions, heads]
    """
    arcs, shuffles = asked.arcs, asked.shuffles
    number, batch, words = shuffles.shape
    heads = looks.shape[1]
    found = torch.zeros(number, 2 * asked.relations, heads, device=looks.device)
    by_word = looks.transpose(1, 2).reshape(batch * looks.shape[2], heads).to(torch.int16)
    row = arcs.document * words
    flat = shuffles.reshape(number, -1)
    for start in range(0, number, AT_ONCE):
        part = flat[start : start + AT_ONCE]
        word = part.index_select(1, row + arcs.word).long()  # [some, arcs]
        partner = part.index_select(1, row + arcs.partner)
        there = (arcs.document * looks.shape[2] + word).flatten()
        hits = by_word.index_select(0, there).view(*word.shape, heads) == partner[..., None]
        found[start : start + AT_ONCE].index_add_(1, arcs.question, hits.float())
    return found


def shuffled_asked(asked: Asked, sides: Sides) -> Tensor:
    """How many questions each shuffle asks, those with a partner in sight.

    [shuffles, questions]
    """
    arcs, shuffles = asked.arcs, asked.shuffles.long()
    number = len(shuffles)
    word = shuffles[:, arcs.document, arcs.word]  # [shuffles, arcs]
    partner = shuffles[:, arcs.document, arcs.partner]
    seen = sides.pairs[arcs.document, word, partner].float()
    by_group = torch.zeros(number, arcs.groups, device=seen.device)
    by_group.scatter_reduce_(1, arcs.group.expand(number, -1), seen, "amax")
    question = torch.zeros(arcs.groups, dtype=torch.long, device=seen.device)
    question[arcs.group] = arcs.question
    found = torch.zeros(number, 2 * asked.relations, device=seen.device)
    return found.index_add_(1, question, by_group)


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

    scores [n] and null [shuffles, n] are shares, number [n] of how many -> [n], [n]
    """
    mean = null.mean(0)
    if not scores.numel():
        return mean, mean
    spread = (mean * (1 - mean)).clamp(min=1e-6) / number.clamp(min=1)
    height = ((null - mean) / spread.sqrt()).amax(1)  # [shuffles], of the highest
    own = (scores - mean) / spread.sqrt()
    above = (height[:, None] >= own[None]).sum(0)
    return mean, (above + 1) / (len(null) + 1)
