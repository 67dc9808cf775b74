"""The findings of averaged attention: each claim on tables with known content."""

from typing import Any

import pandas as pd
import pytest

from tests.findings import findings_of
from workbench import WorkbenchError
from workbench.analyses.attention.experiments import Averages

HEAD = ["stack", "kind", "layer", "head"]
SPECIAL = "mean attention to special tokens, averaged over heads"


def tables(kind: str = "self", special: float = 0.2, n: int = 100) -> dict[str, pd.DataFrame]:
    """Two heads: one attends to the word before, the other everywhere; verbs attend to nouns."""
    heads = [("encoder", kind, 0, head) for head in range(2)]
    by_offset = {0: {-1: 0.9, 0: 0.0, 1: 0.1}, 1: {-1: 0.3, 0: 0.2, 1: 0.1}}
    to_noun = {"VERB": 0.8, "NOUN": 0.2}
    return {
        "heads": pd.DataFrame(
            [(*heads[0], 1 - special, special, -1, 0.9, n), (*heads[1], 1.0, 0.0, -1, 0.3, n)],
            columns=[*HEAD, "words", "special", "best_offset", "best_offset_attention", "n"],
        ),
        "offsets": pd.DataFrame(
            [(*head, at, attention, n)
             for head in heads
             for at, attention in by_offset[head[3]].items()],
            columns=[*HEAD, "offset", "attention", "n"],
        ),
        "tags": pd.DataFrame(
            [(*head, tag, to, share if to == "NOUN" else 1 - share, n)
             for head in heads
             for tag, share in to_noun.items()
             for to in ("VERB", "NOUN")],
            columns=[*HEAD, "tag", "to_tag", "attention", "n"],
        ),
    }  # fmt: skip


def claims(found: Any) -> list[str]:
    return [each.claim for each in found.values()]


def test_the_strongest_head_and_the_mean_are_told_with_their_offsets() -> None:
    strongest, mean, *_ = claims(findings_of("attention-averages", tables()))
    assert strongest.startswith("Head 1.1 gives the word at offset −1 90 % of its attention")
    assert "mean over heads at this offset: 60 %" in strongest
    assert mean.endswith("the word at offset −1 gets most attention, 60 %; a word 1 word away gets "
                         "35 %.")  # fmt: skip


def test_later_words_do_not_count_for_causal_heads() -> None:
    assert "1 word away gets 60 %" in claims(findings_of("attention-averages", tables("causal")))[1]


def test_special_tokens_are_told_with_the_range_over_heads() -> None:
    found = findings_of("attention-averages", tables())[SPECIAL]
    assert "10 % of their attention" in found.claim
    assert "from 0 % (head 1.2) to 20 % (head 1.1)" in found.claim
    without = findings_of("attention-averages", tables(special=0.0))[SPECIAL]
    assert without.claim.startswith("All attention") and without.value == 0


def test_a_pair_of_parts_of_speech_is_compared_with_all_words() -> None:
    *_, pair, favourite = claims(findings_of("attention-averages", tables()))
    assert pair.startswith(("NOUN attends to VERB", "VERB attends to NOUN"))
    assert "80 % of its attention (all words: 50 %)" in pair
    assert "50 % of the attention on words, with 50 % of words" in favourite


def test_rare_or_missing_parts_of_speech_are_left_out() -> None:
    assert len(findings_of("attention-averages", tables(n=20))) == 3
    bare = tables()
    bare["tags"] = bare["tags"][:0]
    assert len(findings_of("attention-averages", bare)) == 3


def test_rare_parts_of_speech_are_left_out_and_their_words_count() -> None:
    some = tables()
    rare = some["tags"].query("tag == 'VERB'").assign(tag="X", n=20)
    some["tags"] = pd.concat([some["tags"], rare])
    *_, pair, favourite = claims(findings_of("attention-averages", some))
    assert "VERB attends to NOUN" not in pair and "(all words: 47 %)" in pair
    assert favourite.startswith("NOUN gets most attention for its frequency: 53 % of the attention")
    assert "with 45 % of words" in favourite


def test_nothing_is_tested_so_nothing_has_a_null() -> None:
    found = findings_of("attention-averages", tables()).values()
    assert {(each.verdict, each.null) for each in found} == {("supported", None)}


def test_a_missing_number_is_an_error() -> None:
    broken = tables()
    broken["heads"].loc[1, "special"] = float("nan")
    with pytest.raises(WorkbenchError, match="missing"):
        findings_of("attention-averages", broken)


def test_the_method_in_prose_has_the_settings() -> None:
    assert "up to 5 words" in Averages(max_offset=5).in_prose()
