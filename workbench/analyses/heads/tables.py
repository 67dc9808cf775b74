"""The tables of all heads, from the sums of one pass.

Shares are sums divided by sums; intervals are 95 % bootstrap intervals over documents. A share of
zero cases is 0, with an interval from 0 to 1 and `n` 0. Costs: milliseconds for each head.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from workbench.analyses.heads.collect import HeadSums, group_of
from workbench.analyses.heads.gold import DIRECTIONS, FIRST, FIXED, LONGEST, RULES, Gold
from workbench.analyses.heads.induction import Repeats
from workbench.analyses.heads.measures import EVEN, RELATION_COUNTS, head_parts, shared_parts
from workbench.analyses.heads.roles import MIN_MASS, Rules, beats, gain, named
from workbench.core.arrays import Floats
from workbench.core.stats import (
    binomial_p_values,
    interval,
    mean_interval,
    permutation_p_values,
    sign_test_p_values,
)
from workbench.engine.map_statistics import FARTHEST, OFFSETS
from workbench.engine.taps import Site
from workbench.experiment.definition import HEAD

MIN_WITH_OFFSET = 0.2  # share of words with a word at an offset, for it to be a role


@dataclass(frozen=True)
class Share:
    """A share with its interval."""

    value: float
    lower: float
    upper: float

    def as_columns(self, name: str) -> dict[str, float]:
        """The three columns of a table."""
        return {name: self.value, f"{name}_lower": self.lower, f"{name}_upper": self.upper}


NOTHING = Share(0.0, 0.0, 1.0)


def share(part: Floats, whole: Floats) -> Share:
    """A share with its interval; the first sum is of the corpus.  # [1 + samples] each"""
    return Share(*(float(each[0]) for each in shares(part[:, None], whole)))


def shares(part: Floats, whole: Floats) -> tuple[Floats, Floats, Floats]:
    """Several shares of one total, with intervals.  # [1 + samples, n] -> [n] each"""
    count = part.shape[1]
    if whole[0] <= 0:
        return np.zeros(count), np.zeros(count), np.ones(count)
    values: Floats = part[whole > 0] / whole[whole > 0][:, None]
    lower, upper = interval((values[1:] if len(values) > 1 else values).T)
    return values[0], np.minimum(lower, values[0]), np.maximum(upper, values[0])


def differences(part: Floats, whole: Floats) -> tuple[Floats, Floats, Floats]:
    """Differences of shares of one total, with intervals.  # [1 + samples, n] -> [n] each"""
    value, lower, upper = shares(part, whole)
    return (value, lower, upper) if whole[0] > 0 else (value, lower - 1, upper)


@dataclass(frozen=True)
class Sums:
    """The sums of one site, by name."""

    by_head: Floats  # [1 + samples, heads, sums]
    even: Floats  # [1 + samples, sums], `measures.EVEN` for uniform attention
    all: Floats  # [1 + samples, sums]
    relations: int

    def head(self, name: str, head: int) -> Floats:
        """A sum of one head.  # [1 + samples], or [1 + samples, n] for several columns"""
        part: Floats = self.by_head[:, head, head_parts(self.relations)[name]]
        return part if name in ("offsets", *RELATION_COUNTS) else part[:, 0]

    def uniform(self, name: str) -> Floats:
        """A sum of `measures.EVEN` for uniform attention.  # [1 + samples]"""
        return self.even[:, EVEN.index(name)]

    def counts(self, name: str) -> Floats:
        """A sum of all heads.  # [1 + samples, heads, columns]"""
        return self.by_head[:, :, head_parts(self.relations)[name]]

    def shared(self, name: str) -> Floats:
        """A sum that all heads share.  # [1 + samples], or [1 + samples, n]"""
        part: Floats = self.all[:, shared_parts(self.relations)[name]]
        return part if name in ("offsets", "by_chance", "gold") else part[:, 0]

    @property
    def arc_types(self) -> Floats:
        """[1 + samples, arc types, arcs | words | hits of each simple rule]"""
        gold = self.shared("gold")[:, :-3]
        return gold.reshape(len(gold), 2 * self.relations, 2 + RULES)

    @property
    def chains(self) -> Floats:
        """[1 + samples, mentions | hits of the nearest mention | hits of the same head word]"""
        return self.shared("gold")[:, -3:]


