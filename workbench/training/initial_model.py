"""The model a training begins with: a new one, or one from a folder that goes on with other text.

What is gone on with keeps its tokenizer or its words and its size; only the text is another. A head
that the folder lacks is drawn anew, with a warning. Costs reading the weights.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from workbench.core.errors import WorkbenchError, listed
from workbench.models.bilm import BiLM, Words, load_trained
from workbench.models.checkpoint import read_config
from workbench.models.elmo import ElmoOptions
from workbench.models.word_models import read_vectors
from workbench.training.distillation import Distilled, begin_as
from workbench.training.electra import open_electra
from workbench.training.families import Size, build, family_of
from workbench.training.skipgram import SkipGram
from workbench.training.spanbert import SpanBert
from workbench.training.task import Progress

_AUTO: Mapping[str, Any] = {
    "causal": hf.AutoModelForCausalLM,
    "masked": hf.AutoModelForMaskedLM,
    "distilled": hf.AutoModelForMaskedLM,
    "masked-next": hf.AutoModelForPreTraining,
    "masked-order": hf.AutoModelForPreTraining,
    "masked-spans": hf.AutoModelForMaskedLM,
}
# What a model is saved as that has a head for pairs of texts.
_WITH_PAIRS = {"masked-next": "BertForPreTraining", "masked-order": "AlbertForPreTraining"}


def new_elmo(size: Size, words: Words, seed: int) -> BiLM:
    """An ELMo of about the size of its sisters: two LSTM layers, whatever `layers` says."""
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
    return BiLM.fresh(options, words, size.vocabulary, seed)


def gone_on(
    name: str, objective: str, folder: Path, progress: Progress, seed: int = 0
) -> nn.Module:
    """A model of a family that reads pieces, from a folder; heads it lacks follow from the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _gone_on(name, objective, folder, progress)


def _gone_on(name: str, objective: str, folder: Path, progress: Progress) -> nn.Module:
    types = family_of(name).types
    config = _config(folder)
    if config.model_type not in types:
        raise WorkbenchError(
            f"holds a {config.model_type}, which {name} does not go on with.",
            where=str(folder),
            remedy=f"{name} goes on with: {', '.join(types)}.",
        )
    auto = _AUTO.get(objective, hf.AutoModelForSeq2SeqLM)
    with quietly():
        if objective == "replaced":
            return open_electra(folder)
        net, told = auto.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, output_loading_info=True
        )
    if told["missing_keys"]:
        lacking = listed(sorted(told["missing_keys"]))
        progress.warn(f"{folder} lacks {lacking}: drawn anew, to be learnt.")
    if objective == "masked-spans":
        progress.warn(f"{folder} keeps no head for spans' boundaries: drawn anew, to be learnt.")
        return SpanBert(net.float())
    found: nn.Module = net.float()
    return found


def own_objective(name: str, folder: Path) -> str:
    """The family's own; masks alone for a model that was saved without a head for pairs."""
    own = family_of(name).objective
    saved_as = _WITH_PAIRS.get(own)
    lacks = saved_as is not None and saved_as not in (_config(folder).architectures or ())
    return "masked" if lacks else own


def longest(net: nn.Module) -> int | None:
    """The longest sequence a model can read; None where there is no limit."""
    config: Any = getattr(net, "config", None)
    for attribute in ("max_position_embeddings", "n_positions"):
        found = getattr(config, attribute, None)
        if isinstance(found, int) and config.model_type != "t5":
            behind = config.pad_token_id + 1 if config.model_type == "roberta" else 0
            return found - behind
    return None


def student_of(
    teacher: Path, size: Size, tokenizer: PreTrainedTokenizerBase, seed: int
) -> Distilled:
    """A new student of a masked model."""
    student: Any = build("distilbert", size, tokenizer, seed)
    taught = _teacher(teacher)
    begin_as(student, taught)
    return Distilled(student, taught)


def with_teacher(student: nn.Module, teacher: Path) -> Distilled:
    """A student that was one before."""
    kept: Any = student
    return Distilled(kept, _teacher(teacher))


def _teacher(folder: Path) -> PreTrainedModel:
    _config(folder)  # no pipe among its files, no number that is none
    with quietly():
        net: Any = hf.AutoModelForMaskedLM.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    found: PreTrainedModel = net.float()
    return found


def teachers_size(teacher: Path, size: Size) -> Size:
    """Width, heads, vocabulary and positions of the teacher, and half its layers."""
    config = _config(teacher)
    return replace(
        size,
        layers=max(1, config.num_hidden_layers // 2),
        width=config.hidden_size,
        heads=config.num_attention_heads,
        vocabulary=config.vocab_size,
        length=config.max_position_embeddings,
    )


def vectors_of(folder: Path | None, words: Words, width: int, seed: int) -> SkipGram:
    """New vectors; words that the folder has begin as they are there."""
    if folder is None:
        return SkipGram(words, width, seed)
    old = read_vectors(folder)
    net = SkipGram(words, old.width, seed)
    rows = [(row, old.rows[word]) for row, word in enumerate(words.words) if word in old.rows]
    if rows:
        here, there = torch.tensor(rows).T
        with torch.no_grad():
            net.center[here] = old.table[there].float()
    return net


def elmo_of(folder: Path | None, words: Words, size: Size, seed: int) -> BiLM:
    """A new ELMo, or one from a folder, which reads the new words by their characters."""
    if folder is None:
        return new_elmo(size, words, seed)
    net = load_trained(folder)
    net.words = words
    return net.train()


def _config(folder: Path) -> Any:
    try:
        return read_config(str(folder))
    except WorkbenchError as error:
        raise WorkbenchError(
            f"there is no model to go on with: {error.what}",
            where=error.where,
            remedy="Name a folder with config.json, model.safetensors and a tokenizer's files.",
        ) from None


# --- silence while transformers reads and writes: bars and load reports are no news to a user -----
#
# What matters of a report is told in our own words where a model is opened. Costs nothing.


@contextmanager
def quietly() -> Iterator[None]:
    """Only errors are told, and no bars are drawn."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
