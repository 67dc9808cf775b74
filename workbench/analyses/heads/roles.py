"""Roles of heads: the rules, their thresholds, and which role names a head.

A role that claims something about words must beat its baseline by a margin and pass a test that is
corrected for the number of heads (and relations, and offsets), so that random weights have no role.
Roles are not exclusive: `roles` lists all of them. `role` is the one that a head fills best: its
score is furthest from the baseline towards 1. Roles that only say where attention rests (more than
uniform attention) name a head that has no other role. Costs: nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.core.head_names import ROLES

MIN_MASS = 0.5  # minimum share of attention, for roles that say where attention rests

DIRECTIONS: Mapping[str, str] = {
    "dependent-to-head": "dependent to governor",
    "head-to-dependent": "governor to dependent",
}  # of the tables, in words: there a head is an attention head

RESTS = ("separator", "first", "block", "vertical", "diagonal")  # say only where attention rests


@dataclass(frozen=True)
class Rules:
    """Thresholds of the roles."""

    positional: float = 0.9  # share of words that attend to one offset
    rare: float = 0.5  # share of words that attend to the rarest one
    margin: float = 0.1  # by which the baseline must be beaten
    relative: bool = False  # the margin is a share of the baseline, not points
    alpha: float = 0.01
    repeats: float = 0.4  # attention, in random blocks that occur twice


def beats(score: float, baseline: float, rules: Rules) -> bool:
    """Whether a score beats its baseline by the margin."""
    minimum = baseline * (1 + rules.margin) if rules.relative else baseline + rules.margin
    return score >= minimum and score > baseline


def gain(score: float, baseline: float) -> float:
    """The position of a score between its baseline (0) and 1."""
    return (score - baseline) / (1 - baseline) if baseline < 1 else 0.0


def named(holds: Mapping[str, float | None]) -> tuple[str, str]:
    """The role that names a head, and all its roles; `holds` has the strength of each."""
    roles = [role for role in ROLES if holds.get(role) is not None]
    specific = [role for role in roles if role not in RESTS]
    best = max(specific, key=lambda role: holds[role] or 0.0) if specific else ""
    return best or (roles[0] if roles else ""), ", ".join(roles)
