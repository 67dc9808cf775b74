"""The findings of `geometry` and `tokenization`: each claim on tables with known content."""

import pandas as pd
import pytest

from tests.findings import findings_of

# --- geometry -------------------------------------------------------------------------------------

TESTS = {  # first, second, lower, upper, random, p, holds, n
    "depth": (0.4, 0.9, -0.6, -0.4, -0.1, 0.01, True, 100),
    "depth, standardised": (0.5, 0.95, -0.5, -0.4, -0.1, 0.01, True, 100),
    "anisotropy": (0.6, 0.0, 0.55, 0.65, 0.1, 0.01, True, 1000),
    "intra-sentence": (0.8, 0.6, 0.1, 0.3, 0.3, 0.3, False, 300),
    "frequency": (-0.4, 0.0, -0.5, -0.3, 0.0, 0.01, True, 100),
    "frequency and norm": (0.05, 0.0, -0.1, 0.2, 0.0, 0.9, False, 100),
    "function words": (0.3, 0.5, -0.3, -0.1, 0.0, 0.02, True, 100),
}
DEPTH = "corrected self-similarity, last layer minus embeddings"
FREQUENCY = "correlation of frequency with self-similarity, last layer"
ANISOTROPY = "anisotropy of the last layer"


def geometry(
    random_models: int = 5, stacks: tuple[str, ...] = ("encoder",), **tests: tuple[object, ...]
) -> dict[str, pd.DataFrame]:
    columns = ["comparison", "first", "second", "lower", "upper", "random", "p", "holds", "n"]
    compared = pd.DataFrame(
        [(name, *tests.get(name.replace(" ", "_"), row)) for name, row in TESTS.items()],
        columns=columns,
    )
    compared["difference"] = compared["first"] - compared["second"]
    compared = compared.assign(random_models=random_models)
    places = [(stack, layer) for stack in stacks for layer in (0, 1, 2)]
    dimensions = [
        (stack, layer, rank, -1, 0.2, 0.3, 0.25, 0.35)
        for stack, layer in places
        for rank in ("1", "2", "3", "all")
    ]
    return {
        "tests": pd.concat([compared.assign(stack=stack) for stack in stacks]),
        "layers": pd.DataFrame(
            [("model", *place, "anisotropy", 0.5) for place in places],
            columns=["weights", "stack", "layer", "measure", "value"],
        ),
        "dimensions": pd.DataFrame(
            dimensions,
            columns=["stack", "layer", "rank", "dimension", "cosine", "share", "lower", "upper"],
        ),
    }


def test_what_holds_is_said_with_its_direction() -> None:
    found = findings_of("geometry", geometry())
    assert len(found) == 7 and next(iter(found)) == DEPTH
    depth = found[DEPTH]
    assert depth.verdict == "supported" and depth.null == pytest.approx(-0.1)
    assert depth.claim.startswith("Words become more context-specific with depth")
    assert "0.40 in the last layer" in depth.claim and "with random weights −0.10" in depth.claim
    assert "frequent words vary more" in found[FREQUENCY].claim.lower()
    assert "more anisotropic" in found[ANISOTROPY].claim and "layer 2" in found[ANISOTROPY].claim
    words = found["self-similarity of function words minus that of content words, last layer"]
    assert "Function words vary more" in words.claim and words.verdict == "supported"
    norm = found["correlation of frequency with the norm, last layer"]
    assert norm.verdict == "not supported" and "not shown to have longer" in norm.claim
    share = found["share of the mean cosine in the largest dimensions"]
    assert "3 dimensions" in share.claim and "30 %" in share.claim


def test_measures_that_disagree_decide_nothing() -> None:
    other = {"depth,_standardised": (0.95, 0.5, 0.4, 0.5, -0.1, 0.01, True, 100)}
    depth = findings_of("geometry", geometry(**other))[DEPTH]
    assert depth.verdict == "undecided" and "few dimensions" in depth.decided_by
    assert depth.claim.startswith("Two measures disagree on whether words become more or less")
    less = {
        "depth": (0.9, 0.4, 0.4, 0.6, 0.1, 0.01, True, 100),
        "depth,_standardised": (0.9, 0.5, 0.4, 0.5, 0.1, 0.01, True, 100),
    }
    depth = findings_of("geometry", geometry(**less))[DEPTH]
    assert depth.verdict == "supported" and "become less context-specific" in depth.claim


