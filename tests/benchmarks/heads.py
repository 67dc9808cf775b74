"""Cost of the experiment `heads`, compared with plain forward passes and published scripts.

    python -m tests.benchmarks.heads                          on the CPU, 600 primer sentences
    python -m tests.benchmarks.heads --write BATCH            encode them into one file
    python -m tests.benchmarks.heads --batch BATCH --device cuda --precision bf16
    python -m tests.benchmarks.heads --documents 32 128 512 1024   growth with the length of a text

A random BERT (`--layers` and `--width`; BERT-base's, or those of the smaller published ones) and
the same sentences in every arm. Arms: a plain eager forward pass; a fused one; ours, the whole
experiment with all roles, bootstrap samples and shuffles; (a) transformers' `output_attentions`,
with words merged in numpy and relations counted in loops over heads, relations and sentences, as in
published scripts, first without a null (they have none), then with as many shuffled trees as ours;
(b) all maps captured to the host. Ratios are medians over rounds with their spread; peak memory is
measured in one process per arm, at two corpus lengths.

With `--documents`, texts of these numbers of words (joined primer sentences, 8,192 words in all)
and a random BERT of 6 layers of 12 heads, width 384: processor time and peak memory of the whole
experiment, relative to a plain eager forward pass, by length.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import logging

from tests.benchmarks import engine
from tests.benchmarks.engine import Quiet
from workbench import Capture, forward
from workbench.engine import batch as batches
from workbench.engine.batch import Batch
from workbench.models.huggingface import HuggingFace

ARMS = ("eager", "sdpa", "ours", "scripts", "scripts_nulls", "captured")
SHUFFLES = 200
RESULTS = Path(__file__).parent / "results"


def eager(model: HuggingFace, batch: Batch, docs: Sequence[Any]) -> None:
    """A forward pass over the same batches, without observation."""
    model.net.set_attn_implementation("eager")
    forward(model, batch, hidden=False)


def sdpa(model: HuggingFace, batch: Batch, docs: Sequence[Any]) -> None:
    model.net.set_attn_implementation("sdpa")
    forward(model, batch, hidden=False)


def ours(model: HuggingFace, batch: Batch, docs: Sequence[Any]) -> None:
    """The whole experiment; without Docs (on a machine without spaCy), only the pass."""
    model.net.set_attn_implementation("workbench")
    if not docs:
        from workbench.analyses.heads.collect import PassSettings, look

        look(model, batch, _gold_of(batch), PassSettings())
        return
    from workbench import experiments
    from workbench.experiment import Inputs

    heads = experiments()["heads"]

    class Corpus:
        name, splits, notes = "primer", (), ()

        def docs(self, split: str | None = None, limit: int | None = None) -> Any:
            return iter(docs)

    corpus: Any = Corpus()
    heads.run(Inputs(models=(model,), corpora=(corpus,)), heads.settings(), Quiet())


def _gold_of(batch: Batch) -> Any:
    """Arcs of an encoded batch; rarity by the words' text."""
    from workbench.analyses.heads.gold import LEFT_OUT, Gold
    from workbench.models.word_models import words_of

    edges = batch.edges["dependencies"]
    names = sorted({name.split(":")[0] for name in edges.names} - set(LEFT_OUT))
    number = {name: place for place, name in enumerate(names)}
    words = [words_of(batch, document) for document in range(len(batch))]
    counts = Counter(word for own in words for word in own)
    rank = {w: n for n, w in enumerate(sorted(counts, key=lambda w: (-counts[w], w)))}
    arcs = []
    for document in range(len(batch)):
        own = range(int(edges.offsets[document]), int(edges.offsets[document + 1]))
        told = [edges.names[edges.labels[edges.label_offsets[e]]].split(":")[0] for e in own]
        rows = [
            (edges.span1[e, 0], edges.span2[e, 0], number[name])
            for e, name in zip(own, told, strict=True)
            if name in number
        ]
        arcs.append(np.array(rows, dtype=np.int64).reshape(-1, 3))
    ranks = tuple(np.array([rank[word] for word in own], dtype=np.int64) for own in words)
    nothing: Any = tuple(() for _ in words)
    return Gold(tuple(names), tuple(arcs), ranks, tuple(r * 0 for r in ranks), nothing, 500)


