"""A judge of `describe`: every table counted again, in loops over lists and dicts."""

from collections import Counter, defaultdict
from typing import Any

import pytest

import workbench as wb
from tests.judges.odd import odd_corpus, run_here
from workbench import Corpus

Counts = dict[Any, Any]


def rows(table: Any, keys: list[str]) -> Counts:
    """A table as a dict from its keys to what is left."""
    rest = [name for name in table.columns if name not in keys]
    return {
        tuple(row[key] for key in keys): tuple(row[name] for name in rest)
        for row in table.to_dict("records")
    }


def judge(corpus: Corpus, splits: list[str]) -> None:
    tables = run_here("describe", (), corpus, max_words=30).tables
    words: Counter[str] = Counter()
    lengths: list[int] = []
    tags: Counts = defaultdict(int)
    offsets: Counts = defaultdict(list)
    labels: Counts = defaultdict(int)
    chains = mentions = 0
    for split in splits:
        here: list[str] = []
        docs = sentences = 0
        names = []
        for doc in corpus.docs(split):
            docs += 1
            names.append(doc._.document)
            tokens = [token for token in doc if not token.is_space]
            here += [token.text for token in tokens]
            starts = (
                [t.i for t in doc if t.is_sent_start] if doc.has_annotation("SENT_START") else [0]
            )
            ends = [*starts[1:], len(doc)]
            for first, last in zip(starts, ends, strict=True):
                lengths.append(sum(not token.is_space for token in doc[first:last]))
                sentences += 1
            for token in doc:
                for layer, tag in (("upos", token.pos_), ("xpos", token.tag_)):
                    tags[layer, tag] += bool(tag)
                if token.dep_ and token.head is not token and token.head.i != token.i:
                    offsets[token.dep_].append(token.head.i - token.i)
            for layer, spans in doc.spans.items():
                if layer == "coreference":
                    chains += len({span.id_ for span in spans})
                    mentions += len(spans)
                elif layer != "segments":
                    for span in spans:
                        labels[layer, span.label_] += 1
            for layer, edges in doc._.edges.items():
                for edge in edges:
                    for label in edge[2]:
                        labels[layer, label] += 1
        documents = sum(
            bool(name) and name != before for name, before in zip(names, ["", *names], strict=False)
        )
        own = rows(tables["sizes"], ["split"])[(split,)]
        assert own == (docs, documents, sentences, len(here), len(set(here)))
        words.update(here)
    for (first, last), (count,) in rows(tables["lengths"], ["first", "last"]).items():
        assert count == sum(first <= length <= last for length in lengths)
    assert tables["lengths"]["count"].sum() == len(lengths)
    assert {key: n for key, (n,) in rows(tables["tags"], ["layer", "tag"]).items()} == {
        key: n for key, n in tags.items() if n
    }
    found = rows(tables["relations"], ["relation"])
    assert set(found) == {(relation,) for relation in offsets}
    for (relation,), (count, offset, share) in found.items():
        own = Counter(offsets[relation])
        assert count == len(offsets[relation]) and own[offset] == max(own.values())
        assert share == pytest.approx(own[offset] / count)
    if labels:
        seen = rows(tables["labels"], ["layer", "label"])
        assert {key: n for key, (n,) in seen.items()} == dict(labels)
    if chains:
        assert rows(tables["coreference"], ["what"]) == {
            ("chains",): (chains,), ("mentions",): (mentions,)
        }  # fmt: skip
    ranked = sorted(words.items(), key=lambda item: (-item[1], item[0]))[:30]
    assert rows(tables["words"], ["word"]) == {
        (word,): (count, rank) for rank, (word, count) in enumerate(ranked, start=1)
    }
    print(f"{corpus.name}: {sum(words.values()):,} words, every table equal")


def test_a_small_case() -> None:
    judge(odd_corpus(), ["train", "dev", "test"])
    judge(wb.read("primer:size=60"), ["train", "dev", "test"])


@pytest.mark.slow
def test_all_of_primer_and_long_sentences() -> None:
    judge(wb.read("primer:size=3000"), ["train", "dev", "test"])
    judge(odd_corpus({"train": 2000, "dev": 300, "test": 300}, seed=3), ["train", "dev", "test"])
