"""The tables of all heads, from the sums of one pass.

Shares are sums over sums; intervals are the middle 95 % of the same over drawings of documents. A
share of nothing is 0, with an interval from 0 to 1 and an `n` of 0. Costs milliseconds a head.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.core.experiment import HEAD
from workbench.core.stats import (
    binomial_p_values,
    interval,
    mean_interval,
    permutation_p_values,
    sign_test_p_values,
)
from workbench.corpora.encode import encode
from workbench.engine.map_statistics import FARTHEST, OFFSETS
from workbench.engine.model import Model
from workbench.engine.taps import Site
from workbench.heads.collect import Answers, Asking, Group, look
from workbench.heads.gold import DIRECTIONS, FIRST, FIXED, LONGEST, RULES, Gold, gold_of
from workbench.heads.induction import Repeats
from workbench.heads.measures import EVEN, RELATION_COUNTS, head_parts, shared_parts
from workbench.heads.roles import MOSTLY, Rules, beats, gain, named

if TYPE_CHECKING:
    from spacy.tokens import Doc

Floats = NDArray[np.float64]
ENOUGH = 0.2  # of the words must have a word at an offset, for it to be a role


@dataclass(frozen=True)
class Share:
    """A number with its interval."""

    value: float
    lower: float
    upper: float

    def as_columns(self, name: str) -> dict[str, float]:
        return {name: self.value, f"{name}_lower": self.lower, f"{name}_upper": self.upper}


NOTHING = Share(0.0, 0.0, 1.0)


def share(part: Floats, whole: Floats) -> Share:
    """Sums over sums, the first of the corpus, the others of drawings.  # [1 + drawings] each"""
    return Share(*(float(each[0]) for each in shares(part[:, None], whole)))


def shares(part: Floats, whole: Floats) -> tuple[Floats, Floats, Floats]:
    """The same of many at once, over one whole.  # [1 + drawings, n] -> [n] each"""
    number = part.shape[1]
    if whole[0] <= 0:
        return np.zeros(number), np.zeros(number), np.ones(number)
    values: Floats = part[whole > 0] / whole[whole > 0][:, None]
    lower, upper = interval((values[1:] if len(values) > 1 else values).T)
    return values[0], np.minimum(lower, values[0]), np.maximum(upper, values[0])


def differences(part: Floats, whole: Floats) -> tuple[Floats, Floats, Floats]:
    """Differences of shares over one whole, with intervals.  # [1 + drawings, n] -> [n] each"""
    value, lower, upper = shares(part, whole)
    return (value, lower, upper) if whole[0] > 0 else (value, lower - 1, upper)


@dataclass(frozen=True)
class Sums:
    """The sums of one site, by name."""

    own: Floats  # [1 + drawings, heads, numbers]
    even: Floats  # [1 + drawings, numbers], `measures.EVEN` of a head of uniform attention
    all: Floats  # [1 + drawings, numbers]
    relations: int

    def head(self, name: str, head: int) -> Floats:
        """[1 + drawings], or with the numbers of a part behind"""
        part: Floats = self.own[:, head, head_parts(self.relations)[name]]
        return part if name in ("offsets", *RELATION_COUNTS) else part[:, 0]

    def uniform(self, name: str) -> Floats:
        """One of `measures.EVEN`.  # [1 + drawings]"""
        part: Floats = self.even[:, EVEN.index(name)]
        return part

    def counts(self, name: str) -> Floats:
        """Of all heads.  # [1 + drawings, heads, numbers of the part]"""
        part: Floats = self.own[:, :, head_parts(self.relations)[name]]
        return part

    def shared(self, name: str) -> Floats:
        part: Floats = self.all[:, shared_parts(self.relations)[name]]
        return part if name in ("offsets", "by_chance", "gold") else part[:, 0]

    @property
    def questions(self) -> Floats:
        """[1 + drawings, questions, arcs | words | hits of each simple rule]"""
        gold = self.shared("gold")[:, :-3]
        return gold.reshape(len(gold), 2 * self.relations, 2 + RULES)

    @property
    def chains(self) -> Floats:
        """Mentions, and those the nearest mention and the same head word get right."""
        return self.shared("gold")[:, -3:]


def sums_of(answers: Answers, gold: Gold) -> Mapping[Site, Sums]:
    return {
        site: Sums(
            total.cpu().numpy(),
            answers.even[Group(site.stack, site.kind)].cpu().numpy(),
            answers.shared[Group(site.stack, site.kind)].cpu().numpy(),
            len(gold.relations),
        )
        for site, total in answers.heads.items()
    }