def scripts(model: HuggingFace, batch: Batch, docs: Sequence[Any], shuffles: int = 0) -> Any:
    """Maps on the host; then head by head, relation by relation and sentence by sentence.

    The way of the notebooks that came with the papers: one predictor a head, asked for each
    relation and direction; no drawings, and shuffled trees only if asked for.
    """
    examples = _examples(model, batch, docs)
    trees = [_arcs(doc) for doc in docs]
    moved = [[_shuffled(doc, number) for doc in docs] for number in range(shuffles)]
    relations = sorted({name for arcs in trees for name in arcs})
    ranks = _ranks(docs)
    found: dict[tuple[int, int], Any] = {}
    for layer in range(len(model.sites)):
        for head in range(model.sites[0].heads):
            sums: Counter[str] = Counter()
            offsets: Counter[int] = Counter()
            looks = []
            for (maps, words), rank in zip(examples, ranks, strict=True):
                pieces = maps[layer, head]
                own = _words(pieces, words)
                sums["confidence"] += own.max(-1).sum()
                sums["entropy"] -= (own * np.log(own + 1e-12)).sum()
                sums["distance"] += sum(
                    (own[row] * np.abs(np.arange(len(own)) - row)).sum() for row in range(len(own))
                )
                sums["special"] += pieces[:, [0, -1]].sum()
                sums["rare"] += (rank[own.argmax(-1)] == rank.max()).sum()
                for number, place in enumerate(own.argmax(-1).tolist()):
                    offsets[place - number] += 1
                np.fill_diagonal(own, 0)
                looks.append(own.argmax(-1).tolist())
            scores = {name: _hits(looks, trees, name) for name in relations}
            null = [{name: _hits(looks, each, name) for name in relations} for each in moved]
            found[layer, head] = sums, offsets, scores, null
    return found


def _examples(
    model: HuggingFace, batch: Batch, docs: Sequence[Any]
) -> list[tuple[np.ndarray, list[list[int]]]]:
    """All maps of each sentence, and the pieces of each word."""
    model.net.set_attn_implementation("eager")
    found: dict[int, tuple[np.ndarray, list[list[int]]]] = {}
    for start in range(0, len(batch), 16):
        text = model.encode(batch, range(start, min(start + 16, len(batch))))
        with torch.no_grad():
            output = model.net.base_model(
                input_ids=text.ids, attention_mask=text.mask.long(), output_attentions=True
            )
        maps = torch.stack(output.attentions, 1).numpy()  # [batch, layers, heads, pieces, pieces]
        for row, document in enumerate(text.order.tolist()):
            owner = text.words[row].tolist()
            words = [
                [piece for piece, word in enumerate(owner) if word == number]
                for number in range(int(text.word_counts[row]))
            ]
            long = int(text.mask[row].sum())
            found[document] = maps[row, :, :, :long, :long], words
    return [found[document] for document in range(len(docs))]


def _arcs(doc: Any, places: Sequence[int] | None = None) -> dict[str, list[tuple[int, int]]]:
    """Dependent and head of each relation, optionally both at shuffled positions."""
    found: dict[str, list[tuple[int, int]]] = {}
    for token in doc:
        name = token.dep_.split(":")[0]
        if token.head.i != token.i and name != "punct":
            arc = (token.i, token.head.i)
            found.setdefault(name, []).append(
                arc if places is None else (places[arc[0]], places[arc[1]])
            )
    return found


def _shuffled(doc: Any, number: int) -> dict[str, list[tuple[int, int]]]:
    return _arcs(doc, np.random.default_rng(number).permutation(len(doc)).tolist())


