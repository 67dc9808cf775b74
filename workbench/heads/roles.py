"""When a head is called what: the rules, their thresholds, and which role names a head.

Roles that claim something about words need a baseline that is beaten by a margin and a test that is
corrected for how many heads (and relations, and offsets) were tried, so that random weights get
none. Roles are not exclusive: `roles` tells all that hold. `role` is the one that a head fills
best, by how far its score lies between its baseline and 1; roles that only say where attention
rests (more than uniform attention would) name a head where no other does.
"""

from collections.abc import Mapping
from dataclasses import dataclass

MOSTLY = 0.5  # of attention, for roles that are named by where it rests

ROLES: Mapping[str, str] = {
    "induction": "on blocks that come twice, looks at the piece after the earlier copy",
    "duplicate": "on blocks that come twice, looks at the earlier copy of the same piece",
    "coreference": "looks from a mention at one of its chain, more often than two simple rules",
    "syntactic": "follows a dependency relation, significantly better than any simple rule",
    "rare": "looks at the rarest word of the sentence",
    "positional": "looks at one relative offset nearly always",
    "separator": "rests on the special token behind the text",
    "first": "rests on where the text begins",
    "block": "stays within the sentence, in texts of several",
    "vertical": "most words look at one and the same",
    "diagonal": "looks at the word itself and the ones beside it",
}  # in the order in which they name a head that fills several as well
RESTS = ("separator", "first", "block", "vertical", "diagonal")  # say only where attention rests


@dataclass(frozen=True)
class Rules:
    """Where the lines are drawn."""

    positional: float = 0.9  # share of words that look at one offset
    rare: float = 0.5  # share of words that look at the rarest one
    margin: float = 0.1  # by which a baseline is beaten
    relative: bool = False  # as a share of the baseline, not in points
    alpha: float = 0.01
    repeats: float = 0.4  # attention, on blocks that come twice


def beats(score: float, baseline: float, rules: Rules) -> bool:
    """Whether a baseline is beaten by the margin."""
    least = baseline * (1 + rules.margin) if rules.relative else baseline + rules.margin
    return score >= least and score > baseline


def gain(score: float, baseline: float) -> float:
    """How far a score lies between its baseline and 1."""
    return (score - baseline) / (1 - baseline) if baseline < 1 else 0.0


def named(holds: Mapping[str, float | None]) -> tuple[str, str]:
    """The role that names a head, and all that it has; `holds` says how well it fills each."""
    found = [role for role in ROLES if holds.get(role) is not None]
    telling = [role for role in found if role not in RESTS]
    best = max(telling, key=lambda role: holds[role] or 0.0) if telling else ""
    return best or (found[0] if found else ""), ", ".join(found)
