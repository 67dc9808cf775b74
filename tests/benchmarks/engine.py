"""Cost of observation: plain eager and fused forward passes, and ours with gates and all reducers.

    python -m tests.benchmarks.engine                      on the CPU, 1,000 primer sentences
    python -m tests.benchmarks.engine --write BATCH        encode them into one file
    python -m tests.benchmarks.engine --batch BATCH --device cuda --precision bf16

A random model of BERT-base's shape, with the same tokenised batches for every arm. Arms alternate
batch by batch, so that changes in machine speed affect all; ratios are medians over rounds. On the
CPU, peak memory is measured in one process per arm, above the loaded model. On a GPU, tokens per
second are compared with the measured speed of a large matrix product.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertModel, logging

from tests.tiny import _tokenizer
from workbench import Gate, Reduce
from workbench.engine import batch as batches
from workbench.engine.batch import Batch, Pieces
from workbench.engine.forward_pass import PIECES, Limit, batches_of
from workbench.engine.map_statistics import together
from workbench.models.huggingface import HuggingFace

ARMS = ("eager", "sdpa", "engine", "gates", "reducers")
PARAMETERS = 85_054_464  # of BERT-base's twelve blocks, which is what a piece passes through
Arm = Callable[[Pieces], Any]


class Quiet:
    """Progress that is not shown."""

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None: ...
    def log(self, text: str) -> None: ...
    def warn(self, text: str) -> None: ...


def primer(sentences: int) -> Batch:
    from itertools import islice

    from workbench import encode, read

    return encode(islice(read("primer").docs("train"), sentences))


def model(
    batch: Batch, device: str, dtype: torch.dtype, layers: int, width: int = 768
) -> HuggingFace:
    words = {
        text for i in range(len(batch)) for text in batch.text_of(i).replace(".", " .").split()
    }
    tokenizer = _tokenizer(sorted(words))
    torch.manual_seed(0)
    shape = {
        "hidden_size": width,
        "num_attention_heads": width // 64,
        "intermediate_size": 4 * width,
    }
    net = BertModel(BertConfig(vocab_size=30_522, num_hidden_layers=layers, **shape))
    net.to(device=device, dtype=dtype).eval()  # type: ignore[call-arg]
    return HuggingFace(net, tokenizer, "bert-base-shaped")


def arm(name: str, ours: HuggingFace) -> Arm:
    """The forward pass of one arm, for the same pieces."""
    if name in ("eager", "sdpa"):

        def plain(text: Pieces) -> Any:
            return ours.net(input_ids=text.ids, attention_mask=text.mask.long())

        return plain
    sites, heads = len(ours.sites), ours.sites[0].heads
    gates = torch.rand(sites, heads, device=ours.device)
    reduce = Reduce(together())
    taps = {"engine": [], "gates": [Gate(gates)], "reducers": [reduce]}[name]

    def tapped(text: Pieces) -> Any:
        return ours.forward(text, taps=taps, hidden=False)

    return tapped


def implementation(name: str) -> str:
    return name if name in ("eager", "sdpa") else "workbench"


def sweep(run: Arm, texts: Sequence[Pieces]) -> float:
    """Seconds for all batches."""
    cuda = texts[0].ids.is_cuda
    if cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    with torch.no_grad():
        for text in texts:
            run(text)
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


def measure(ours: HuggingFace, texts: Sequence[Pieces], rounds: int) -> dict[str, list[float]]:
    """Seconds of each arm, per round; arms alternate batch by batch, each first in turn."""
    runs = {name: arm(name, ours) for name in ARMS}
    seconds = {name: [0.0] * rounds for name in ARMS}
    for number in range(-1, rounds):  # one round to warm up
        for i, text in enumerate(texts if number >= 0 else texts[:1]):
            start = (i + number) % len(ARMS)
            for name in ARMS[start:] + ARMS[:start]:
                ours.net.set_attn_implementation(implementation(name))
                took = sweep(runs[name], [text])
                if number >= 0:
                    seconds[name][number] += took
    return seconds


def cuda_peaks(ours: HuggingFace, texts: Sequence[Pieces]) -> dict[str, float]:
    """MiB above the model and the batches."""
    peaks = {}
    for name in ARMS:
        ours.net.set_attn_implementation(implementation(name))
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        sweep(arm(name, ours), texts)
        peaks[name] = (torch.cuda.max_memory_allocated() - before) / 2**20
    return peaks


def cpu_peak(arguments: argparse.Namespace, name: str, path: Path) -> float:
    """MiB above the loaded model, in a new process, for one arm over a third of the batches."""
    command = [sys.executable, "-m", "tests.benchmarks.engine", "--batch", str(path)]
    command += ["--layers", str(arguments.layers), "--only", name]
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(json.loads(done.stdout)["peak"])


def own_peak(run: Arm, texts: Sequence[Pieces]) -> float:
    """Peak MiB of this process during the call, above its memory before (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = memory("VmRSS")
    sweep(run, texts[: max(1, len(texts) // 3)])
    return (memory("VmHWM") - before) / 1024


def memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def matrix_rate(dtype: torch.dtype, size: int = 8192) -> float:
    """FLOP per second of a large matrix product on this GPU."""
    one, two = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    took = []
    for _ in range(12):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        one @ two
        end.record()
        torch.cuda.synchronize()
        took.append(start.elapsed_time(end) / 1e3)
    return 2 * size**3 / statistics.median(took[2:])


def table(seconds: dict[str, list[float]], peaks: dict[str, float]) -> list[dict[str, Any]]:
    eager, sdpa = seconds["eager"], seconds["sdpa"]
    rows = []
    for name in ARMS:
        own = seconds[name]
        against = {
            "eager": [a / b for a, b in zip(own, eager, strict=True)],
            "sdpa": [a / b for a, b in zip(own, sdpa, strict=True)],
        }
        rows.append(
            {
                "arm": name,
                "seconds": statistics.median(own),
                **{
                    f"{against_name}_{what}": value
                    for against_name, ratios in against.items()
                    for what, value in (
                        ("ratio", statistics.median(ratios)),
                        ("least", min(ratios)),
                        ("most", max(ratios)),
                    )
                },
                "peak_mib": peaks.get(name),
                "peak_to_eager": peaks[name] / peaks["eager"] if name in peaks else None,
            }
        )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'arm':9} {'seconds':>8}  {'to eager':20} {'to sdpa':20} {'peak':>9}")
    for row in rows:
        ratios = "  ".join(
            f"{row[f'{a}_ratio']:5.2f} ({row[f'{a}_least']:.2f}-{row[f'{a}_most']:.2f})  "
            for a in ("eager", "sdpa")
        )
        peak = "" if row["peak_mib"] is None else f"{row['peak_mib']:7.0f} MiB"
        print(f"{row['arm']:9} {row['seconds']:8.3f}  {ratios} {peak}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument("--pieces", type=int)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--batch", type=Path)
    parser.add_argument("--only", choices=ARMS)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> None:
    logging.set_verbosity_error()
    given = arguments()
    batch = batches.load(given.batch) if given.batch else primer(given.sentences)
    if given.write:
        batches.save(batch, given.write)
        return
    dtype = torch.bfloat16 if given.precision == "bf16" else torch.float32
    ours = model(batch, given.device, dtype, given.layers)
    limit = Limit(given.pieces or PIECES[given.device])
    cut = batches_of(ours, batch, limit, fills=given.device == "cuda")
    texts = [text.to(given.device) for text in cut]
    if given.only:
        ours.net.set_attn_implementation(implementation(given.only))
        print(json.dumps({"peak": own_peak(arm(given.only, ours), texts)}))
        return
    seconds = measure(ours, texts, given.rounds)
    if given.device == "cuda":
        peaks = cuda_peaks(ours, texts)
    else:
        path = Path(f"/tmp/engine-benchmark-{os.getpid()}.safetensors")
        batches.save(batch, path)
        peaks = {name: cpu_peak(given, name, path) for name in ARMS}
        path.unlink()
    rows = table(seconds, peaks)
    pieces = sum(int(text.mask.sum()) for text in texts)
    padded = sum(text.mask.numel() for text in texts)
    print(
        f"{len(batch)} sentences, {pieces} pieces, {padded - pieces} of padding, {given.precision}"
    )
    show(rows)
    result = {"rows": rows, "pieces": pieces, "padded": padded, "sentences": len(batch)}
    result |= {"precision": given.precision, "torch": torch.__version__, "rounds": given.rounds}
    if given.device == "cuda":
        rate = matrix_rate(dtype)
        result |= {"device": torch.cuda.get_device_name(), "matrix_rate": rate}
        for row in rows:
            row["pieces_per_second"] = pieces / row["seconds"]
            row["of_matrix_rate"] = 2 * PARAMETERS * padded / row["seconds"] / rate
            print(
                f"{row['arm']:9} {row['pieces_per_second']:12,.0f} pieces per second, "
                f"{row['of_matrix_rate']:.1%} of {rate / 1e12:.0f} TFLOP/s"
            )
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