def _hits(
    looks: Sequence[Sequence[int]], trees: Sequence[dict[str, list[tuple[int, int]]]], relation: str
) -> tuple[int, int, int]:
    """Number of arcs of a relation, and of hits from either end."""
    number = up = down = 0
    for own, arcs in zip(looks, trees, strict=True):
        for dependent, governor in arcs.get(relation, ()):
            number += 1
            up += own[dependent] == governor
            down += own[governor] == dependent
    return number, up, down


def _ranks(docs: Sequence[Any]) -> list[np.ndarray]:
    counts = Counter(token.text for doc in docs for token in doc)
    rank = {word: place for place, (word, _) in enumerate(counts.most_common())}
    return [np.array([rank[token.text] for token in doc]) for doc in docs]


def _words(maps: np.ndarray, words: Sequence[Sequence[int]]) -> np.ndarray:
    """Sum over attended pieces, mean over attending pieces.  # -> [words, words]"""
    summed = np.stack([maps[:, pieces].sum(-1) for pieces in words], -1)
    return np.stack([summed[pieces].mean(0) for pieces in words])


def captured(model: HuggingFace, batch: Batch, docs: Sequence[Any]) -> None:
    """Every map kept on the host."""
    model.net.set_attn_implementation("workbench")
    capture = Capture()
    forward(model, batch, taps=[capture], hidden=False)
    for maps in capture.maps.values():
        maps[:] = [each.cpu() for each in maps]


def scripts_nulls(model: HuggingFace, batch: Batch, docs: Sequence[Any]) -> None:
    """The same, with every relation counted again for each shuffle."""
    scripts(model, batch, docs, SHUFFLES)


DOES: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (eager, sdpa, ours, scripts, scripts_nulls, captured)
}


def opened(given: argparse.Namespace, sentences: int) -> tuple[HuggingFace, Batch, list[Any]]:
    docs: list[Any] = []
    if given.batch:
        batch = batches.load(given.batch)
    else:
        docs, batch = primer(sentences)
    dtype = torch.bfloat16 if given.precision == "bf16" else torch.float32
    return engine.model(batch, given.device, dtype, given.layers, given.width), batch, docs


def primer(sentences: int) -> tuple[list[Any], Batch]:
    from workbench import encode, read

    docs = list(read("primer").docs("train", sentences))
    return docs, encode(docs, "dependencies")


def timed(model: HuggingFace, batch: Batch, docs: list[Any], name: str) -> float:
    cuda = model.device.type == "cuda"
    if cuda:
        torch.cuda.synchronize()
    started = time.perf_counter()
    DOES[name](model, batch, docs)
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - started


def peak(given: argparse.Namespace, name: str, sentences: int) -> float:
    """Peak memory of one arm in a new process, above the model's, in MiB."""
    shape = ["--layers", given.layers, "--width", given.width, "--sentences", sentences]
    command = [sys.executable, "-m", "tests.benchmarks.heads", "--only", name, *map(str, shape)]
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


GROWTH_WORDS = 8_192


def long_documents(words: int, total: int = GROWTH_WORDS) -> list[Any]:
    """Primer sentences joined into documents with a maximum number of words."""
    from spacy.tokens import Doc

    from workbench import read

    found: list[Any] = []
    open_: list[Any] = []
    for doc in read("primer").docs("train"):
        if sum(map(len, open_)) + len(doc) > words:
            found.append(Doc.from_docs(open_))
            open_ = []
            if sum(map(len, found)) + words > total:
                break
        open_.append(doc)
    return found


def small_model(docs: Sequence[Any]) -> HuggingFace:
    """A random BERT of six layers of twelve heads, width 384, with one piece per word."""
    from transformers import BertConfig, BertModel

    words = sorted({token.text for doc in docs for token in doc})
    config = BertConfig(vocab_size=len(words) + 200, hidden_size=384, num_hidden_layers=6,
                        num_attention_heads=12, intermediate_size=1536,
                        max_position_embeddings=1_100)  # fmt: skip
    torch.manual_seed(0)
    return HuggingFace(BertModel(config).eval(), engine._tokenizer(words), "long")


