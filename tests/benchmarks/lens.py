"""The logit lens on a decoder of real shape, against its floor: `python -m tests.benchmarks.lens`.

The floor is a plain forward pass, and one product of all states with the unembedding, its softmax,
a rank and the five most likely choices. One thread; medians of five interleaved rounds.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import workbench as wb

TEXT = "the old captain of the ship sees a small island"
LAYERS, ROUNDS = 30, 5
RESULTS = Path(__file__).with_name("results") / "lens.json"


def decoder(folder: Path, vocabulary: int) -> Path:
    """A random decoder of 30 layers with grouped queries, saved as the hub would have it."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=576, intermediate_size=1536, num_hidden_layers=LAYERS,
        num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=512,
        tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    names = ["<pad>", "<s>", "</s>", "<unk>", *dict.fromkeys(TEXT.split())]
    names += [f"w{n}" for n in range(vocabulary - len(names))]
    tokenizer = Tokenizer(models.WordLevel({name: n for n, name in enumerate(names)}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", bos_token="<s>",
        eos_token="</s>",
    ).save_pretrained(folder)  # fmt: skip
    return folder


@torch.no_grad()
def floor(net: LlamaForCausalLM, ids: torch.Tensor, n_states: int) -> None:
    states = net.model(ids).last_hidden_state[0]  # [pieces, width]
    rows = states.repeat(n_states, 1)  # [states * pieces, width]
    log_p = net.lm_head(rows).log_softmax(-1)
    chosen = log_p.gather(1, log_p.argmax(-1)[:, None])
    (log_p > chosen).sum(-1)
    log_p.topk(5)


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def measured(vocabulary: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        model = wb.load(decoder(Path(folder), vocabulary), device="cpu")
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        net = LlamaForCausalLM.from_pretrained(folder)
        ids = torch.tensor([tokenizer(TEXT)["input_ids"]])
        n_states = 2 * LAYERS + 1
        wb.lens(model, TEXT)
        floor(net, ids, n_states)
        rounds = [
            (seconds(lambda: wb.lens(model, TEXT)), seconds(lambda: floor(net, ids, n_states)))
            for _ in range(ROUNDS)
        ]
    ratios = [ours / least for ours, least in rounds]
    return {
        "vocabulary": vocabulary,
        "states": n_states,
        "words": len(TEXT.split()),
        "lens_s": round(statistics.median(ours for ours, _ in rounds), 3),
        "floor_s": round(statistics.median(least for _, least in rounds), 3),
        "ratio": round(statistics.median(ratios), 2),
        "ratio_min": round(min(ratios), 2),
        "ratio_max": round(max(ratios), 2),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = [measured(vocabulary) for vocabulary in (49_152, 151_936)]
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
