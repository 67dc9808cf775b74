"""One pass over a corpus that measures every head.

A tap turns the maps of each site into sums on the device: no map is stored, and memory does not
grow with the corpus. Costs: the passes of `measures`, a forward pass, and sums of size bootstrap
samples times heads times measures.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from workbench.analyses.heads.examples import Sample
from workbench.analyses.heads.gold import UNKNOWN, BatchGold, Gold, batch_gold
from workbench.analyses.heads.measures import (
    EVEN,
    HEAD,
    Words,
    document_wins,
    head_sums,
    sentence_wins,
    words_of,
)
from workbench.analyses.heads.word_maps import NOWHERE, Maxima, Sides, joined, maxima_of, sides_of
from workbench.core.stats import document_weights, word_permutations
from workbench.engine.batch import Batch, Pieces, all_sent
from workbench.engine.forward_pass import Progress, Report, forward
from workbench.engine.model import Model
from workbench.engine.taps import Kind, Site, StackName, Tap, View

# --- sums over the corpus, and over bootstrap samples of its documents ----------------------------
#
# Memory does not grow with the corpus: bootstrap samples times heads times measures. The
# permutation null has a sum for every shuffle instead.


@dataclass
class Tally:
    """Sums by name and key; those of a failed batch do not count."""

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
    """Sums over the documents of a batch, weighted by each bootstrap sample.

    [samples, batch], [batch, ...] -> [samples, ...]
    """
    return (weights @ sums.flatten(1).to(weights.dtype)).view(len(weights), *sums.shape[1:])


# --- permutation nulls ----------------------------------------------------------------------------
#
# A shuffle moves the words of a document with their arcs and their ranks, so the shapes of trees
# and the attention of heads stay the same. The p-value of a score is the share of shuffles in which
# the largest of all scores is at least as large (`stats.permutation_p_values`). Shuffles alone do
# not rule out attention to near words, since arcs are short; so a head must also hit more than
# every simple rule in more sentences than it hits less (`stats.sign_test_p_values`). Costs:
# shuffles times arcs times heads look-ups for each batch and site.

SHUFFLES_AT_ONCE = 16


def shuffled_hits(maxima: Tensor, gold: BatchGold) -> Tensor:
    """Number of words that attend to their partner in each shuffle.

    [batch, heads, words] -> [shuffles, arc types, heads]
    """
    arcs, shuffles = gold.arcs, gold.shuffles
    n_shuffles, batch, words = shuffles.shape
    heads, arc_types = maxima.shape[1], 2 * gold.relations
    by_word = maxima.transpose(1, 2).reshape(batch * maxima.shape[2], heads).to(torch.int16)
    row = arcs.document * words
    flat = shuffles.reshape(n_shuffles, -1)
    parts = []
    for part in torch.split(flat, SHUFFLES_AT_ONCE):
        word = part.index_select(1, row + arcs.word).long()  # [some, arcs]
        partner = part.index_select(1, row + arcs.partner)
        index = (arcs.document * maxima.shape[2] + word).flatten()
        hits = by_word.index_select(0, index).view(*word.shape, heads) == partner[..., None]
        if maxima.device.type != "cpu":  # nonzero would wait for the device
            counts = torch.zeros(len(part), arc_types, heads, device=maxima.device)
            parts.append(counts.index_add_(1, arcs.arc_type, hits.float()))
            continue
        shuffle, arc, head = hits.nonzero(as_tuple=True)  # few: shuffled trees are rarely hit
        cell = (shuffle * arc_types + arcs.arc_type[arc]) * heads + head
        counts = torch.bincount(cell, minlength=len(part) * arc_types * heads)
        parts.append(counts.view(len(part), arc_types, heads))
    return torch.cat(parts).float()


def shuffled_arcs(gold: BatchGold, sides: Sides) -> Tensor:
    """Number of arcs of each type whose partner is visible, in each shuffle.

    [shuffles, arc types]
    """
    arcs, shuffles = gold.arcs, gold.shuffles.long()
    word = shuffles[:, arcs.document, arcs.word]  # [shuffles, arcs]
    partner = shuffles[:, arcs.document, arcs.partner]
    visible = sides.pairs[arcs.document, word, partner].float()
    counts = torch.zeros(len(shuffles), 2 * gold.relations, device=visible.device)
    return counts.index_add_(1, arcs.arc_type, visible)


@dataclass(frozen=True)
class Rarity:
    """Rank of the word at each position in each shuffle, and of the rarest word visible to it."""

    ranks: Tensor  # [shuffles, batch, words]
    rarest: Tensor  # [shuffles, batch, words]; NEVER if it is not a rare word
    rows: Tensor  # [shuffles], number of rows to which a rare word is visible


NEVER = -2


def rarity_of(gold: BatchGold, sides: Sides, frequent: int) -> Rarity:
    """Ranks of the words in each shuffle, the same for all heads."""
    shuffles = gold.shuffles.long()
    ranks = torch.full_like(shuffles, UNKNOWN)
    ranks.scatter_(2, shuffles, gold.ranks.expand_as(shuffles))
    if sides.kind == "causal":
        rarest = ranks.cummax(2).values
    elif sides.window:
        seen = [torch.where(sides.pairs, each[:, None], UNKNOWN).amax(-1) for each in ranks]
        rarest = torch.stack(seen)
    else:
        rarest = ranks.amax(2, keepdim=True).expand_as(ranks)
    rare = sides.rows & (rarest >= frequent)
    rarest = torch.where(rare, rarest, NEVER)
    return Rarity(ranks.int(), rarest.int(), rare.sum((1, 2)).double())


def shuffled_rarity(maxima: Tensor, rarity: Rarity) -> Tensor:
    """Number of words that attend to the rarest word in each shuffle.

    [batch, heads, words] -> [shuffles, heads]
    """
    heads, words = maxima.shape[1], rarity.ranks.shape[2]
    target = maxima.clamp(0, words - 1).flatten(1)  # [batch, heads * words]
    nowhere = (maxima == NOWHERE)[None]
    parts = []
    for ranks, rarest in zip(
        torch.split(rarity.ranks, SHUFFLES_AT_ONCE),
        torch.split(rarity.rarest, SHUFFLES_AT_ONCE),
        strict=True,
    ):
        rank = ranks.gather(2, target.expand(len(ranks), -1, -1))
        rank = rank.view(len(ranks), len(maxima), heads, -1)
        parts.append(((rank == rarest[:, :, None]) & ~nowhere).sum((1, 3)))
    return torch.cat(parts).double()


# --- the pass over the corpus ---------------------------------------------------------------------


class Group(NamedTuple):
    """Sites whose maps have the same words and columns."""

    stack: StackName
    kind: Kind
    window: int = 0
    n_global: int = 0


def group_of(site: Site) -> Group:
    """The group of a site."""
    return Group(site.stack, site.kind, site.window, site.n_global)


@dataclass(frozen=True)
class PassSettings:
    """Settings of the pass over the corpus."""

    min_word_attention: float = 0.05  # minimum attention on words for a reliable maximum
    n_bootstrap: int = 200
    n_shuffles: int = 200
    seed: int = 0
    by_pieces: bool = False


AT_ONCE = {"cpu": 1 << 20, "cuda": 1 << 28}  # numbers of maps that fit into a cache, or memory
SUMS = (
    "heads", "shared", "even", "wins", "chain_wins", "hits", "shuffled_arcs",
    "rare_hits", "rare_rows",
)  # fmt: skip


@dataclass(frozen=True)
class HeadSums:
    """All sums, by site or by group of sites."""

    sites: tuple[Site, ...]
    heads: Mapping[Site, Tensor]  # [1 + samples, heads, sums], see `measures.head_parts`
    shared: Mapping[Group, Tensor]  # [1 + samples, sums], see `measures.shared_parts`
    even: Mapping[Group, Tensor]  # [1 + samples, sums], uniform attention
    wins: Mapping[Site, Tensor]  # [2, arc types, heads, rules], see `measures.sentence_wins`
    chain_wins: Mapping[Site, Tensor]  # [2, rules, heads], see `measures.document_wins`
    hits: Mapping[Site, Tensor]  # [shuffles, arc types, heads]
    shuffled_arcs: Mapping[Group, Tensor]  # [shuffles, arc types]
    rare_hits: Mapping[Site, Tensor]  # [shuffles, heads]
    rare_rows: Mapping[Group, Tensor]  # [shuffles]
    normed: frozenset[Site]  # sites whose value vectors are known
    report: Report


_Key = tuple[Group, bytes]
_GroupOnDevice = tuple[Group, torch.device]  # sites of a group may be on several devices


def _key(group: Group, text: Pieces) -> _Key:
    return group, text.order.numpy().tobytes()


@dataclass(frozen=True)
class _Ready:
    """Everything that the sites of a group share in one batch."""

    texts: tuple[Pieces, Pieces]  # kept, so that another batch cannot be mistaken for this one
    words: Words
    weights: Tensor  # [1 + samples, batch]
    rarity: Rarity


@dataclass(eq=False)
class _Tap(Tap):
    """Adds up the measures of every head."""

    gold: Gold
    settings: PassSettings
    outputs: Mapping[Site, Tensor]  # [heads, width, width], Gram matrix of the output weights
    sample: Sample | None = None  # stores some documents in full
    tally: Tally = field(default_factory=Tally)
    normed: set[Site] = field(default_factory=set)
    _before: dict[_Key, tuple[Words, Tensor]] = field(default_factory=dict)  # see `prepare`
    _ready: dict[_GroupOnDevice, _Ready] = field(default_factory=dict)
    _maxima: dict[_GroupOnDevice, list[tuple[Site, Tensor]]] = field(
        default_factory=dict
    )  # of the current batch

    @torch.no_grad()
    def see(self, view: View) -> None:
        site, group = view.site, group_of(view.site)
        ready = self._of(group, view)
        sides = ready.words.sides
        norms = self._value_norms(view)
        stores = self.sample is not None and not self.settings.by_pieces
        parts: list[tuple[Tensor, Maxima, list[Tensor]]] = []
        numbers = view.probabilities[:, :1].numel()
        for chunk in torch.arange(site.heads).tensor_split(_chunks(site.heads, numbers, view)):
            heads = slice(int(chunk[0]), int(chunk[-1]) + 1)
            pieces = view.probabilities[:, heads].float()
            maps = sides.merged(pieces)
            maxima = maxima_of(
                maps[..., : sides.words], sides.pairs, self.settings.min_word_attention
            )
            special = None
            if norms is not None:
                special = _special_share(pieces, norms[:, heads], ready.texts[1].special)
            sums = head_sums(maps, maxima, ready.words, special, self.settings.min_word_attention)
            rows = self.sample.rows(ready.texts[0], sides, maps) if self.sample and stores else []
            parts.append((sums, maxima, rows))
        maxima = joined([maxima for _, maxima, _ in parts])
        sums = torch.cat([sums for sums, _, _ in parts], 1)
        self.tally.add("heads", site, drawn_sums(ready.weights, sums))
        if self.sample is not None and stores:
            each = [
                torch.cat(document) for document in zip(*(rows for *_, rows in parts), strict=True)
            ]
            self.sample.keep(site, ready.texts[0], sides, each, maxima)
        elif self.sample is not None:
            self.sample.see(view)  # stores maps of words in any case
        gold = ready.words.gold
        if self.gold.relations:
            self.tally.add("wins", site, sentence_wins(maxima.other, gold.arcs, 2 * gold.relations))
            key = group, maxima.other.device
            self._maxima.setdefault(key, []).append((site, maxima.other))
        if self.gold.has_coreference:
            chains = sums[..., HEAD.index("coreference")]
            self.tally.add("chain_wins", site, document_wins(chains, gold.baselines[:, -2:]))
        self.tally.add("rare_hits", site, shuffled_rarity(maxima.any, ready.rarity))

    def close(self, whole: bool) -> None:
        is_complete = False
        try:
            for key, maxima in self._maxima.items() if whole else ():
                # the heads of all sites at once: a look-up for one head costs as much as for all
                gold = self._ready[key].words.gold
                hits = shuffled_hits(torch.cat([other for _, other in maxima], 1), gold)
                sizes = [other.shape[1] for _, other in maxima]
                for (site, _), part in zip(maxima, torch.split(hits, sizes, -1), strict=True):
                    self.tally.add("hits", site, part)
            is_complete = whole
        finally:  # out of memory is possible here too
            self._maxima.clear()
            self._ready.clear()
            self.tally.close(is_complete)
            if self.sample is not None:
                self.sample.close(is_complete)

    def _of(self, group: Group, view: View) -> _Ready:
        queries, keys = view.queries, view.keys
        assert queries is not None and keys is not None, "called by the engine"
        key = group, view.probabilities.device
        ready = self._ready.get(key)
        if ready is None or ready.texts[0] is not queries or ready.texts[1] is not keys:
            others = [each for (other, _), each in self._ready.items() if other == group]
            if ready is None and others:  # sites of this batch on another device came first
                ready = replace(all_sent(others[0], key[1]), texts=(queries, keys))
            else:
                ready = self._prepared(group, queries, keys)
            self._ready[key] = ready
        return ready

    def prepare(self, groups: Iterable[Group], texts: Mapping[StackName, Pieces]) -> None:
        """Draw the shuffles of a batch on the CPU, while the batches before it are computed."""
        for group in groups:
            queries = texts[group.stack]
            keys = texts["encoder"] if group.kind == "cross" else queries
            self._before[_key(group, queries)] = self._drawn(group, queries, keys)

    def _drawn(self, group: Group, queries: Pieces, keys: Pieces) -> tuple[Words, Tensor]:
        """The words of a batch with their gold, and bootstrap weights [1 + samples, batch]."""
        settings, order = self.settings, queries.order.tolist()
        sides = sides_of(queries, keys, group.kind, settings.by_pieces, *group[2:])
        is_word = sides.both.cpu().numpy()
        shuffles = word_permutations([*is_word], order, settings.n_shuffles, settings.seed)
        gold = batch_gold(self.gold, order, sides, torch.from_numpy(shuffles), settings.seed)
        words = words_of(sides, gold, self.gold.frequent)
        weights = document_weights(order, settings.n_bootstrap, settings.seed)
        return words, torch.from_numpy(weights).float()

    def _prepared(self, group: Group, queries: Pieces, keys: Pieces) -> _Ready:
        device, min_word_attention = queries.ids.device, self.settings.min_word_attention
        drawn = self._before.pop(_key(group, queries), None)
        words, weights = all_sent(drawn or self._drawn(group, queries, keys), device)
        sides, gold = words.sides, words.gold
        rarity = rarity_of(gold, sides, self.gold.frequent)
        self.tally.add("shared", group, drawn_sums(weights.double(), words.shared))
        maps = sides.merged(_uniform(queries, keys, group))
        maxima = maxima_of(maps[..., : sides.words], sides.pairs, min_word_attention)
        even = head_sums(maps, maxima, words, None, min_word_attention)
        sums = torch.stack([even[:, 0, HEAD.index(name)] for name in EVEN], 1)  # [batch, sums]
        self.tally.add("even", group, drawn_sums(weights, sums))
        if self.gold.relations:
            self.tally.add("shuffled_arcs", group, shuffled_arcs(gold, sides))
        self.tally.add("rare_rows", group, rarity.rows)
        return _Ready((queries, keys), words, weights, rarity)

    def _value_norms(self, view: View) -> Tensor | None:
        """Norm of the output of each head for each value vector.  # [batch, heads, pieces]"""
        gram = self.outputs.get(view.site)
        if gram is None or view.value is None:
            return None
        self.normed.add(view.site)
        value = view.value.float()
        if view.site.groups < view.site.heads:
            value = value.repeat_interleave(view.site.heads // view.site.groups, dim=1)
        square = torch.einsum("bhkd,hde,bhke->bhk", value, gram, value)
        return square.clamp(min=0).sqrt()


def _special_share(maps: Tensor, norms: Tensor, special: Tensor) -> Tensor:
    """Share of attention on special pieces, each weight times the norm of its value.

    [batch, heads, queries, keys], [batch, heads, keys], [batch, keys] -> [batch, heads, queries]
    """
    weighted = maps * norms[:, :, None]
    total = weighted.sum(-1)
    on_special = weighted.mul_(special[:, None, None]).sum(-1)
    return torch.where(total > 0, on_special / total.clamp(min=1e-30), 0.0)


def _chunks(heads: int, numbers: int, view: View) -> int:
    """Number of parts into which the heads of a site are split; `numbers` is the size of a map."""
    return max(1, min(heads, heads * numbers // AT_ONCE.get(view.probabilities.device.type, 1)))


def _uniform(queries: Pieces, keys: Pieces, group: Group) -> Tensor:
    """Uniform attention on all visible pieces.  # [batch, 1, queries, keys]"""
    visible = keys.mask[:, None].expand(-1, queries.ids.shape[1], -1)
    position = torch.arange(keys.ids.shape[1], device=keys.ids.device)
    row = position[: queries.ids.shape[1], None]
    if group.kind == "causal":
        visible = visible & (position <= row)
    if group.window:
        is_global = torch.minimum(position, row) < group.n_global
        visible = visible & (((position - row).abs() <= group.window) | is_global)
    return (visible / visible.sum(-1, keepdim=True).clamp(min=1))[:, None]


def look(
    model: Model,
    batch: Batch,
    gold: Gold,
    settings: PassSettings,
    progress: Callable[[Progress], object] | None = None,
    pieces: int | None = None,
    sample: Sample | None = None,
) -> HeadSums:
    """Sums of every head over all documents, in one forward pass; `sample` stores some of them."""
    outputs = {}
    for site, weight in model.output_weights().items():
        matrix = weight.float()  # [heads, width of a head, width]
        outputs[site] = matrix @ matrix.mT
    tap = _Tap(gold, settings, outputs, sample)
    groups = dict.fromkeys(map(group_of, model.sites))

    def ahead(text: Pieces) -> None:
        tap.prepare(groups, model.texts_of(text))

    report = forward(
        model, batch, taps=[tap], hidden=False, pieces=pieces, progress=progress, ahead=ahead
    )
    sums = {name: tap.tally.total.get(name, {}) for name in SUMS}
    return HeadSums(model.sites_with_heads, **sums, normed=frozenset(tap.normed), report=report)
