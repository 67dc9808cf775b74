"""Cost of head ablation, compared with a plain loop, and of importance, with single texts.

    python -m tests.benchmarks.pruning                        on the CPU, a third of the heads
    python -m tests.benchmarks.pruning --write BATCH          encode texts into one file
    python -m tests.benchmarks.pruning --batch BATCH --device cuda --precision bf16 --every 1

A random BERT of BERT-base's shape with its language-model head, and the same texts and masked
pieces in every arm; arms alternate. Ablation: one full evaluation per head, as in published scripts
and hook libraries; ours with the prefix reused, one head at a time; ours with as many heads in a
batch as fit in memory. On the CPU every third head is ablated, since all heads of a layer cost the
same. Importance: one text after the other with gradients of all weights, as in scripts; ours. A
curve of ten steps: ours, and eleven evaluations of the whole model. Ratios are medians over rounds
with their spread.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertForMaskedLM, logging

from tests.tiny import _tokenizer
from workbench import Gate
from workbench.analyses.pruning.ablation import ablated
from workbench.analyses.pruning.evaluation import score_texts
from workbench.analyses.pruning.head_masks import closed, heads_of, opened
from workbench.analyses.pruning.importance import gate_gradients
from workbench.engine import batch as batches
from workbench.engine.batch import Batch
from workbench.models.head_removal import without
from workbench.models.huggingface import HuggingFace
from workbench.models.scoring.eval_tasks import EvalTask, Question, eval_task_of

RESULTS = Path(__file__).parent / "results"
Arm = Callable[[], Any]


def model(batch: Batch, device: str, dtype: torch.dtype, layers: int) -> HuggingFace:
    known = " ".join(batch.text_of(place) for place in range(len(batch))).replace(".", " .")
    torch.manual_seed(0)
    net: Any = BertForMaskedLM(BertConfig(vocab_size=30_522, num_hidden_layers=layers))
    net.to(device=device, dtype=dtype).eval()
    return HuggingFace(net, _tokenizer(sorted({*known.split()})), "bert-base-shaped")


def texts(number: int, words: int) -> Batch:
    """Texts of about this many words, from two or three primer sentences each."""
    from spacy.tokens import Doc

    from workbench import encode, read

    found, some = [], []
    for doc in read("primer").docs("train"):
        some.append(doc)
        if sum(map(len, some)) >= words:
            found.append(Doc.from_docs(some))
            some = []
        if len(found) == number:
            break
    return encode(found)


def plain(
    net: HuggingFace, aim: EvalTask, questions: list[Question], heads: list[Any]
) -> list[float]:
    """A full evaluation a head."""
    return [
        score_texts(net, aim, questions, [Gate(closed(net, [head]))]).value("loss")
        for head in heads
    ]


def ours(
    net: HuggingFace, aim: EvalTask, questions: list[Question], heads: list[Any], pieces: int | None
) -> list[float]:
    sets = [[head] for head in heads]
    return ablated(net, aim, questions, sets, pieces=pieces).values("loss").tolist()


def one_by_one(net: HuggingFace, aim: EvalTask, questions: list[Question]) -> torch.Tensor:
    """As in scripts: a forward and a backward pass per text, with gradients of all weights."""
    total = torch.zeros(len(net.sites), net.sites[0].heads, device=net.device)
    for question in questions:
        for row in range(len(question)):
            gates = opened(net, 1).requires_grad_(True)
            answer = aim.answer(net, question.take(torch.tensor([row])), [Gate(gates)])
            if not int(answer.number.sum()):
                continue
            net.net.zero_grad()
            answer.nats.sum().backward()  # type: ignore[no-untyped-call]
            assert gates.grad is not None
            total += gates.grad[0].abs()
    net.net.zero_grad()
    return total


def curve(net: HuggingFace, aim: EvalTask, questions: list[Question]) -> list[float]:
    """Importance once, then ten smaller models."""
    found = gate_gradients(net, aim, questions)
    order = [found.heads[place] for place in found.importance().argsort()]
    steps = [round(step * len(order) / 10) for step in range(11)]
    return [score_texts(without(net, order[:step]), aim, questions).value("loss") for step in steps]


def whole(net: HuggingFace, aim: EvalTask, questions: list[Question]) -> list[float]:
    return [score_texts(net, aim, questions).value("loss") for _ in range(11)]


def timed(run: Arm, device: torch.device) -> tuple[float, Any]:
    if device.type == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    found = run()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started, found


def main() -> None:
    logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--words", type=int, default=24)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument("--write", type=Path)
    parser.add_argument("--batch", type=Path)
    given = parser.parse_args()
    if given.write:
        batches.save(texts(given.texts, given.words), given.write)
        return
    batch = batches.load(given.batch) if given.batch else texts(given.texts, given.words)
    dtype = torch.bfloat16 if given.precision == "bf16" else torch.float32
    net = model(batch, given.device, dtype, given.layers)
    aim = eval_task_of(net)
    questions = list(aim.questions(net, batch, pieces=None if given.device == "cuda" else 512))
    heads = heads_of(net)[:: given.every]
    most = max(question.pieces for question in questions)
    arms: dict[str, Arm] = {
        "plain": lambda: plain(net, aim, questions, heads),
        "prefix": lambda: ours(net, aim, questions, heads, most),
        "batched": lambda: ours(net, aim, questions, heads, None),
        "one_by_one": lambda: one_by_one(net, aim, questions),
        "importance": lambda: gate_gradients(net, aim, questions).importance(),
        "whole": lambda: whole(net, aim, questions),
        "curve": lambda: curve(net, aim, questions),
    }
    seconds: dict[str, list[float]] = {arm: [] for arm in arms}
    answers: dict[str, Any] = {}
    score_texts(net, aim, questions)  # to warm up
    for _ in range(given.rounds):
        for arm, run in arms.items():
            took, answers[arm] = timed(run, net.device)
            seconds[arm].append(took)
            print(arm, round(took, 2), file=sys.stderr, flush=True)
    apart = max(
        abs(a - b) for arm in ("prefix", "batched")
        for a, b in zip(answers["plain"], answers[arm], strict=True)
    )  # fmt: skip

    def ratio(first: str, second: str) -> list[float]:
        each = sorted(a / b for a, b in zip(seconds[first], seconds[second], strict=True))
        return [round(value, 2) for value in (statistics.median(each), each[0], each[-1])]

    found: dict[str, Any] = {
        "texts": len(batch),
        "pieces": sum(int(question.text.mask.sum()) for question in questions),
        "heads_left_out": len(heads),
        "layers": given.layers,
        "seconds": {arm: round(statistics.median(each), 2) for arm, each in seconds.items()},
        "plain_to_prefix": ratio("plain", "prefix"),
        "plain_to_batched": ratio("plain", "batched"),
        "one_by_one_to_importance": ratio("one_by_one", "importance"),
        "whole_to_curve": ratio("whole", "curve"),
        "losses_apart": apart,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "precision": given.precision,
        "device": torch.cuda.get_device_name() if given.device == "cuda" else "cpu",
    }
    text = json.dumps(found, indent=1)
    (RESULTS / f"pruning-{given.device}.json").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
