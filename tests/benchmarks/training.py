"""Tokens per second of this trainer and of transformers' Trainer, on the same model and text.

    python -m tests.benchmarks.training                    all families on two cores, 5 rounds

Only real tokens count, not padding. BERT and Longformer: transformers' Trainer reads paragraphs
with transformers' collator for masked language models, padded to the longest of a batch, with about
as many tokens per batch as ours. Ours reads packed sequences. In a third arm the Trainer also reads
packed sequences, which shows the effect of computing logits at masked pieces only. GPT-2 and XLNet:
both read the same packed sequences, XLNet's with transformers' collator for permuted prediction.
All clip gradients and use a fused AdamW with a linear schedule. Arms alternate, so that changes in
machine speed affect both; ratios are medians over rounds. The first step of a round does not count.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    DataCollatorForLanguageModeling,
    DataCollatorForPermutationLanguageModeling,
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    logging,
)

from workbench.analyses.training.batches import piece_task, split_held_out
from workbench.analyses.training.distributed import Process
from workbench.analyses.training.families import Size, build, family_of
from workbench.analyses.training.packing import Packing, pack
from workbench.analyses.training.task import Plan, Quiet
from workbench.analyses.training.token_store import lines_of, tokenize_text
from workbench.analyses.training.tokenizers import train_tokenizer
from workbench.analyses.training.trainer import fit
from workbench.analyses.training.vocabulary import vocabulary_of

LINES = 6_000
FAMILIES = {"bert": "masked", "gpt": "causal", "xlnet": "permuted", "longformer": "masked"}


def text() -> list[str]:
    """Novels if the public corpora are available, otherwise the built-in corpus."""
    if named := os.environ.get("WORKBENCH_DATA"):
        file = Path(named) / "text" / "novels.txt.xz"
        return list(islice((line for line in lines_of(file) if line.strip()), LINES))

    from workbench import read

    return [doc.text for doc in islice(read("primer").docs("train"), LINES)]


class Clock(TrainerCallback):
    """Records the end time of each step of the Trainer."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        self.ends.append(time.perf_counter())


def peer(
    net: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[dict[str, Any]],
    batch: int,
    steps: int,
    objective: str,
    folder: Path,
) -> float:
    """Real tokens per second of transformers' Trainer."""
    collate: Any = DataCollatorForLanguageModeling(tokenizer, mlm=objective == "masked")
    if objective == "permuted":
        collate = DataCollatorForPermutationLanguageModeling(tokenizer)
    read: list[int] = []

    def counted(features: list[Any]) -> Any:
        found = collate(features)
        read.append(int((found["input_ids"] != tokenizer.pad_token_id).sum()))
        return found

    clock = Clock()
    arguments = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=batch,
        max_steps=steps,
        learning_rate=1e-4,
        max_grad_norm=1.0,
        optim="adamw_torch_fused",
        lr_scheduler_type="linear",
        use_cpu=not torch.cuda.is_available(),
        bf16=torch.cuda.is_available(),
        report_to=[],
        logging_strategy="no",
        save_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=torch.cuda.is_available(),
    )
    trainer = Trainer(net, arguments, counted, list(rows), callbacks=[clock])
    trainer.train()
    return sum(read[1:steps]) / (clock.ends[-1] - clock.ends[0])


def ours(
    net: nn.Module, objective: str, packing: Packing, batch: int, steps: int, device: torch.device
) -> float:
    """Tokens per second of this trainer."""
    plan = Plan(steps=steps, batch_size=batch, learning_rate=1e-4, points=steps)
    part, held = split_held_out(packing, 0.0)
    task = piece_task(objective, net, part, held, plan, 1)
    rows = fit(net, task, plan, Quiet(), process=Process(device))
    return (rows[-1].tokens - rows[0].tokens) / (rows[-1].seconds - rows[0].seconds)


def features(texts: Sequence[list[int]]) -> list[dict[str, Any]]:
    """Texts in the format of transformers' collator."""
    return [{"input_ids": ids, "attention_mask": [1] * len(ids)} for ids in texts]


def rounds(arguments: argparse.Namespace, family: str, folder: Path) -> Iterator[dict[str, float]]:
    """One measurement of both arms, a round each."""
    row, objective, lines = family_of(family), FAMILIES[family], text()
    size = Size(
        arguments.layers,
        arguments.width,
        arguments.width // 48,
        arguments.vocabulary,
        arguments.length,
    )
    tokenizer = train_tokenizer(
        lines, row.algorithm, row.layout, size.vocabulary_size, max_length=size.sequence_length
    )
    store = tokenize_text(lines, tokenizer, folder, processes=1)
    packing = pack(store, vocabulary_of(tokenizer), size.sequence_length)
    masked = objective == "masked"
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    even = features(packing.batch(0, len(packing)).tokens.tolist())
    rows, theirs = even, arguments.batch
    if masked:
        rows = features(
            tokenizer(lines, truncation=True, max_length=size.sequence_length)["input_ids"]
        )
        mean = statistics.mean(len(row["input_ids"]) for row in rows)
        theirs = max(1, round(arguments.batch * size.sequence_length / mean))
    for number in range(arguments.rounds):
        nets = [build(family, size, tokenizer, number, objective) for _ in range(3)]
        arms = {
            "ours": lambda net: ours(
                net, objective, packing, arguments.batch, arguments.steps, device
            ),
            "transformers": lambda net: peer(
                net, tokenizer, rows, theirs, arguments.steps, objective, folder
            ),
        }
        if masked:
            arms["transformers, packed"] = lambda net: peer(
                net, tokenizer, even, arguments.batch, arguments.steps, objective, folder
            )
        order = list(arms) if number % 2 else list(arms)[::-1]
        yield {name: arms[name](net) for name, net in zip(order, nets, strict=False)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--vocabulary", type=int, default=8_192)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--family", choices=[*FAMILIES], action="append")
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="Seconds of the processor, of one thread, on a machine that others use too.",
    )
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.processor_time:
        torch.set_num_threads(1)
        time.perf_counter = time.monotonic = time.process_time
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    results: dict[str, Any] = {"threads": torch.get_num_threads(), "torch": torch.__version__}
    results["text"] = "novels" if os.environ.get("WORKBENCH_DATA") else "primer"
    results |= {key: value for key, value in vars(arguments).items() if key != "json"}
    with tempfile.TemporaryDirectory() as folder:
        for family in arguments.family or FAMILIES:
            found = list(rounds(arguments, family, Path(folder)))
            results[family] = {
                name: {
                    "tokens_per_second": round(statistics.median(each[name] for each in found)),
                    "ours_is": sorted(round(each["ours"] / each[name], 2) for each in found),
                }
                for name in sorted(found[0])
            }
            print(family, results[family], flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2, default=str) + "\n")


if __name__ == "__main__":
    main()