def sums_of(head_sums: HeadSums, gold: Gold) -> Mapping[Site, Sums]:
    """The sums of each site, on the CPU."""
    return {
        site: Sums(
            total.cpu().numpy(),
            head_sums.even[group_of(site)].cpu().numpy(),
            head_sums.shared[group_of(site)].cpu().numpy(),
            len(gold.relations),
        )
        for site, total in head_sums.heads.items()
    }


def reliable(sums: Mapping[Site, Sums]) -> float:
    """The share of words whose maximum is reliable, over all heads."""
    n_reliable = sum(
        float(site_sums.head("reliable_words", head)[0])
        for site_sums in sums.values()
        for head in _heads(site_sums)
    )
    words = sum(float(each.shared("words")[0]) * len(_heads(each)) for each in sums.values())
    return n_reliable / words if words else 1.0


def _heads(sums: Sums) -> range:
    return range(sums.by_head.shape[1])


# --- relations ------------------------------------------------------------------------------------

SIMPLE = ["baseline_accuracy", "baseline_first", "baseline_longest"]
RELATIONS = (
    *HEAD, "relation", "direction", "accuracy", "lower", "upper", "n", "accuracy_confident",
    "accuracy_any_dependent", "reliable", "baseline_offset", *SIMPLE, "difference",
    "difference_lower", "difference_upper", "p_value_baseline", "null_mean", "p_value", "syntactic",
)  # fmt: skip