def growth(lengths: Sequence[int], rounds: int) -> None:
    """Time and memory by the length of documents, in this process; medians over rounds."""
    from workbench import encode

    warnings.filterwarnings("ignore", message=".*W101")
    found = {}
    for words in lengths:
        docs = long_documents(words)
        model, batch = small_model(docs), encode(docs)
        for name in ("eager", "ours"):  # imports and buffers
            DOES[name](model, encode(docs[:1]), docs[:1])
        seconds: dict[str, list[float]] = {"eager": [], "ours": []}
        peaks: dict[str, float] = {}
        for _ in range(rounds):
            for name, own in seconds.items():
                Path("/proc/self/clear_refs").write_text("5")
                before, started = engine.memory("VmRSS"), time.process_time()
                DOES[name](model, batch, docs)
                own.append(time.process_time() - started)
                peaks[name] = max(peaks.get(name, 0), (engine.memory("VmHWM") - before) / 1024)
        ratios = [b / a for a, b in zip(seconds["eager"], seconds["ours"], strict=True)]
        found[words] = {
            "documents": len(docs),
            "words": sum(map(len, docs)),
            "seconds": {name: round(statistics.median(own), 2) for name, own in seconds.items()},
            "to_eager": [
                round(x, 2) for x in (statistics.median(ratios), min(ratios), max(ratios))
            ],
            "peak_mib": {name: round(value) for name, value in peaks.items()},
        }
        print(words, json.dumps(found[words]), flush=True)
    (RESULTS / "heads-documents.json").write_text(
        json.dumps(found, indent=1) + "\n", encoding="utf-8"
    )


def main() -> None:
    logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument("--write", type=Path)
    parser.add_argument("--batch", type=Path)
    parser.add_argument("--only", choices=ARMS)
    parser.add_argument("--documents", type=int, nargs="+", metavar="WORDS")
    given = parser.parse_args()
    if given.documents:
        growth(given.documents, given.rounds)
        return
    if given.write:
        batches.save(primer(given.sentences)[1], given.write)
        return
    model, batch, docs = opened(given, given.sentences)
    if given.only:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak (Linux)
        before = engine.memory("VmRSS")
        DOES[given.only](model, batch, docs)
        print((engine.memory("VmHWM") - before) / 1024)
        return
    arms = [arm for arm in ARMS if docs or "scripts" not in arm]
    seconds: dict[str, list[float]] = {arm: [] for arm in arms}
    timed(model, batch, docs, "sdpa")
    for _ in range(given.rounds):
        for arm in arms:
            seconds[arm].append(timed(model, batch, docs, arm))
            print(arm, round(seconds[arm][-1], 2), file=sys.stderr, flush=True)
    found: dict[str, Any] = {"sentences": len(batch), "words": len(batch.words), "arms": {}}
    for arm in arms:
        ratios = {}
        for other in ("eager", "sdpa", "ours"):
            each = sorted(a / b for a, b in zip(seconds[arm], seconds[other], strict=True))
            ratios[f"to_{other}"] = [
                round(x, 2) for x in (statistics.median(each), each[0], each[-1])
            ]
        found["arms"][arm] = {"seconds": round(statistics.median(seconds[arm]), 2), **ratios}
        if given.device == "cpu":
            sizes = (given.sentences, 3 * given.sentences) if arm in ("ours", "captured") else ()
            found["arms"][arm]["peak_mib"] = {n: round(peak(given, arm, n)) for n in sizes}
    found |= {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "precision": given.precision,
        "layers": given.layers,
        "width": given.width,
    }
    if given.device == "cuda":
        found["device"] = torch.cuda.get_device_name()
        for arm in arms:
            found["arms"][arm]["words_a_second"] = len(batch.words) / found["arms"][arm]["seconds"]
    text = json.dumps(found, indent=1)
    (RESULTS / f"heads-{given.device}-{given.layers}x{given.width}.json").write_text(
        text + "\n", encoding="utf-8"
    )
    print(text)


if __name__ == "__main__":
    main()
