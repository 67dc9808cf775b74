"""Which head follows which relation, on planted models that are built to follow them."""

from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from spacy.tokens import Doc

from tests.planted.look import BUILDERS, eager
from tests.planted.words import lexicon, planted_docs
from workbench.facts.arcs import COLUMNS, DIRECTIONS, arcs, beaten
from workbench.models.loading import load


@pytest.fixture(scope="module", params=[False, True], ids=["whole", "split"])
def found(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[pd.DataFrame, list[Doc], tuple[int, int]]:
    """The planted BERT's table, whether words are one piece or two; its syntactic head."""
    words = lexicon(split=request.param)
    planted = eager(BUILDERS["bert"](words))
    folder = tmp_path_factory.mktemp("planted")
    planted.save(folder)
    docs = planted_docs(200, words)
    return arcs(load(folder, "cpu"), docs, least=10), docs, planted.heads["syntactic"]


def test_the_syntactic_head_finds_the_head_of_every_relation(found: tuple) -> None:
    table, _, planted = found
    towards = table[table["direction"] == DIRECTIONS[0]]
    assert len(towards) >= 5
    assert (towards["accuracy"] == 1).all()
    hard = towards[towards["baseline_accuracy"] < 1]
    assert set(zip(hard["layer"], hard["head"], strict=True)) == {planted}


def test_offsets_are_counted_from_the_word_that_looks(found: tuple) -> None:
    table, docs, _ = found
    offsets: dict[tuple[str, str], Counter[int]] = {}
    for token in (token for doc in docs for token in doc):
        if token.dep_.lower() in ("root", "punct"):
            continue
        relation, step = token.dep_.split(":")[0], token.head.i - token.i
        offsets.setdefault((relation, DIRECTIONS[0]), Counter())[step] += 1
        offsets.setdefault((relation, DIRECTIONS[1]), Counter())[-step] += 1
    for row in table.to_dict("records"):
        counts = offsets[row["relation"], row["direction"]]
        assert counts[row["baseline_offset"]] == max(counts.values())
        assert row["n"] == counts.total() >= 10
        assert row["baseline_accuracy"] == pytest.approx(max(counts.values()) / counts.total())


def test_beaten_relations_are_those_above_their_offset(found: tuple) -> None:
    table, _, _ = found
    names = beaten(table)
    assert names
    assert set(names) == set(table[table["gain"] >= 0.1]["relation"])


def test_a_causal_model_sees_no_head_that_is_still_to_come(tmp_path: Path) -> None:
    words = lexicon(split=False)
    planted = eager(BUILDERS["gpt2"](words))
    planted.save(tmp_path)
    docs = planted_docs(100, words)
    table = arcs(load(tmp_path, "cpu"), docs, least=1)
    assert list(table.columns) == COLUMNS.split(",")
    before = Counter(
        (t.dep_.split(":")[0], t.head.i < t.i) for doc in docs for t in doc if t.head.i != t.i
    )
    for row in table[table["direction"] == DIRECTIONS[0]].to_dict("records"):
        can = before[row["relation"], True] / row["n"]
        assert row["accuracy"] <= can + 1e-9
