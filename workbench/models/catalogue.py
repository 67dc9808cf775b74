"""What models can be opened, and what cannot be asked of some; the facts of an open one.

The facts of files are those of the model opened in fp32. Files of half its width are opened as they
are, which leaves the weights on disk, mapped into memory; so they cost one tensor in fp32.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.engine.model import Model


@dataclass(frozen=True)
class Family:
    """One kind of model, known by transformers' `model_type`, or our own."""

    name: str
    stacks: str
    about: str
    limits: str = ""  # what the engine cannot do with it


_NO_VALUES = "value vectors are not shown to taps"
FAMILIES = (
    Family("bert", "encoder", "BERT, and its kin: SpanBERT, SciBERT, LEGAL-BERT"),
    Family("roberta", "encoder", "RoBERTa"),
    Family("distilbert", "encoder", "DistilBERT"),
    Family("electra", "encoder", "ELECTRA"),
    Family("albert", "encoder", "ALBERT; its layers share weights and are separate sites"),
    Family("modernbert", "encoder", "ModernBERT, with local and global attention"),
    Family("deberta-v2", "encoder", "DeBERTa v2 and v3", _NO_VALUES),
    Family(
        "xlnet",
        "encoder",
        "XLNet, looking both ways; pieces hidden by the order of prediction",
        _NO_VALUES,
    ),
    Family(
        "longformer",
        "encoder",
        "Longformer, local attention",
        f"maps in eval mode only, no global attention, {_NO_VALUES}",
    ),
    Family("openai-gpt", "decoder", "the first GPT", _NO_VALUES),
    Family("gpt2", "decoder", "GPT-2"),
    Family("bloom", "decoder", "BLOOM", _NO_VALUES),
    Family("gpt_neox", "decoder", "GPT-NeoX, Pythia"),
    Family("llama", "decoder", "Llama, with grouped queries"),
    Family("t5", "encoder, decoder", "T5, T5 1.1"),
    Family("mt5", "encoder, decoder", "mT5"),
    Family("bart", "encoder, decoder", "BART"),
    Family("elmo", "encoder", "ELMo; with its softmax if trained here", "no attention; fp32 only"),
    Family("vectors", "encoder", "static word vectors", "no attention; fp32 only"),
)
REFERENCES = {
    "mini:bert, mini:gpt, mini:elmo, mini:t5": "built in: a million parameters each, trained on "
    "primer",
    "RUN": "a run that trained a model, such as train-0123456789ab, or how its name begins",
    "FOLDER": "config.json, model.safetensors and the tokenizer's files, or an ELMo or vectors as "
    "training writes them; nothing is fetched",
    "HUB-ID": "such as bert-base-uncased; from the cache, else from the hub",
    "elmo:OPTIONS.json,WEIGHTS.hdf5": "the original ELMo's files, which have no softmax",
    "vectors:FILE": "word2vec or GloVe vectors, or a folder of our own",
    "REF@random": "any of these with fresh weights",
}


def catalogue() -> dict[str, Any]:
    """Everything there is to open, as plain data."""
    return {"references": REFERENCES, "families": [asdict(family) for family in FAMILIES]}


def facts(model: "Model") -> dict[str, Any]:
    """What one asks first of an open model, as plain data."""
    return {
        "name": model.name,
        "family": model.family,
        "width": model.width,
        "parameters": model.parameters,
        "longest_input": model.max_pieces,
        "device": str(model.device),
        "precision": model.precision,
        "stacks": [asdict(stack) for stack in model.stacks],
        "sites": len(model.sites),
        "objective": model.objective,
        "classes": list(getattr(model, "classes", ())),
        "content_hash": model.content_hash,
        "limits": "; ".join(filter(None, _limits(model))),
    }


def facts_of_files(ref: str, seed: int = 0, pickled: bool = False) -> dict[str, Any]:
    """The facts of a model as it is when opened in fp32, in as little memory as can be."""
    from workbench.models.huggingface import HuggingFace
    from workbench.models.loading import load, precision_of_files

    with suppress(WorkbenchError):  # what is wrong is said by opening it in fp32
        precision = "fp32" if pickled else precision_of_files(ref)
        if precision != "fp32":
            model = load(ref, "cpu", precision)
            if isinstance(model, HuggingFace) and (found := model.content_hash_in_fp32()):
                vars(model)["content_hash"] = found
                return facts(model) | {"precision": "fp32"}
            del model  # before it is opened again
    return facts(load(ref, "cpu", "fp32", seed=seed, pickled=pickled))


def _limits(model: "Model") -> Iterator[str]:
    yield next((family.limits for family in FAMILIES if family.name == model.family), "")
    if lacking := getattr(model, "lacking", 0):
        left = sum(site.heads for site in model.sites)
        yield f"{left} of {left + lacking} heads are left, numbered anew"
