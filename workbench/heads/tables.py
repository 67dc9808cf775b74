"""The tables of all heads, from the sums of one pass.

Shares are sums over sums; intervals are the middle 95 % of the same over drawings of documents. A
share of nothing is 0, with an interval from 0 to 1 and an `n` of 0. Costs milliseconds a head.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from workbench.engine.statistics import FARTHEST, OFFSETS
from workbench.engine.taps import Site
from workbench.heads.blocks import Repeats
from workbench.heads.gold import DIRECTIONS, Gold
from workbench.heads.looking import Answers, Group
from workbench.heads.measures import head_parts, shared_parts
from workbench.heads.nulls import corrected
from workbench.heads.roles import MOSTLY, Rules, beats, gain, named

Floats = NDArray[np.float64]
HEAD = ("stack", "kind", "layer", "head")
ENOUGH = 0.2  # of the words must have a word at an offset, for it to be a role
MIDDLE = (2.5, 97.5)


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
    lower, upper = np.percentile(values[1:] if len(values) > 1 else values, MIDDLE, axis=0)
    return values[0], np.minimum(lower, values[0]), np.maximum(upper, values[0])


@dataclass(frozen=True)
class Sums:
    """The sums of one site, by name."""

    own: Floats  # [1 + drawings, heads, numbers]
    all: Floats  # [1 + drawings, numbers]
    relations: int

    def head(self, name: str, head: int) -> Floats:
        """[1 + drawings], or with the numbers of a part behind"""
        part: Floats = self.own[:, head, head_parts(self.relations)[name]]
        return part[:, 0] if part.shape[1] == 1 and name not in ("offsets", "relations") else part

    def shared(self, name: str) -> Floats:
        part: Floats = self.all[:, shared_parts(self.relations)[name]]
        return part[:, 0] if part.shape[1] == 1 and name not in ("offsets", "gold") else part

    @property
    def questions(self) -> Floats:
        """[1 + drawings, questions, asked | the first word answers | each offset answers]"""
        gold = self.shared("gold")[:, :-3]
        return gold.reshape(len(gold), 2 * self.relations, len(OFFSETS) + 2)

    @property
    def chains(self) -> Floats:
        """Mentions, and those the nearest mention and the same head word answer."""
        return self.shared("gold")[:, -3:]


def sums_of(answers: Answers, gold: Gold) -> Mapping[Site, Sums]:
    return {
        site: Sums(
            total.cpu().numpy(),
            answers.shared[Group(site.stack, site.kind)].cpu().numpy(),
            len(gold.relations),
        )
        for site, total in answers.heads.items()
    }


def believed(sums: Mapping[Site, Sums]) -> float:
    """The share of words, of all heads together, that look somewhere that can be believed."""
    looks = sum(float(own.head("believed", h)[0]) for own in sums.values() for h in _heads(own))
    words = sum(float(own.shared("words")[0]) * len(_heads(own)) for own in sums.values())
    return looks / words if words else 1.0


def _heads(own: Sums) -> range:
    return range(own.own.shape[1])


# --- relations ------------------------------------------------------------------------------------

RELATIONS = (
    *HEAD, "relation", "direction", "accuracy", "lower", "upper", "n", "baseline_offset",
    "baseline_accuracy", "baseline_first", "null_mean", "p_value", "syntactic",
)  # fmt: skip


def relations(
    answers: Answers, sums: Mapping[Site, Sums], gold: Gold, rules: Rules, least: int
) -> pd.DataFrame:
    """Every head, relation and direction that occurs where the head could see it."""
    columns: defaultdict[str, list[Floats]] = defaultdict(list)
    nulls: list[Floats] = []  # [shuffles, heads] each
    for site, own in sums.items():
        asked = own.questions[:, :, 0]
        hits = own.own[:, :, head_parts(own.relations)["relations"]]  # [1 + drawings, heads, q]
        known = np.flatnonzero(asked[0] > 0)
        if not len(known):
            continue
        null = answers.hits[site].cpu().numpy()  # [shuffles, questions, heads]
        could = answers.asked[Group(site.stack, site.kind)].cpu().numpy()
        for question in known:
            n = asked[0, question]
            answered = own.questions[0, question] / n
            best = int(answered[2:].argmax())
            accuracy, lower, upper = shares(hits[:, :, question], asked[:, question])
            nulls.append(null[:, question] / np.maximum(could[:, question], 1)[:, None])
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
                "baseline_offset": OFFSETS[best],
                "baseline_accuracy": answered[2 + best],
                "baseline_first": answered[1],
            }
            for name, values in row.items():
                columns[name].append(np.broadcast_to(values, site.heads))
    if not nulls:
        return pd.DataFrame(columns=RELATIONS)
    found = pd.DataFrame({name: np.concatenate(each) for name, each in columns.items()})
    by_chance = np.concatenate(nulls, axis=1)  # [shuffles, rows]
    found["null_mean"] = by_chance.mean(0)
    enough = (found["n"] >= least).to_numpy()
    p_value = np.ones(len(found))
    if enough.any():
        score, number = (torch.tensor(found[name].to_numpy()[enough]) for name in ("accuracy", "n"))
        p_value[enough] = corrected(score, torch.from_numpy(by_chance[:, enough]), number)[1]
    found["p_value"] = p_value
    simple = found[["baseline_accuracy", "baseline_first"]].max(axis=1)
    wins = [beats(a, b, rules) for a, b in zip(found["accuracy"], simple, strict=True)]
    found["syntactic"] = enough & (p_value < rules.alpha) & np.array(wins)
    places = {(s.stack, s.kind, s.layer): place for place, s in enumerate(sums)}
    keys = zip(found["stack"], found["kind"], found["layer"], strict=True)
    found["place"] = [places[key] for key in keys]
    ordered = found.sort_values(["place", "head"], kind="stable", ignore_index=True)
    return ordered[list(RELATIONS)]


def best_relations(found: pd.DataFrame, least: int) -> Mapping[tuple[object, ...], pd.Series]:
    """Of each head the relation that it follows furthest above its baselines."""
    if found.empty:
        return {}
    known = found[(found["n"] >= least) & (found["accuracy"] > 0)].copy()
    known["gain"] = known["accuracy"] - known[["baseline_accuracy", "baseline_first"]].max(axis=1)
    ordered = known.sort_values(["syntactic", "gain"], ascending=False, kind="stable")
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
    rows = []
    for site, own in sums.items():
        for head in range(site.heads):
            key = (site.stack, site.kind, site.layer, head)
            row: dict[str, object] = dict(zip(HEAD, key, strict=True))
            row |= {"role": "", "roles": ""}
            scores = _scores(own, head)
            offset, at_offset = _offset(own, head)
            relation = best.get(key)
            rare_null, rare_p = rarity[site, head]
            repeated = _repeated(copies.get(site), head)
            nearest, same_word = _simple(own.chains)
            row |= {
                "confidence": scores["confidence"].value,
                "entropy": scores["entropy"].value,
                "distance": scores["distance"].value,
                "offset": offset,
                **at_offset.as_columns("offset_share"),
                "best_relation": "" if relation is None else relation["relation"],
                "best_direction": "" if relation is None else relation["direction"],
                **_followed(relation).as_columns("relation_accuracy"),
                "relation_baseline": 0.0
                if relation is None
                else max(relation["baseline_accuracy"], relation["baseline_first"]),
                **scores["rare"].as_columns("rare_share"),
                "rare_null": rare_null,
                "rare_alike": scores["rare_alike"].value,
                "rare_p_value": rare_p,
                "two_rarest_share": scores["two_rarest"].value,
                **scores["special"].as_columns("special_mass"),
                **scores["normed"].as_columns("special_mass_normed"),
                **scores["ends"].as_columns("separator_mass"),
                **scores["first"].as_columns("first_mass"),
                **scores["coreference"].as_columns("coref_accuracy"),
                "coref_nearest": nearest,
                "coref_head_match": same_word,
                "coref_n": int(own.chains[0, 0]),
                **repeated["induction"].as_columns("induction"),
                **scores["previous"].as_columns("previous"),
                **repeated["duplicate"].as_columns("duplicate"),
                **scores["vertical"].as_columns("vertical"),
                **scores["diagonal"].as_columns("diagonal"),
                **scores["block"].as_columns("block"),
                "block_even": scores["block_even"].value,
                "n": int(own.shared("words")[0]),
            }
            row["role"], row["roles"] = named(
                {
                    role: strength
                    for role, (holds, strength) in _holds(
                        own, scores, relation, at_offset, repeated, rarity[site, head], rules, least
                    ).items()
                    if holds
                }
            )
            rows.append(row)
    return pd.DataFrame(rows)


def _holds(
    own: Sums,
    scores: Mapping[str, Share],
    relation: pd.Series | None,
    at_offset: Share,
    repeated: Mapping[str, Share],
    rarity: tuple[float, float],
    rules: Rules,
    least: int,
) -> dict[str, tuple[bool, float]]:
    """Whether a head has each role, and how well it fills it."""
    enough = own.shared("words")[0] >= least
    simple = max(_simple(own.chains))
    even = scores["block_even"].value
    stays = gain(scores["block"].value, even) if own.shared("block")[0] else 0.0
    rare_null, rare_p = rarity
    by_chance = max(rare_null, scores["rare_alike"].value)
    rare, chain = scores["rare"].value, scores["coreference"]
    follows = 0.0
    if relation is not None:
        baseline = max(relation["baseline_accuracy"], relation["baseline_first"])
        follows = gain(float(relation["accuracy"]), float(baseline))
    return {
        **{name: (found.value >= rules.repeats, found.value) for name, found in repeated.items()},
        "coreference": (
            own.chains[0, 0] >= least and chain.lower > simple,
            gain(chain.value, simple),
        ),
        "syntactic": (relation is not None and bool(relation["syntactic"]), follows),
        "rare": (
            rare_p < rules.alpha
            and own.shared("rare")[0] >= least
            and rare >= rules.rare
            and beats(rare, by_chance, rules),
            gain(rare, by_chance),
        ),
        "positional": (enough and at_offset.value >= rules.positional, at_offset.value),
        "separator": (enough and scores["ends"].value >= MOSTLY, 0.0),
        "first": (enough and scores["first"].value >= MOSTLY, 0.0),
        "block": (enough and stays >= MOSTLY, 0.0),
        "vertical": (enough and scores["vertical"].value >= MOSTLY, 0.0),
        "diagonal": (enough and scores["diagonal"].value >= MOSTLY, 0.0),
    }


def _scores(own: Sums, head: int) -> dict[str, Share]:
    """What is a sum over a sum; which over which."""
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
    }
    found = {name: share(own.head(name, head), whole) for name, whole in over.items()}
    found["distance"] = share(own.head("away", head), own.head("on_words", head))
    found["rare_alike"] = share(own.shared("rare_alike"), own.shared("rare"))
    found["block_even"] = share(own.shared("block_even"), own.shared("block"))
    return found


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
    random = np.random.default_rng(0)
    texts = len(found.duplicate)
    drawn = random.integers(0, texts, (200, texts))
    shares = {}
    for name in ("duplicate", "induction"):
        values = getattr(found, name)[:, head].double().numpy()
        lower, upper = np.percentile(values[drawn].mean(1), MIDDLE)
        shares[name] = Share(float(values.mean()), float(lower), float(upper))
    return shares


def _rarity(
    answers: Answers, sums: Mapping[Site, Sums]
) -> Mapping[tuple[Site, int], tuple[float, float]]:
    """The null of the rare role and its p-value, corrected over all heads."""
    keys, scores, nulls, numbers = [], [], [], []
    for site, own in sums.items():
        group = Group(site.stack, site.kind)
        null = answers.rare_hits[site] / answers.rare_asked[group].clamp(min=1)[:, None]
        for head in range(site.heads):
            keys.append((site, head))
            scores.append(share(own.head("rare", head), own.shared("rare")).value)
            nulls.append(null[:, head].cpu().double())
            numbers.append(own.shared("rare")[0])
    if not keys:
        return {}
    score = torch.tensor(scores, dtype=torch.double)
    mean, p_value = corrected(score, torch.stack(nulls, 1), torch.tensor(numbers))
    return dict(zip(keys, zip(mean.tolist(), p_value.tolist(), strict=True), strict=True))


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


BEST = ("relation", "direction", *HEAD, "accuracy", "lower", "upper", "n", "baseline_offset",
        "baseline_accuracy", "baseline_first", "gain", "syntactic")  # fmt: skip


def best(followed: pd.DataFrame, least: int) -> pd.DataFrame:
    """Of each relation and direction the best head, as Clark's table has it."""
    known = followed[followed["n"] >= least]
    chosen = known.sort_values("accuracy", ascending=False, kind="stable")
    chosen = chosen.drop_duplicates(["relation", "direction"])
    chosen = chosen.assign(
        gain=chosen["accuracy"] - chosen[["baseline_accuracy", "baseline_first"]].max(axis=1)
    )
    return chosen.sort_values(["relation", "direction"]).reset_index(drop=True)[list(BEST)]