def reliable(sums: Mapping[Site, Sums]) -> float:
    """The share of words, of all heads together, whose maximum is reliable."""
    looks = sum(
        float(own.head("reliable_words", h)[0]) for own in sums.values() for h in _heads(own)
    )
    words = sum(float(own.shared("words")[0]) * len(_heads(own)) for own in sums.values())
    return looks / words if words else 1.0


def _heads(own: Sums) -> range:
    return range(own.own.shape[1])


# --- relations ------------------------------------------------------------------------------------

SIMPLE = ["baseline_accuracy", "baseline_first", "baseline_longest"]
RELATIONS = (
    *HEAD, "relation", "direction", "accuracy", "lower", "upper", "n", "accuracy_confident",
    "accuracy_any_dependent", "reliable", "baseline_offset", *SIMPLE, "difference",
    "difference_lower", "difference_upper", "p_value_baseline", "null_mean", "p_value", "syntactic",
)  # fmt: skip


def relations(
    answers: Answers, sums: Mapping[Site, Sums], gold: Gold, rules: Rules, least: int
) -> pd.DataFrame:
    """Every head, relation and direction that occurs where the head could see it."""
    columns: defaultdict[str, list[Floats]] = defaultdict(list)
    nulls: list[Floats] = []  # [shuffles, heads] each
    wins: list[Floats] = []  # [2, heads, rules] each
    for site, own in sums.items():
        arcs = own.questions[:, :, 0]  # [1 + drawings, questions]
        counts = {name: own.counts(name) for name in RELATION_COUNTS}
        known = np.flatnonzero(arcs[0] > 0)
        if not len(known):
            continue
        null = answers.hits[site].cpu().numpy()  # [shuffles, questions, heads]
        could = answers.asked[Group(site.stack, site.kind)].cpu().numpy()
        against = answers.wins[site].cpu().numpy()  # [2, questions, heads, rules]
        for question in known:
            n = arcs[0, question]
            simple = own.questions[:, question, 2:]  # [1 + drawings, rules]
            best = int(simple[0, FIXED:].argmax())
            accuracy, lower, upper = shares(counts["hits"][:, :, question], arcs[:, question])
            # the best rule of each drawing, so that its choice is part of the interval
            above = counts["confident"][:, :, question] - simple.max(1, keepdims=True)
            difference, from_, to = differences(above, arcs[:, question])
            nulls.append(null[:, question] / np.maximum(could[:, question], 1)[:, None])
            wins.append(against[:, question])
            row = {
                "stack": site.stack,
                "kind": site.kind,
                "layer": site.layer,
                "head": np.arange(site.heads),
                "relation": gold.relations[question % len(gold.relations)],
                "direction": DIRECTIONS[question // len(gold.relations)],
                "accuracy": accuracy,
                "lower": lower,
                "upper": upper,
                "n": int(n),
                "accuracy_confident": counts["confident"][0, :, question] / n,
                "accuracy_any_dependent": counts["hits"][0, :, question]
                / own.questions[0, question, 1],
                "reliable": counts["reliable"][0, :, question] / n,
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
    found = pd.DataFrame({name: np.concatenate(each) for name, each in columns.items()})
    by_chance = np.concatenate(nulls, axis=1)  # [shuffles, rows]
    found["null_mean"] = by_chance.mean(0)
    enough = (found["n"] >= least).to_numpy()
    found["p_value"], found["p_value_baseline"] = 1.0, 1.0
    if enough.any():
        names = ("accuracy_confident", "n")
        score, number = (found[name].to_numpy(np.float64)[enough] for name in names)
        rows = found.index[enough]
        found.loc[rows, "p_value"] = permutation_p_values(score, by_chance[:, enough], number)
        ahead, behind = np.concatenate(wins, 1)[:, enough]
        found.loc[rows, "p_value_baseline"] = sign_test_p_values(ahead, behind)
    pairs = zip(found["accuracy_confident"], found[SIMPLE].max(axis=1), strict=True)
    found["syntactic"] = (
        enough
        & np.array([beats(score, simple, rules) for score, simple in pairs])
        & (found["difference_lower"] > 0)
        & (found["p_value"] < rules.alpha)
        & (found["p_value_baseline"] < rules.alpha)
    )
    places = {(s.stack, s.kind, s.layer): place for place, s in enumerate(sums)}
    keys = zip(found["stack"], found["kind"], found["layer"], strict=True)
    found["place"] = [places[key] for key in keys]
    ordered = found.sort_values(["place", "head"], kind="stable", ignore_index=True)
    return ordered[list(RELATIONS)]


def best_relations(found: pd.DataFrame, least: int) -> Mapping[tuple[object, ...], pd.Series]:
    """Of each head the relation that it follows furthest above its baselines."""
    if found.empty:
        return {}
    known = found[(found["n"] >= least) & (found["accuracy_confident"] > 0)]
    ordered = known.sort_values(["syntactic", "difference"], ascending=False, kind="stable")
    best = ordered.drop_duplicates([*HEAD])
    return {tuple(row[name] for name in HEAD): row for _, row in best.iterrows()}


# --- heads ----------------------------------------------------------------------------------------


def heads(
    answers: Answers,
    sums: Mapping[Site, Sums],
    followed: pd.DataFrame,
    copies: Mapping[Site, Repeats],
    rules: Rules,
    least: int,
) -> pd.DataFrame:
    """Every head with its scores, their intervals, and its roles."""
    best = best_relations(followed, least)
    rarity = _rarity(answers, sums)
    at_offset_p, chain_p = _offset_p_values(sums), _chain_p_values(answers, sums)
    rows = []
    for site, own in sums.items():
        of_heads = _scores(own)
        even = {
            name: share(own.uniform(name), own.shared(REST_OVER.get(name, "words")))
            for name in EVEN
        }
        for head in range(site.heads):
            key = (site.stack, site.kind, site.layer, head)
            row: dict[str, object] = dict(zip(HEAD, key, strict=True))
            row |= {"role": "", "roles": ""}
            scores = of_heads[head]
            offset, at_offset = _offset(own, head)
            relation = best.get(key)
            rare_null, rare_p = rarity[site, head]
            repeated = _repeated(copies.get(site), head)
            nearest, same_word = _simple(own.chains)
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
                **_followed(relation).as_columns("relation_accuracy"),
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
                "coref_n": int(own.chains[0, 0]),
                **repeated["induction"].as_columns("induction"),
                **scores["previous"].as_columns("previous"),
                **repeated["duplicate"].as_columns("duplicate"),
                **scores["vertical"].as_columns("vertical"),
                "vertical_even": even["vertical"].value,
                **scores["diagonal"].as_columns("diagonal"),
                "diagonal_even": even["diagonal"].value,
                **scores["block"].as_columns("block"),
                "block_even": even["block"].value,
                "n": int(own.shared("words")[0]),
            }
            row["role"], row["roles"] = named(
                {
                    role: strength
                    for role, (holds, strength) in _holds(
                        own,
                        head,
                        even,
                        scores,
                        relation,
                        at_offset,
                        repeated,
                        rare_null,
                        p_values,
                        rules,
                        least,
                    ).items()
                    if holds
                }
            )
            rows.append(row)
    return pd.DataFrame(rows)


def _holds(
    own: Sums,
    head: int,
    even: Mapping[str, Share],
    scores: Mapping[str, Share],
    relation: pd.Series | None,
    at_offset: Share,
    repeated: Mapping[str, Share],
    rare_null: float,
    p_values: Mapping[str, float],
    rules: Rules,
    least: int,
) -> dict[str, tuple[bool, float]]:
    """Whether a head has each role, and how well it fills it."""
    enough = own.shared("words")[0] >= least
    simple = max(_simple(own.chains))
    by_chance = max(rare_null, scores["rare_longest"].value)
    rarer = own.head("rare", head) - own.shared("rare_longest")
    rare, chain = scores["rare"].value, scores["coreference"].value
    follows = 0.0
    if relation is not None:
        follows = gain(float(relation["accuracy_confident"]), float(max(relation[SIMPLE])))

    def rests(name: str) -> tuple[bool, float]:
        """Whether so much attention rests there, and more than uniform attention would."""
        above = own.head(name, head) - own.uniform(name)
        surely = differences(above[:, None], own.shared(REST_OVER.get(name, "words")))[1][0] > 0
        value = scores[name].value
        return enough and value >= MOSTLY and beats(value, even[name].value, rules) and surely, 0.0

    return {
        **{name: (found.value >= rules.repeats, found.value) for name, found in repeated.items()},
        "coreference": (
            own.chains[0, 0] >= least
            and p_values["coreference"] < rules.alpha
            and beats(chain, simple, rules)
            and _above_simple(own, head).lower > 0,
            gain(chain, simple),
        ),
        "syntactic": (relation is not None and bool(relation["syntactic"]), follows),
        "rare": (
            p_values["rare"] < rules.alpha
            and own.shared("rare")[0] >= least
            and rare >= rules.rare
            and beats(rare, by_chance, rules)
            and differences(rarer[:, None], own.shared("rare"))[1][0] > 0,
            gain(rare, by_chance),
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


REST_OVER = {"block": "block"}  # the sum that a mass is a share of, where it is not all words


def _above_simple(own: Sums, head: int) -> Share:
    """Antecedents that a head gets right beyond the better of two simple rules."""
    above = own.head("coreference", head) - own.chains[:, 1:].max(1)
    return Share(*(float(each[0]) for each in differences(above[:, None], own.chains[:, 0])))


def _scores(own: Sums) -> list[dict[str, Share]]:
    """Of each head what is a sum over a sum; which over which."""
    words = own.shared("words")
    over = {
        "confidence": words,
        "entropy": own.shared("entropy"),
        "rare": own.shared("rare"),
        "two_rarest": own.shared("rare"),
        "special": words,
        "normed": words,
        "ends": words,
        "first": words,
        "coreference": own.chains[:, 0],
        "previous": own.shared("previous"),
        "vertical": words,
        "diagonal": words,
        "block": own.shared("block"),
        "reliable_words": words,
    }
    found = {name: shares(own.counts(name)[..., 0], whole) for name, whole in over.items()}
    scores = [
        {name: Share(*(float(each[head]) for each in ends)) for name, ends in found.items()}
        for head in _heads(own)
    ]
    longest = share(own.shared("rare_longest"), own.shared("rare"))
    for head, each in enumerate(scores):
        each["rare_longest"] = longest
        each["distance"] = share(own.head("away", head), own.head("on_words", head))
    return scores


def _offset_p_values(sums: Mapping[Site, Sums]) -> Mapping[tuple[Site, int], float]:
    """How probable it is that a word chosen at random in sight lies as often at one offset.

    Of each head's most frequent offset; corrected over all heads and offsets.
    """
    keys, hits, counts, chances = [], [], [], []
    for site, own in sums.items():
        there, by_chance = own.shared("offsets")[0], own.shared("by_chance")[0]
        for head in range(site.heads):
            offset = OFFSETS.index(_offset(own, head)[0])
            keys.append((site, head))
            hits.append(own.head("offsets", head)[0, offset])
            counts.append(there[offset])
            chances.append(min(1.0, by_chance[offset] / max(there[offset], 1)))
    p_values = binomial_p_values(np.array(hits), np.array(counts), np.array(chances))
    tried = len(keys) * len(OFFSETS)
    return dict(zip(keys, np.minimum(1.0, tried * p_values).tolist(), strict=True))


def _chain_p_values(
    answers: Answers, sums: Mapping[Site, Sums]
) -> Mapping[tuple[Site, int], float]:
    """Sign tests against both simple rules over documents, corrected over all heads."""
    keys = [(site, head) for site in sums for head in range(site.heads)]
    if not answers.chain_wins:
        return dict.fromkeys(keys, 1.0)
    wins = np.concatenate([answers.chain_wins[site].cpu().numpy() for site in sums], 2)
    p_values = sign_test_p_values(*wins.swapaxes(1, 2))  # [heads]
    return dict(zip(keys, p_values.tolist(), strict=True))


def _offset(own: Sums, head: int) -> tuple[int, Share]:
    """The offset that most words look at, of those where most words have a word."""
    there, hits = own.shared("offsets"), own.head("offsets", head)  # [1 + drawings, offsets]
    words = own.shared("words")[0]
    usual = there[0] >= max(1.0, ENOUGH * words)
    if not usual.any():
        return 0, NOTHING
    shares = np.where(usual, hits[0] / np.maximum(there[0], 1), -1.0)
    best = int(shares.argmax())
    if shares[best] <= 0:
        return 0, share(hits[:, FARTHEST], there[:, FARTHEST])
    return OFFSETS[best], share(hits[:, best], there[:, best])


def _followed(relation: pd.Series | None) -> Share:
    if relation is None:
        return NOTHING
    return Share(*(float(relation[name]) for name in ("accuracy", "lower", "upper")))


def _simple(chains: Floats) -> tuple[float, float]:
    number = chains[0, 0]
    return (chains[0, 1] / number, chains[0, 2] / number) if number else (0.0, 0.0)


def _repeated(found: Repeats | None, head: int) -> dict[str, Share]:
    """Means over texts, with intervals over drawings of them."""
    if found is None:
        return {"duplicate": NOTHING, "induction": NOTHING}
    shares = {}
    for name in ("duplicate", "induction"):
        values = getattr(found, name)[:, head].double().numpy()
        shares[name] = Share(float(values.mean()), *mean_interval(values))
    return shares


def _rarity(
    answers: Answers, sums: Mapping[Site, Sums]
) -> Mapping[tuple[Site, int], tuple[float, float]]:
    """The null of the rare role and its p-value, corrected over all heads."""
    keys, scores, nulls, numbers = [], [], [], []
    for site, own in sums.items():
        group = Group(site.stack, site.kind)
        could = answers.rare_asked[group].cpu().numpy()  # [shuffles]
        nulls.append(answers.rare_hits[site].cpu().numpy() / np.maximum(could, 1)[:, None])
        for head in range(site.heads):
            keys.append((site, head))
            scores.append(share(own.head("rare", head), own.shared("rare")).value)
            numbers.append(own.shared("rare")[0])
    if not keys:
        return {}
    null = np.concatenate(nulls, 1)  # [shuffles, heads of all sites]
    p_values = permutation_p_values(np.array(scores), null, np.array(numbers))
    return dict(zip(keys, zip(null.mean(0).tolist(), p_values.tolist(), strict=True), strict=True))


# --- what else ------------------------------------------------------------------------------------


def offsets(sums: Mapping[Site, Sums]) -> pd.DataFrame:
    """How many words look at each offset, of those that have a word there."""
    rows = []
    for site, own in sums.items():
        there = own.shared("offsets")[0]
        for head in range(site.heads):
            hits = own.head("offsets", head)[0]
            rows += [
                (site.stack, site.kind, site.layer, head, offset, hits[place] / there[place],
                 int(there[place]))
                for place, offset in enumerate(range(-FARTHEST, FARTHEST + 1))
                if there[place]
            ]  # fmt: skip
    return pd.DataFrame(rows, columns=[*HEAD, "offset", "share", "n"])


CROSS = (
    "stack", "layer", "head", "entropy", "order", "same", "first", "last", "special", "n",
)  # fmt: skip


def cross(sums: Mapping[Site, Sums]) -> pd.DataFrame:
    """How a decoder's heads go along the text that the encoder has read."""
    return pd.DataFrame(list(_cross(sums)), columns=CROSS)


def _cross(sums: Mapping[Site, Sums]) -> Iterator[Sequence[object]]:
    for site, own in sums.items():
        if site.kind != "cross":
            continue
        words = own.shared("words")
        for head in range(site.heads):
            hits = own.head("offsets", head)[:, FARTHEST]
            yield (
                site.stack,
                site.layer,
                head,
                share(own.head("entropy", head), own.shared("entropy")).value,
                share(own.head("order", head), own.shared("order")).value,
                share(hits, own.shared("offsets")[:, FARTHEST]).value,
                *(share(own.head(f"looks_{place}", head), words).value
                  for place in ("first", "last", "special")),
                int(words[0]),
            )  # fmt: skip


BEST = ("relation", "direction", *HEAD, "accuracy", "lower", "upper", "n", "accuracy_confident",
        "accuracy_any_dependent", "reliable", "baseline_offset", *SIMPLE, "gain",
        "syntactic")  # fmt: skip


def best(followed: pd.DataFrame, least: int) -> pd.DataFrame:
    """Of each relation and direction the best head, as Clark's table has it."""
    known = followed[followed["n"] >= least]
    chosen = known.sort_values("accuracy", ascending=False, kind="stable")
    chosen = chosen.drop_duplicates(["relation", "direction"])
    chosen = chosen.assign(gain=chosen["accuracy"] - chosen[SIMPLE].max(axis=1))
    return chosen.sort_values(["relation", "direction"]).reset_index(drop=True)[list(BEST)]


# --- which head follows which relation best: the one question of `heads` that others ask too ------
#
# Costs a forward pass over the documents, with shuffled trees beside.


def followed(model: Model, docs: "Sequence[Doc]", least: int = 30) -> pd.DataFrame:
    """Of each relation and direction of so many words at least, the best head of the model."""
    gold = gold_of(docs)
    answers = look(model, encode(docs), gold, Asking())
    found = relations(answers, sums_of(answers, gold), gold, Rules(), least)
    return best(found, least)