def test_one_random_model_is_no_test_and_no_p_value_is_said() -> None:
    one, five = (findings_of("geometry", geometry(random_models=n)).values() for n in (1, 5))
    undecided = [each.claim for each in one if "random_models" in each.decided_by]
    assert undecided and not any("p =" in claim or "p <" in claim for claim in undecided)
    assert any("p <" in each.claim or "p =" in each.claim for each in five)


def test_without_random_models_or_with_few_forms_nothing_is_decided() -> None:
    found = findings_of("geometry", geometry(random_models=0))
    tested = [each for each in found.values() if each.null is not None]
    assert {each.verdict for each in tested} == {"undecided"}
    assert all("random_models" in each.decided_by for each in tested)
    few = {"frequency": (-0.4, 0.0, -0.5, -0.3, 0.0, 0.01, True, 12)}
    assert findings_of("geometry", geometry(**few))[FREQUENCY].verdict == "undecided"


def test_both_stacks_are_named_and_the_encoder_comes_first() -> None:
    found = findings_of("geometry", geometry(stacks=("encoder", "decoder")))
    assert [name for name in found if name.startswith("corrected")] == [
        f"{DEPTH} of the encoder", f"{DEPTH} of the decoder",
    ]  # fmt: skip
    assert f"{ANISOTROPY} of the encoder" in found and len(found) == 7


def test_a_cosine_that_is_not_positive_has_no_shares() -> None:
    tables = geometry()
    tables["dimensions"] = tables["dimensions"].assign(share=float("nan"))
    found = findings_of("geometry", tables)
    share = found["share of the mean cosine in the largest dimensions"]
    assert share.value is None and "no dimension has a share" in share.claim


# --- tokenization ---------------------------------------------------------------------------------


def tokenization(
    models: tuple[str, ...] = ("a",), n: int = 50, holds: bool = True, unknown: float = 0.02
) -> dict[str, pd.DataFrame]:
    groups, tests = [], []
    for model in models:
        for by, group, value in (("all", "all", 1.5), ("tag", "NOUN", 2.0), ("tag", "DET", 1.0)):
            row = {"model": model, "by": by, "group": group, "n": 100}
            for name, own in (("fertility", value), ("whole", 0.7), ("unknown", unknown)):
                row |= {name: own, f"{name}_lower": own * 0.9, f"{name}_upper": own * 1.1}
            groups.append(row)
        for comparison in ("rare words", "proper nouns", "function words"):
            tests.append((model, comparison, 2.3, 1.0, 2.3, 2.0, 2.6, 0.01, holds, n, n))
        if model != models[0]:
            tests.append((model, models[0], 1.2, 1.0, 1.2, 1.1, 1.3, 0.01, True, 500, 500))
    columns = [
        "model", "comparison", "first", "second", "ratio", "lower", "upper", "p", "holds",
        "n_first", "n_second",
    ]  # fmt: skip
    return {"groups": pd.DataFrame(groups), "tests": pd.DataFrame(tests, columns=columns)}


RARE = "pieces of rare words, ratio to frequent ones"


def test_more_pieces_are_said_with_their_ratio() -> None:
    found = findings_of("tokenization", tokenization())
    assert len(found) == 6
    rare = found[RARE]
    assert rare.claim.startswith("Rare words are split into 2.30 times as many pieces as frequent")
    assert rare.verdict == "supported" and rare.null == 1.0
    tags = found["pieces per word of the most split part of speech"]
    assert tags.claim.startswith("Of 2 parts of speech with 20 words or more, `NOUN` has most")
    assert "`DET` fewest" in tags.claim
    assert "2 of 100 words have" in found["words with an unknown piece"].claim
    plain = findings_of("tokenization", tokenization(holds=False, unknown=0.0))
    assert plain[RARE].verdict == "not supported" and "not shown" in plain[RARE].claim
    assert "None of 100 words" in plain["words with an unknown piece"].claim
    assert findings_of("tokenization", tokenization(n=5))[RARE].verdict == "undecided"


def test_models_are_compared_with_the_first_one() -> None:
    found = findings_of("tokenization", tokenization(("a", "b")))
    assert found["pieces per word, b over a"].claim.startswith(
        "b splits words into 1.20 times as many pieces as a"
    )
    assert f"{RARE} in a" in found and len(found) == 7