def relations(
    head_sums: HeadSums, sums: Mapping[Site, Sums], gold: Gold, rules: Rules, min_count: int
) -> pd.DataFrame:
    """The table `relations`: every head, relation and direction with visible arcs."""
    columns: defaultdict[str, list[Floats]] = defaultdict(list)
    nulls: list[Floats] = []  # [shuffles, heads] each
    wins: list[Floats] = []  # [2, heads, rules] each
    for site, site_sums in sums.items():
        arcs = site_sums.arc_types[:, :, 0]  # [1 + samples, arc types]
        counts = {name: site_sums.counts(name) for name in RELATION_COUNTS}
        known = np.flatnonzero(arcs[0] > 0)
        if not len(known):
            continue
        null = head_sums.hits[site].cpu().numpy()  # [shuffles, arc types, heads]
        visible = head_sums.shuffled_arcs[group_of(site)].cpu().numpy()
        site_wins = head_sums.wins[site].cpu().numpy()  # [2, arc types, heads, rules]
        for arc_type in known:
            n = arcs[0, arc_type]
            simple = site_sums.arc_types[:, arc_type, 2:]  # [1 + samples, rules]
            best = int(simple[0, FIXED:].argmax())
            accuracy, lower, upper = shares(counts["hits"][:, :, arc_type], arcs[:, arc_type])
            # the best rule of each bootstrap sample, so that its choice is part of the interval
            above = counts["confident"][:, :, arc_type] - simple.max(1, keepdims=True)
            difference, from_, to = differences(above, arcs[:, arc_type])
            nulls.append(null[:, arc_type] / np.maximum(visible[:, arc_type], 1)[:, None])
            wins.append(site_wins[:, arc_type])
            row = {
                "stack": site.stack,
                "kind": site.kind,
                "layer": site.layer,
                "head": np.arange(site.heads),
                "relation": gold.relations[arc_type % len(gold.relations)],
                "direction": DIRECTIONS[arc_type // len(gold.relations)],
                "accuracy": accuracy,
                "lower": lower,
                "upper": upper,
                "n": int(n),
                "accuracy_confident": counts["confident"][0, :, arc_type] / n,
                "accuracy_any_dependent": counts["hits"][0, :, arc_type]
                / site_sums.arc_types[0, arc_type, 1],
                "reliable": counts["reliable"][0, :, arc_type] / n,
                "baseline_offset": OFFSETS[best],
                "baseline_accuracy": simple[0, FIXED + best] / n,
                "baseline_first": simple[0, FIRST] / n,
                "baseline_longest": simple[0, LONGEST] / n,
                "difference": difference,
                "difference_lower": from_,
                "difference_upper": to,
            }
            for name, values in row.items():
                columns[name].append(np.broadcast_to(values, site.heads))
    if not nulls:
        return pd.DataFrame(columns=RELATIONS)
    table = pd.DataFrame({name: np.concatenate(each) for name, each in columns.items()})
    null_scores = np.concatenate(nulls, axis=1)  # [shuffles, rows]
    table["null_mean"] = null_scores.mean(0)
    enough = (table["n"] >= min_count).to_numpy()
    table["p_value"], table["p_value_baseline"] = 1.0, 1.0
    if enough.any():
        names = ("accuracy_confident", "n")
        score, counts_n = (table[name].to_numpy(np.float64)[enough] for name in names)
        rows = table.index[enough]
        null_scores = null_scores[:, enough]
        table.loc[rows, "p_value"] = permutation_p_values(score, null_scores, counts_n)
        ahead, behind = np.concatenate(wins, 1)[:, enough]
        table.loc[rows, "p_value_baseline"] = sign_test_p_values(ahead, behind)
    pairs = zip(table["accuracy_confident"], table[SIMPLE].max(axis=1), strict=True)
    table["syntactic"] = (
        enough
        & np.array([beats(score, simple, rules) for score, simple in pairs])
        & (table["difference_lower"] > 0)
        & (table["p_value"] < rules.alpha)
        & (table["p_value_baseline"] < rules.alpha)
    )
    order = {(s.stack, s.kind, s.layer): index for index, s in enumerate(sums)}
    keys = zip(table["stack"], table["kind"], table["layer"], strict=True)
    table["order"] = [order[key] for key in keys]
    ordered = table.sort_values(["order", "head"], kind="stable", ignore_index=True)
    return ordered[list(RELATIONS)]


def best_relations(table: pd.DataFrame, min_count: int) -> Mapping[tuple[object, ...], pd.Series]:
    """The relation of each head with the largest difference to its baselines."""
    if table.empty:
        return {}
    candidates = table[(table["n"] >= min_count) & (table["accuracy_confident"] > 0)]
    ordered = candidates.sort_values(["syntactic", "difference"], ascending=False, kind="stable")
    best = ordered.drop_duplicates([*HEAD])
    return {tuple(row[name] for name in HEAD): row for _, row in best.iterrows()}


# --- heads ----------------------------------------------------------------------------------------


def heads(
    head_sums: HeadSums,
    sums: Mapping[Site, Sums],
    relation_table: pd.DataFrame,
    copies: Mapping[Site, Repeats],
    rules: Rules,
    min_count: int,
) -> pd.DataFrame:
    """The table `heads`: every head with its scores, their intervals, and its roles."""
    best = best_relations(relation_table, min_count)
    rarity = _rarity(head_sums, sums)
    at_offset_p, chain_p = _offset_p_values(sums), _chain_p_values(head_sums, sums)
    rows = []
    for site, site_sums in sums.items():
        of_heads = _scores(site_sums)
        even = {
            name: share(site_sums.uniform(name), site_sums.shared(REST_OVER.get(name, "words")))
            for name in EVEN
        }
        for head in range(site.heads):
            key = (site.stack, site.kind, site.layer, head)
            row: dict[str, object] = dict(zip(HEAD, key, strict=True))
            row |= {"role": "", "roles": ""}
            scores = of_heads[head]
            offset, at_offset = _offset(site_sums, head)
            relation = best.get(key)
            rare_null, rare_p = rarity[site, head]
            repeated = _repeated(copies.get(site), head)
            nearest, same_word = _simple(site_sums.chains)
            p_values = {
                "offset": at_offset_p[site, head],
                "rare": rare_p,
                "coreference": chain_p[site, head],
            }
            row |= {
                "confidence": scores["confidence"].value,
                "entropy": scores["entropy"].value,
                "distance": scores["distance"].value,
                "offset": offset,
                **at_offset.as_columns("offset_share"),
                "offset_p_value": p_values["offset"],
                "reliable": scores["reliable_words"].value,
                "best_relation": "" if relation is None else relation["relation"],
                "best_direction": "" if relation is None else relation["direction"],
                **_relation_accuracy(relation).as_columns("relation_accuracy"),
                "relation_baseline": 0.0 if relation is None else max(relation[SIMPLE]),
                **scores["rare"].as_columns("rare_share"),
                "rare_null": rare_null,
                "rare_longest": scores["rare_longest"].value,
                "rare_p_value": rare_p,
                "two_rarest_share": scores["two_rarest"].value,
                **scores["special"].as_columns("special_mass"),
                **scores["normed"].as_columns("special_mass_normed"),
                **scores["ends"].as_columns("separator_mass"),
                "separator_even": even["ends"].value,
                **scores["first"].as_columns("first_mass"),
                "first_even": even["first"].value,
                **scores["coreference"].as_columns("coref_accuracy"),
                "coref_nearest": nearest,
                "coref_head_match": same_word,
                "coref_p_value": p_values["coreference"],
                "coref_n": int(site_sums.chains[0, 0]),
                **repeated["induction"].as_columns("induction"),
                "induction_n": len(copies[site].induction) if site in copies else 0,
                **scores["previous"].as_columns("previous"),
                **repeated["duplicate"].as_columns("duplicate"),
                **scores["vertical"].as_columns("vertical"),
                "vertical_even": even["vertical"].value,
                **scores["diagonal"].as_columns("diagonal"),
                "diagonal_even": even["diagonal"].value,
                **scores["block"].as_columns("block"),
                "block_even": even["block"].value,
                "n": int(site_sums.shared("words")[0]),
            }
            row["role"], row["roles"] = named(
                {
                    role: strength
                    for role, (holds, strength) in _holds(
                        site_sums,
                        head,
                        even,
                        scores,
                        relation,
                        at_offset,
                        repeated,
                        rare_null,
                        p_values,
                        rules,
                        min_count,
                    ).items()
                    if holds
                }
            )
            rows.append(row)
    return pd.DataFrame(rows)


def _holds(
    site_sums: Sums,
    head: int,
    even: Mapping[str, Share],
    scores: Mapping[str, Share],
    relation: pd.Series | None,
    at_offset: Share,
    repeated: Mapping[str, Share],
    rare_null: float,
    p_values: Mapping[str, float],
    rules: Rules,
    min_count: int,
) -> dict[str, tuple[bool, float]]:
    """Whether a head has each role, and the strength of the role."""
    enough = site_sums.shared("words")[0] >= min_count
    simple = max(_simple(site_sums.chains))
    rare_baseline = max(rare_null, scores["rare_longest"].value)
    rarer = site_sums.head("rare", head) - site_sums.shared("rare_longest")
    rare, chain = scores["rare"].value, scores["coreference"].value
    relation_gain = 0.0
    if relation is not None:
        relation_gain = gain(float(relation["accuracy_confident"]), float(max(relation[SIMPLE])))

    def rests(name: str) -> tuple[bool, float]:
        """Whether enough attention rests there, and more than uniform attention."""
        above = site_sums.head(name, head) - site_sums.uniform(name)
        is_above = (
            differences(above[:, None], site_sums.shared(REST_OVER.get(name, "words")))[1][0] > 0
        )
        value = scores[name].value
        return enough and value >= MIN_MASS and beats(
            value, even[name].value, rules
        ) and is_above, 0.0

    return {
        **{name: (each.value >= rules.repeats, each.value) for name, each in repeated.items()},
        "coreference": (
            site_sums.chains[0, 0] >= min_count
            and p_values["coreference"] < rules.alpha
            and beats(chain, simple, rules)
            and _above_simple(site_sums, head).lower > 0,
            gain(chain, simple),
        ),
        "syntactic": (relation is not None and bool(relation["syntactic"]), relation_gain),
        "rare": (
            p_values["rare"] < rules.alpha
            and site_sums.shared("rare")[0] >= min_count
            and rare >= rules.rare
            and beats(rare, rare_baseline, rules)
            and differences(rarer[:, None], site_sums.shared("rare"))[1][0] > 0,
            gain(rare, rare_baseline),
        ),
        "positional": (
            enough and at_offset.value >= rules.positional and p_values["offset"] < rules.alpha,
            at_offset.value,
        ),
        "separator": rests("ends"),
        "first": rests("first"),
        "block": rests("block"),
        "vertical": rests("vertical"),
        "diagonal": rests("diagonal"),
    }


REST_OVER = {"block": "block"}  # the total of a measure, if it is not all words


def _above_simple(site_sums: Sums, head: int) -> Share:
    """Accuracy on antecedents minus the better of two simple rules."""
    above = site_sums.head("coreference", head) - site_sums.chains[:, 1:].max(1)
    return Share(*(float(each[0]) for each in differences(above[:, None], site_sums.chains[:, 0])))


def _scores(site_sums: Sums) -> list[dict[str, Share]]:
    """All shares of each head."""
    words = site_sums.shared("words")
    over = {
        "confidence": words,
        "entropy": site_sums.shared("entropy"),
        "rare": site_sums.shared("rare"),
        "two_rarest": site_sums.shared("rare"),
        "special": words,
        "normed": words,
        "ends": words,
        "first": words,
        "coreference": site_sums.chains[:, 0],
        "previous": site_sums.shared("previous"),
        "vertical": words,
        "diagonal": words,
        "block": site_sums.shared("block"),
        "reliable_words": words,
    }
    by_name = {name: shares(site_sums.counts(name)[..., 0], total) for name, total in over.items()}
    scores = [
        {name: Share(*(float(each[head]) for each in ends)) for name, ends in by_name.items()}
        for head in _heads(site_sums)
    ]
    longest = share(site_sums.shared("rare_longest"), site_sums.shared("rare"))
    for head, each in enumerate(scores):
        each["rare_longest"] = longest
        each["distance"] = share(site_sums.head("away", head), site_sums.head("on_words", head))
    return scores


def _offset_p_values(sums: Mapping[Site, Sums]) -> Mapping[tuple[Site, int], float]:
    """P-values of the most frequent offset of each head, against visible words chosen at random.

    Corrected over all heads and offsets.
    """
    keys, hits, counts, chances = [], [], [], []
    for site, site_sums in sums.items():
        with_offset, by_chance = site_sums.shared("offsets")[0], site_sums.shared("by_chance")[0]
        for head in range(site.heads):
            offset = OFFSETS.index(_offset(site_sums, head)[0])
            keys.append((site, head))
            hits.append(site_sums.head("offsets", head)[0, offset])
            counts.append(with_offset[offset])
            chances.append(min(1.0, by_chance[offset] / max(with_offset[offset], 1)))
    p_values = binomial_p_values(np.array(hits), np.array(counts), np.array(chances))
    n_tests = len(keys) * len(OFFSETS)
    return dict(zip(keys, np.minimum(1.0, n_tests * p_values).tolist(), strict=True))


def _chain_p_values(
    head_sums: HeadSums, sums: Mapping[Site, Sums]
) -> Mapping[tuple[Site, int], float]:
    """Sign tests against both simple rules over documents, corrected over all heads."""
    keys = [(site, head) for site in sums for head in range(site.heads)]
    if not head_sums.chain_wins:
        return dict.fromkeys(keys, 1.0)
    wins = np.concatenate([head_sums.chain_wins[site].cpu().numpy() for site in sums], 2)
    p_values = sign_test_p_values(*wins.swapaxes(1, 2))  # [heads]
    return dict(zip(keys, p_values.tolist(), strict=True))


def _offset(site_sums: Sums, head: int) -> tuple[int, Share]:
    """The offset that most words attend to, among offsets that enough words have."""
    with_offset, hits = (
        site_sums.shared("offsets"),
        site_sums.head("offsets", head),
    )  # [1 + samples, offsets]
    words = site_sums.shared("words")[0]
    is_usual = with_offset[0] >= max(1.0, MIN_WITH_OFFSET * words)
    if not is_usual.any():
        return 0, NOTHING
    shares = np.where(is_usual, hits[0] / np.maximum(with_offset[0], 1), -1.0)
    best = int(shares.argmax())
    if shares[best] <= 0:
        return 0, share(hits[:, FARTHEST], with_offset[:, FARTHEST])
    return OFFSETS[best], share(hits[:, best], with_offset[:, best])


def _relation_accuracy(relation: pd.Series | None) -> Share:
    """Accuracy on the best relation of a head, with its interval."""
    if relation is None:
        return NOTHING
    return Share(*(float(relation[name]) for name in ("accuracy", "lower", "upper")))


def _simple(chains: Floats) -> tuple[float, float]:
    """Accuracy of the nearest mention, and of the same head word."""
    mentions = chains[0, 0]
    return (chains[0, 1] / mentions, chains[0, 2] / mentions) if mentions else (0.0, 0.0)


def _repeated(repeats: Repeats | None, head: int) -> dict[str, Share]:
    """Mean attention on copies over texts, with bootstrap intervals."""
    if repeats is None:
        return {"duplicate": NOTHING, "induction": NOTHING}
    shares = {}
    for name in ("duplicate", "induction"):
        values = getattr(repeats, name)[:, head].double().numpy()
        shares[name] = Share(float(values.mean()), *mean_interval(values))
    return shares


def _rarity(
    head_sums: HeadSums, sums: Mapping[Site, Sums]
) -> Mapping[tuple[Site, int], tuple[float, float]]:
    """Mean of the permutation null of the rare role, and its p-value, corrected over all heads."""
    keys, scores, nulls, numbers = [], [], [], []
    for site, site_sums in sums.items():
        group = group_of(site)
        rows = head_sums.rare_rows[group].cpu().numpy()  # [shuffles]
        nulls.append(head_sums.rare_hits[site].cpu().numpy() / np.maximum(rows, 1)[:, None])
        for head in range(site.heads):
            keys.append((site, head))
            scores.append(share(site_sums.head("rare", head), site_sums.shared("rare")).value)
            numbers.append(site_sums.shared("rare")[0])
    if not keys:
        return {}
    null = np.concatenate(nulls, 1)  # [shuffles, heads of all sites]
    p_values = permutation_p_values(np.array(scores), null, np.array(numbers))
    return dict(zip(keys, zip(null.mean(0).tolist(), p_values.tolist(), strict=True), strict=True))


# --- other tables ---------------------------------------------------------------------------------


def offsets(sums: Mapping[Site, Sums]) -> pd.DataFrame:
    """The table `offsets`: share of words that attend to each offset, of those that have it."""
    rows = []
    for site, site_sums in sums.items():
        with_offset = site_sums.shared("offsets")[0]
        for head in range(site.heads):
            hits = site_sums.head("offsets", head)[0]
            rows += [
                (site.stack, site.kind, site.layer, head, offset, hits[i] / with_offset[i],
                 int(with_offset[i]))
                for i, offset in enumerate(range(-FARTHEST, FARTHEST + 1))
                if with_offset[i]
            ]  # fmt: skip
    return pd.DataFrame(rows, columns=[*HEAD, "offset", "share", "n"])


CROSS = (
    "stack", "layer", "head", "entropy", "order", "same", "first", "last", "special", "n",
)  # fmt: skip


def cross(sums: Mapping[Site, Sums]) -> pd.DataFrame:
    """The table `cross`: how heads of a decoder follow the text that the encoder reads."""
    return pd.DataFrame(list(_cross(sums)), columns=CROSS)


def _cross(sums: Mapping[Site, Sums]) -> Iterator[Sequence[object]]:
    for site, site_sums in sums.items():
        if site.kind != "cross":
            continue
        words = site_sums.shared("words")
        for head in range(site.heads):
            hits = site_sums.head("offsets", head)[:, FARTHEST]
            yield (
                site.stack,
                site.layer,
                head,
                share(site_sums.head("entropy", head), site_sums.shared("entropy")).value,
                share(site_sums.head("order", head), site_sums.shared("order")).value,
                share(hits, site_sums.shared("offsets")[:, FARTHEST]).value,
                *(share(site_sums.head(f"looks_{target}", head), words).value
                  for target in ("first", "last", "special")),
                int(words[0]),
            )  # fmt: skip


BEST = ("relation", "direction", *HEAD, "accuracy", "lower", "upper", "n", "accuracy_confident",
        "accuracy_any_dependent", "reliable", "baseline_offset", *SIMPLE, "gain",
        "syntactic")  # fmt: skip


def best(relation_table: pd.DataFrame, min_count: int) -> pd.DataFrame:
    """The table `best`: the best head on each relation and direction, as in Clark et al. (2019)."""
    candidates = relation_table[relation_table["n"] >= min_count]
    chosen = candidates.sort_values("accuracy", ascending=False, kind="stable")
    chosen = chosen.drop_duplicates(["relation", "direction"])
    chosen = chosen.assign(gain=chosen["accuracy"] - chosen[SIMPLE].max(axis=1))
    return chosen.sort_values(["relation", "direction"]).reset_index(drop=True)[list(BEST)]
