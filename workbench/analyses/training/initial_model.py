"""The model a training starts from: a new one, or one from a folder that continues on other text.

A continued model keeps its tokenizer or words and its size; only the text changes. A head that the
folder lacks is initialised randomly, with a warning. Costs: reading the weights.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from workbench.analyses.training.experiments import continued_type
from workbench.analyses.training.families import Size, build, family_of
from workbench.analyses.training.objectives import known
from workbench.analyses.training.objectives.distillation import Distilled, copy_teacher_layers
from workbench.analyses.training.objectives.electra import open_electra
from workbench.analyses.training.objectives.skipgram import SkipGram
from workbench.analyses.training.objectives.spanbert import SpanBert
from workbench.analyses.training.task import Architecture, Progress
from workbench.core.errors import WorkbenchError, listed
from workbench.models.attention_hooks import attend_globally
from workbench.models.bilm import BiLM, Words, load_trained
from workbench.models.elmo import ElmoOptions
from workbench.models.formats.checkpoint import read_config, silenced
from workbench.models.formats.task_checkpoint import language_head_of
from workbench.models.references import net_folder
from workbench.models.word_models import read_vectors

AUTO: Mapping[Architecture, Any] = {
    "decoder": hf.AutoModelForCausalLM,
    "encoder": hf.AutoModelForMaskedLM,
    "encoder-decoder": hf.AutoModelForSeq2SeqLM,
}
_PADDED = ("roberta", "longformer")  # their positions start after the id of the padding token
# The saved class of a model with a head for pairs of texts.
_WITH_PAIRS = {"masked-next": "BertForPreTraining", "masked-order": "AlbertForPreTraining"}


def new_elmo(size: Size, words: Words, seed: int) -> BiLM:
    """A new ELMo of about the size of the other families; it always has two LSTM layers."""
    width = size.width
    narrow = max(4, width // 8)
    filters = ((1, narrow), (2, narrow), (3, 2 * narrow), (4, 4 * narrow))
    options = ElmoOptions(
        character_width=16,
        filters=filters,
        max_characters=50 if width > 512 else 24,
        highways=1 if width <= 512 else 2,
        cells=2 * width,
        width=width,
        layers=2,
    )
    return BiLM.fresh(options, words, size.vocabulary_size, seed)


def continued_model(
    name: str, objective: str, folder: Path, progress: Progress, seed: int = 0
) -> nn.Module:
    """A model of a family that reads pieces, from a folder; the seed draws the heads it lacks."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _continued_model(name, objective, folder, progress)


def _continued_model(name: str, objective: str, folder: Path, progress: Progress) -> nn.Module:
    config, continued = _config(folder), continued_type(name)
    if config.model_type != continued:
        raise WorkbenchError(
            f"the folder holds a {config.model_type}, which {name} cannot continue from.",
            code="model-unsupported",
            where=str(folder),
            remedy=f"{name} can continue from: {continued}.",
        )
    auto = (
        hf.AutoModelForPreTraining
        if objective in _WITH_PAIRS
        else AUTO[known()[objective].architecture]
    )
    with silenced():
        if objective == "replaced":
            return open_electra(folder)
        net, loading_info = auto.from_pretrained(
            net_folder(folder),
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    kept = language_head_of(folder)  # that a task head has replaced
    if kept is not None:
        net.load_state_dict(kept.weights, strict=False)
    if names := set(loading_info["missing_keys"]) - set(kept.weights if kept else ()):
        missing = listed(sorted(names))
        progress.warn(f"{folder} lacks {missing}: initialised randomly, to be trained.")
    if objective == "masked-spans":
        progress.warn(f"{folder} has no span-boundary head: initialised randomly, to be trained.")
        return SpanBert(net.float())
    if config.model_type == "longformer":
        attend_globally(net)
    model: nn.Module = net.float()
    return model


def own_objective(name: str, folder: Path) -> str:
    """The family's objective; masked for a model that was saved without a head for pairs."""
    objective = family_of(name).objective
    saved_as = _WITH_PAIRS.get(objective)
    lacks = saved_as is not None and saved_as not in (_config(folder).architectures or ())
    return "masked" if lacks else objective


def max_length(net: nn.Module) -> int | None:
    """The maximum sequence length of a model; None without a limit."""
    config: Any = getattr(net, "config", None)
    for attribute in ("max_position_embeddings", "n_positions"):
        length = getattr(config, attribute, None)
        if isinstance(length, int) and length > 0 and config.model_type != "t5":  # XLNet has -1
            unused = config.pad_token_id + 1 if config.model_type in _PADDED else 0
            return length - unused
    return None


def student_of(
    teacher: Path, size: Size, tokenizer: PreTrainedTokenizerBase, seed: int
) -> Distilled:
    """A new student of a masked language model."""
    student: Any = build("distilbert", size, tokenizer, seed)
    teacher_net = _teacher(teacher)
    copy_teacher_layers(student, teacher_net)
    return Distilled(student, teacher_net)


def with_teacher(student: nn.Module, teacher: Path) -> Distilled:
    """A student that continues its training with a teacher."""
    student_net: Any = student
    return Distilled(student_net, _teacher(teacher))


def _teacher(folder: Path) -> PreTrainedModel:
    _config(folder)  # rejects named pipes and non-finite numbers
    with silenced():
        net: Any = hf.AutoModelForMaskedLM.from_pretrained(
            net_folder(folder), local_files_only=True, trust_remote_code=False
        )
    if (kept := language_head_of(folder)) is not None:
        net.load_state_dict(kept.weights, strict=False)
    teacher: PreTrainedModel = net.float()
    return teacher


def student_size(teacher: Path, size: Size) -> Size:
    """The size of a student: the teacher's width, heads, vocabulary and length, half its layers."""
    config = _config(teacher)
    return replace(
        size,
        n_layers=max(1, config.num_hidden_layers // 2),
        width=config.hidden_size,
        n_heads=config.num_attention_heads,
        vocabulary_size=config.vocab_size,
        sequence_length=config.max_position_embeddings,
    )


def vectors_of(
    folder: Path | None, words: Words, width: int, seed: int, outputs: int | None = None
) -> SkipGram:
    """New static vectors; words of the folder start from its vectors."""
    if folder is None:
        return SkipGram(words, width, seed, outputs)
    old = read_vectors(folder)
    net = SkipGram(words, old.width, seed, outputs)
    rows = [(row, old.rows[word]) for row, word in enumerate(words.words) if word in old.rows]
    if rows:
        new_rows, old_rows = torch.tensor(rows).T
        with torch.no_grad():
            net.center[new_rows] = old.table[old_rows].float()
    return net


def elmo_of(folder: Path | None, words: Words, size: Size, seed: int) -> BiLM:
    """A new ELMo, or one from a folder; it reads new words by their characters."""
    if folder is None:
        return new_elmo(size, words, seed)
    net = load_trained(folder)
    net.words = words
    return net.train()


def _config(folder: Path) -> Any:
    try:
        return read_config(str(net_folder(folder)))
    except WorkbenchError as error:
        raise WorkbenchError(
            f"the folder has no model to continue from: {error.what}",
            code="model-not-found",
            where=error.where,
            remedy="Name a folder with config.json, model.safetensors and a tokenizer's files.",
        ) from None
