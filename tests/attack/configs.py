"""Model folders whose config, tokenizer or weights were changed at random, opened and run.

Costs a tenth of a second a case.
"""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.attack.mutations import changed, json_bytes

_models: list[Path] = []
_JSON = ("config.json", "tokenizer.json", "tokenizer_config.json", "options.json", "pruned.json")


def prepare(folder: Path) -> None:
    """Small models of several families, in folders."""
    import torch
    from transformers import (
        GPT2Config,
        GPT2LMHeadModel,
        LlamaConfig,
        LlamaForCausalLM,
        T5Config,
        T5ForConditionalGeneration,
    )

    from tests.tiny import tiny_bert

    torch.set_num_threads(1)
    bert, tokenizer = tiny_bert(["the", "dog", "barks", "."])
    size = len(tokenizer)
    nets = {
        "bert": bert,
        "gpt2": GPT2LMHeadModel(
            GPT2Config(vocab_size=size, n_embd=32, n_layer=2, n_head=2, n_positions=64)
        ),
        "llama": LlamaForCausalLM(
            LlamaConfig(
                vocab_size=size,
                hidden_size=32,
                intermediate_size=64,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=64,
            )
        ),
        "t5": T5ForConditionalGeneration(
            T5Config(
                vocab_size=size,
                d_model=32,
                d_kv=16,
                d_ff=64,
                num_layers=2,
                num_heads=2,
                decoder_start_token_id=0,
            )
        ),
    }
    for name, net in nets.items():
        net.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
        _models.append(folder / name)


def case(draw: random.Random, folder: Path) -> tuple[str, Callable[[], object]]:
    """A folder with one or two files changed."""
    source = draw.choice(_models)
    model = folder / "model"
    shutil.copytree(source, model)
    names = [path.name for path in model.iterdir()]
    for _ in range(draw.randint(1, 2)):
        name = draw.choice(["config.json", "config.json", "config.json", *names])
        path = model / name
        if not path.exists():
            continue
        match draw.choice(["change", "change", "change", "change", "empty", "remove"]):
            case "change" if name in _JSON:
                try:
                    found = json.loads(path.read_bytes())
                except ValueError:
                    continue
                path.write_bytes(json_bytes(draw, found))
            case "change":
                path.write_bytes(changed(draw, path.read_bytes(), 1))
            case "empty":
                path.write_bytes(b"")
            case "remove":
                path.unlink()
    fresh = "@random" if draw.random() < 0.3 else ""
    return source.name, lambda: _opened(f"{model}{fresh}")


def _opened(ref: str) -> None:
    """Open it as a run does, and put a sentence through it."""
    from workbench import encode, load
    from workbench.models.references import facts

    model = load(ref, "cpu", "fp32")
    json.dumps(facts(model))
    docs = _docs()
    model.forward(model.encode(encode(docs)))


def _docs() -> list[object]:
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

    return [Doc(Vocab(), words=["the", "dog", "barks", "."])]
