"""One pass over a corpus in which every head answers every question.

A tap turns the maps of each site into sums on the device, as they are made: no map outlives its
site, and memory does not grow with the corpus. Costs what `measures` says, a forward
pass, and totals of drawings times heads times numbers.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from workbench.core.stats import document_weights, word_permutations
from workbench.engine.batch import Batch, Pieces, all_sent
from workbench.engine.forward_pass import Progress, Report, forward
from workbench.engine.model import Model
from workbench.engine.taps import Kind, Site, StackName, Tap, View
from workbench.heads.examples import Sample
from workbench.heads.gold import UNKNOWN, Asked, Gold, asked_of
from workbench.heads.measures import (
    EVEN,
    HEAD,
    Words,
    document_wins,
    head_sums,
    sentence_wins,
    words_of,
)
from workbench.heads.word_maps import NOWHERE, Looks, Sides, joined, looks_of, sides_of

# --- sums over the corpus, and over bootstrap draws of its documents ------------------------------
#
# Memory does not grow with the corpus: draws times heads times numbers. The null has a sum for
# every shuffle instead.


@dataclass
class Tally:
    """What has been added up, by name and key; what a pass that broke off added does not count."""

    total: dict[str, dict[Any, Tensor]] = field(default_factory=dict)
    _pending: list[tuple[str, object, Tensor]] = field(default_factory=list)

    def add(self, name: str, key: object, numbers: Tensor) -> None:
        self._pending.append((name, key, numbers))

    def close(self, whole: bool) -> None:
        for name, key, numbers in self._pending if whole else ():
            sums = self.total.setdefault(name, {})
            before = sums.get(key)
            sums[key] = numbers.double() if before is None else before.add_(numbers)
        self._pending.clear()


def drawn_sums(weights: Tensor, sums: Tensor) -> Tensor:
    """[drawings, batch], [batch, ...] -> [drawings, ...]"""
    return (weights @ sums.flatten(1).to(weights.dtype)).view(len(weights), *sums.shape[1:])


# --- permutation nulls ----------------------------------------------------------------------------
#
# A shuffle moves the words of a document and takes their arcs and their rarity along, so the
# shapes of trees and the habits of heads stay as they are; the p-value of a score is the share of
# shuffles in which the largest of all scores is as large (`stats.permutation_p_values`). Shuffles
# alone let through whoever attends to near words, for arcs are short; so a head must also be ahead
# of every simple rule in more sentences than it is behind (`stats.sign_test_p_values`). Costs
# shuffles times arcs times heads look-ups a batch and site.

SHUFFLES_AT_ONCE = 16  # shuffles


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
    for part in torch.split(flat, SHUFFLES_AT_ONCE):
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
        torch.split(rarity.ranks, SHUFFLES_AT_ONCE),
        torch.split(rarity.rarest, SHUFFLES_AT_ONCE),
        strict=True,
    ):
        own = ranks.gather(2, place.expand(len(ranks), -1, -1))
        own = own.view(len(ranks), len(looks), heads, -1)
        found.append(((own == rarest[:, :, None]) & ~nowhere).sum((1, 3)))
    return torch.cat(found).double()


# --- the pass over the corpus ---------------------------------------------------------------------


class Group(NamedTuple):
    """Sites whose maps have the same sides."""

    stack: StackName
    kind: Kind


@dataclass(frozen=True)
class Asking:
    """How is looked."""

    residual: float = 0.05  # attention that words must have, for an argmax among them to count
    drawings: int = 200
    shuffles: int = 200
    seed: int = 0
    by_pieces: bool = False


AT_ONCE = {"cpu": 1 << 20, "cuda": 1 << 28}  # numbers of maps: what a cache, or memory, holds
SUMS = (
    "heads", "shared", "even", "wins", "chain_wins", "hits", "asked", "rare_hits", "rare_asked",
)  # fmt: skip


@dataclass(frozen=True)
class Answers:
    """Sums of everything, by site or by group of sites."""

    sites: tuple[Site, ...]
    heads: Mapping[Site, Tensor]  # [1 + drawings, heads, numbers], see `measures.head_parts`
    shared: Mapping[Group, Tensor]  # [1 + drawings, numbers], see `measures.shared_parts`
    even: Mapping[Group, Tensor]  # [1 + drawings, numbers], `measures.EVEN`
    wins: Mapping[Site, Tensor]  # [2, questions, heads, rules], see `measures.sentence_wins`
    chain_wins: Mapping[Site, Tensor]  # [2, rules, heads], see `measures.document_wins`
    hits: Mapping[Site, Tensor]  # [shuffles, questions, heads]
    asked: Mapping[Group, Tensor]  # [shuffles, questions]
    rare_hits: Mapping[Site, Tensor]  # [shuffles, heads]
    rare_asked: Mapping[Group, Tensor]  # [shuffles]
    normed: frozenset[Site]  # sites whose values are known
    report: Report


_Key = tuple[Group, bytes]
_Where = tuple[Group, torch.device]  # the card of some of a group's sites


def _key(group: Group, text: Pieces) -> _Key:
    return group, text.order.numpy().tobytes()


@dataclass(frozen=True)
class _Ready:
    """What the sites of a group have in common in one batch."""

    texts: tuple[Pieces, Pieces]  # held, so that another batch cannot be taken for this one
    words: Words
    weights: Tensor  # [1 + drawings, batch]
    rarity: Rarity


@dataclass(eq=False)
class _Tap(Tap):
    """Adds up every head's answers."""

    gold: Gold
    asking: Asking
    outputs: Mapping[Site, Tensor]  # [heads, width, width], how each site's values matter
    sample: Sample | None = None  # keeps some documents in full
    tally: Tally = field(default_factory=Tally)
    normed: set[Site] = field(default_factory=set)
    _before: dict[_Key, tuple[Words, Tensor]] = field(default_factory=dict)  # see `prepare`
    _ready: dict[_Where, _Ready] = field(default_factory=dict)
    _looks: dict[_Where, list[tuple[Site, Tensor]]] = field(default_factory=dict)  # of a batch

    @torch.no_grad()
    def see(self, view: View) -> None:
        site, group = view.site, Group(view.site.stack, view.site.kind)
        ready = self._of(group, view)
        sides = ready.words.sides
        written = self._written(view)
        keeps = self.sample is not None and not self.asking.by_pieces
        parts: list[tuple[Tensor, Looks, list[Tensor]]] = []
        numbers = view.probabilities[:, :1].numel()
        for some in torch.arange(site.heads).tensor_split(_chunks(site.heads, numbers, view)):
            heads = slice(int(some[0]), int(some[-1]) + 1)
            pieces = view.probabilities[:, heads].float()
            maps = sides.merged(pieces)
            looks = looks_of(maps[..., : sides.words], sides.pairs, self.asking.residual)
            special = None
            if written is not None:
                special = _special_share(pieces, written[:, heads], ready.texts[1].special)
            sums = head_sums(maps, looks, ready.words, special, self.asking.residual)
            rows = self.sample.rows(ready.texts[0], sides, maps) if self.sample and keeps else []
            parts.append((sums, looks, rows))
        looks = joined([looks for _, looks, _ in parts])
        sums = torch.cat([sums for sums, _, _ in parts], 1)
        self.tally.add("heads", site, drawn_sums(ready.weights, sums))
        if self.sample is not None and keeps:
            each = [torch.cat(own) for own in zip(*(rows for *_, rows in parts), strict=True)]
            self.sample.keep(site, ready.texts[0], sides, each, looks)
        elif self.sample is not None:
            self.sample.see(view)  # which compares heads by words
        asked = ready.words.asked
        if self.gold.relations:
            self.tally.add(
                "wins", site, sentence_wins(looks.other, asked.arcs, 2 * asked.relations)
            )
            where = group, looks.other.device
            self._looks.setdefault(where, []).append((site, looks.other))
        if self.gold.has_questions:
            chains = sums[..., HEAD.index("coreference")]
            self.tally.add("chain_wins", site, document_wins(chains, asked.baselines[:, -2:]))
        self.tally.add("rare_hits", site, shuffled_rarity(looks.any, ready.rarity))

    def close(self, whole: bool) -> None:
        counts = False
        try:
            for where, looks in self._looks.items() if whole else ():
                # the heads of all sites at once: a look-up costs as much for one as for all
                asked = self._ready[where].words.asked
                hits = shuffled_hits(torch.cat([other for _, other in looks], 1), asked)
                sizes = [other.shape[1] for _, other in looks]
                for (site, _), own in zip(looks, torch.split(hits, sizes, -1), strict=True):
                    self.tally.add("hits", site, own)
            counts = whole
        finally:  # memory may have run out here too
            self._looks.clear()
            self._ready.clear()
            self.tally.close(counts)
            if self.sample is not None:
                self.sample.close(counts)

    def _of(self, group: Group, view: View) -> _Ready:
        queries, keys = view.queries, view.keys
        assert queries is not None and keys is not None, "asked through the engine"
        where = group, view.probabilities.device
        found = self._ready.get(where)
        if found is None or found.texts[0] is not queries or found.texts[1] is not keys:
            others = [ready for (own, _), ready in self._ready.items() if own == group]
            if found is None and others:  # sites of this batch on another card were before
                found = replace(all_sent(others[0], where[1]), texts=(queries, keys))
            else:
                found = self._prepared(group, queries, keys)
            self._ready[where] = found
        return found

    def prepare(self, groups: Iterable[Group], texts: Mapping[StackName, Pieces]) -> None:
        """Draw what a batch needs, on the host, while the batches before it are computed."""
        for group in groups:
            queries = texts[group.stack]
            keys = texts["encoder"] if group.kind == "cross" else queries
            self._before[_key(group, queries)] = self._drawn(group, queries, keys)

    def _drawn(self, group: Group, queries: Pieces, keys: Pieces) -> tuple[Words, Tensor]:
        """What words there are and what is asked of them; [1 + drawings, batch]."""
        asking, order = self.asking, queries.order.tolist()
        sides = sides_of(queries, keys, group.kind, asking.by_pieces)
        there = sides.both.cpu().numpy()
        shuffles = word_permutations([*there], order, asking.shuffles, asking.seed)
        asked = asked_of(self.gold, order, sides, torch.from_numpy(shuffles), asking.seed)
        words = words_of(sides, asked, self.gold.frequent)
        weights = document_weights(order, asking.drawings, asking.seed)
        return words, torch.from_numpy(weights).float()

    def _prepared(self, group: Group, queries: Pieces, keys: Pieces) -> _Ready:
        asking, device = self.asking, queries.ids.device
        drawn = self._before.pop(_key(group, queries), None)
        words, weights = all_sent(drawn or self._drawn(group, queries, keys), device)
        sides, asked = words.sides, words.asked
        rarity = rarity_of(asked, sides, self.gold.frequent)
        self.tally.add("shared", group, drawn_sums(weights.double(), words.shared))
        maps = sides.merged(_uniform(queries, keys, group.kind))
        looks = looks_of(maps[..., : sides.words], sides.pairs, asking.residual)
        even = head_sums(maps, looks, words, None, asking.residual)
        kept = torch.stack([even[:, 0, HEAD.index(name)] for name in EVEN], 1)  # [batch, numbers]
        self.tally.add("even", group, drawn_sums(weights, kept))
        if self.gold.relations:
            self.tally.add("asked", group, shuffled_asked(asked, sides))
        self.tally.add("rare_asked", group, rarity.could)
        return _Ready((queries, keys), words, weights, rarity)

    def _written(self, view: View) -> Tensor | None:
        """The length of what each head writes of each piece's value.  # [batch, heads, pieces]"""
        gram = self.outputs.get(view.site)
        if gram is None or view.value is None:
            return None
        self.normed.add(view.site)
        value = view.value.float()
        if view.site.groups < view.site.heads:
            value = value.repeat_interleave(view.site.heads // view.site.groups, dim=1)
        square = torch.einsum("bhkd,hde,bhke->bhk", value, gram, value)
        return square.clamp(min=0).sqrt()


def _special_share(maps: Tensor, written: Tensor, special: Tensor) -> Tensor:
    """The share of special pieces where each weight counts with its value's written length.

    [batch, heads, queries, keys], [batch, heads, keys], [batch, keys] -> [batch, heads, queries]
    """
    weighted = maps * written[:, :, None]
    whole = weighted.sum(-1)
    on_special = weighted.mul_(special[:, None, None]).sum(-1)
    return torch.where(whole > 0, on_special / whole.clamp(min=1e-30), 0.0)


def _chunks(heads: int, numbers: int, view: View) -> int:
    """Into how many parts the heads of a map are split, of so many numbers each."""
    return max(1, min(heads, heads * numbers // AT_ONCE.get(view.probabilities.device.type, 1)))


def _uniform(queries: Pieces, keys: Pieces, kind: Kind) -> Tensor:
    """Attention that is the same for every piece in sight.  # [batch, 1, queries, keys]"""
    seen = keys.mask[:, None].expand(-1, queries.ids.shape[1], -1)
    if kind == "causal":
        place = torch.arange(keys.ids.shape[1], device=keys.ids.device)
        seen = seen & (place[None, :] <= place[: queries.ids.shape[1], None])
    return (seen / seen.sum(-1, keepdim=True).clamp(min=1))[:, None]


def look(
    model: Model,
    batch: Batch,
    gold: Gold,
    asking: Asking,
    progress: Callable[[Progress], object] | None = None,
    pieces: int | None = None,
    sample: Sample | None = None,
) -> Answers:
    """Send every document through the model once, and add up what each head does.

    `sample` keeps some of the documents.
    """
    outputs = {}
    for site, weight in model.output_weights().items():
        written = weight.float()  # [heads, width of a head, width]
        outputs[site] = written @ written.mT
    tap = _Tap(gold, asking, outputs, sample)
    groups = dict.fromkeys(Group(site.stack, site.kind) for site in model.sites)

    def ahead(text: Pieces) -> None:
        tap.prepare(groups, model.texts_of(text))

    report = forward(
        model, batch, taps=[tap], hidden=False, pieces=pieces, progress=progress, ahead=ahead
    )
    sums = {name: tap.tally.total.get(name, {}) for name in SUMS}
    return Answers(model.sites, **sums, normed=frozenset(tap.normed), report=report)
