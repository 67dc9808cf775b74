"""Training from a text to a model's folder: tokenizer, token store, model, training, files.

    train("bert", Path("text.txt"), Path("out"), Settings(size="mini", plan=Plan(steps=2_000)))

The same text, settings and seed give the same weights on a CPU. A call that was killed continues
when it is repeated; a finished one returns at once. The folder opens with `AutoModel` and
`AutoTokenizer`, and `training.json` in it records the training. Costs: the time of the plan, and
before it some seconds per megabyte of text.
"""

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from workbench.analyses.training import initial_model
from workbench.analyses.training.batches import elmo_task, piece_task, split_held_out, vectors_task
from workbench.analyses.training.config import FORMAT, Settings, Sources, key_of, require_sound
from workbench.analyses.training.curves import Row, read_curves, write_curves
from workbench.analyses.training.distributed import Process, join_processes
from workbench.analyses.training.elmo import count_words, word_tokenizer
from workbench.analyses.training.families import (
    Family,
    Size,
    build,
    family_of,
    objective_for,
    size_of,
)
from workbench.analyses.training.objectives import of_words
from workbench.analyses.training.packing import Packing, pack, sentences_of
from workbench.analyses.training.task import Progress, Quiet, Task
from workbench.analyses.training.token_store import Store, lines_of, open_store, tokenize_text
from workbench.analyses.training.tokenizers import save_tokenizer, train_tokenizer
from workbench.analyses.training.trainer import fit
from workbench.analyses.training.vocabulary import vocabulary_of
from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.files import read_json, reason_of, unreadable, unwritable, write_atomically
from workbench.models.bilm import Words, read_words, save_words
from workbench.models.formats.checkpoint import read_tokenizer, silenced
from workbench.models.references import net_folder

# --- inputs of a training: the tokenizer or the words, and the token store ------------------------
#
# The leading process creates them and records their location; all other processes, and a run that
# continues after it was killed, open them. Costs: reading the text once for its hash and once for
# the tokenizer, and tokenising it.

PREPARED, TOKENIZER = "prepared.json", "tokenizer"
Text = Path | Sequence[str]  # a file, or lines


@dataclass(frozen=True)
class Prepared:
    """A text as its family reads it: tokenizer or words, and token store."""

    tokenizer: PreTrainedTokenizerBase
    words: Words | None  # for families that read words
    store: Store
    text_hash: str


def prepare(
    row: Family,
    size: Size,
    text: Text,
    scratch: Path,
    home: Path,
    process: Process,
    progress: Progress,
    *,
    digest: str,
    tokenizer: Path | None = None,
    words: Words | None = None,
    lowercase: bool = False,
) -> Prepared:
    """Open or create the inputs; `tokenizer` is a folder, `words` come before new words."""
    note = scratch / PREPARED
    tokenizer_name = str(tokenizer or "")
    if process.leads and not _is_prepared(note, digest, tokenizer_name):
        if row.reads == "words":
            all_words = _with_new_words(words, count_words(lines_of(text)))
            save_words(all_words, scratch / TOKENIZER)
            own_tokenizer: PreTrainedTokenizerBase = word_tokenizer(all_words)
        elif tokenizer is not None:
            own_tokenizer = open_tokenizer(net_folder(tokenizer))
            save_tokenizer(own_tokenizer, scratch / TOKENIZER)
        else:
            own_tokenizer = _train_tokenizer(row, size, text, lowercase, progress)
            save_tokenizer(own_tokenizer, scratch / TOKENIZER)
        store = tokenize_text(
            text,
            own_tokenizer,
            home,
            progress=lambda done: progress(done, None, "tokenizing (bytes of text)"),
        )
        record = {
            "manifest": str(store.folder / f"{store.manifest.key}.json"),
            "text": digest,
            "tokenizer": tokenizer_name,
        }
        write_atomically(note, json.dumps(record))
    process.wait()
    return _open_prepared(row, note)


def text_hash(text: Text) -> str:
    """The hash of the lines of a text, whatever its file format."""
    digest = hashlib.blake2b(digest_size=16)
    for line in lines_of(text):
        digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def open_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a local folder."""
    try:
        return read_tokenizer(str(folder))
    except WorkbenchError as error:
        raise WorkbenchError(
            f"the folder has no tokenizer: {error.what}",
            code="tokenizer-not-found",
            where=error.where,
            remedy="Name a folder that tokenizer.save_pretrained wrote.",
        ) from None


def _train_tokenizer(
    row: Family, size: Size, text: Text, lowercase: bool, progress: Progress
) -> PreTrainedTokenizerBase:
    """Train a new tokenizer; the library's warnings become warnings of the run."""
    progress(0, None, "training the tokenizer")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tokenizer = train_tokenizer(
            lines_of(text),
            row.algorithm,
            row.layout,
            size.vocabulary_size,
            max_length=size.sequence_length,
            lowercase=lowercase,
        )
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            progress.warn(str(warning.message))
    return tokenizer


def _with_new_words(first: Words | None, counted: Words) -> Words:
    """All words: those of the continued model keep their ids, new words come after them."""
    if first is None:
        return counted
    counts: dict[str, int] = dict(zip(counted.words, counted.counts, strict=True))
    old = set(first.words)
    new = [word for word in counted.words if word not in old]
    words = (*first.words, *new)
    return Words(words, tuple(counts.get(word, 0) for word in words))


def _is_prepared(note: Path, digest: str, tokenizer: str) -> bool:
    """Whether the inputs were created from this text; unreadable ones are created again."""
    try:
        made: dict[str, Any] = read_json(note)
        there = Path(made["manifest"]).is_file()
        return bool(there and made["text"] == digest and made["tokenizer"] == tokenizer)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _open_prepared(row: Family, note: Path) -> Prepared:
    try:
        record: dict[str, str] = read_json(note)
        text, manifest = record["text"], Path(record["manifest"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise unreadable(note, error) from None
    folder = note.parent / TOKENIZER
    words = read_words(folder) if row.reads == "words" else None
    tokenizer = word_tokenizer(words) if words is not None else open_tokenizer(folder)
    return Prepared(tokenizer, words, open_store(manifest), text)


# --- one training from start to end ---------------------------------------------------------------


@dataclass(frozen=True)
class Trained:
    """A finished training."""

    folder: Path
    recipe: Mapping[str, Any]
    rows: tuple[Row, ...]


def train(
    family: str,
    text: Text,
    out: Path,
    settings: Settings | None = None,
    progress: Progress | None = None,
    *,
    tokenizer: Path | None = None,
    continue_from: Path | None = None,
    teacher: Path | None = None,
    device: str | None = None,
    home: Path | None = None,
    scratch: Path | None = None,
) -> Trained:
    """Train a model family on a text, a file or lines.

    `home` is the folder of token stores. `scratch` is the folder of checkpoints during training, on
    the same disk as `out` (default: a folder in `out`).
    """
    chosen = settings or Settings()
    sources = Sources(tokenizer, continue_from, teacher)
    objective = objective_for(family, chosen.objective)
    require_sound(family, sources, chosen, objective)
    if continue_from and not chosen.objective:
        objective = initial_model.own_objective(family, continue_from)
    digest = text_hash(text)
    key = key_of(family, chosen, sources, digest)
    with join_processes(device) as process:
        on_progress = progress if progress is not None and process.leads else Quiet()
        if finished := _finished(out, key):
            on_progress.log(f"{out} is already trained with these settings.")
            return finished
        scratch_folder = scratch or out / SCRATCH
        training = _Training(
            family, chosen, sources, objective, out, scratch_folder, process, on_progress
        )
        return training.run(text, digest, key, home or machine.home() / "tokens")


@dataclass(frozen=True)
class _Training:
    family: str
    settings: Settings
    sources: Sources
    objective: str
    out: Path
    scratch: Path
    process: Process
    progress: Progress

    def run(self, text: Text, digest: str, key: str, home: Path) -> Trained:
        row, sources, scratch = family_of(self.family), self.sources, self.scratch
        size = self._size()
        pieces = row.reads == "pieces"
        prepared = prepare(
            row,
            size,
            text,
            scratch,
            home,
            self.process,
            self.progress,
            digest=digest,
            tokenizer=(sources.model or sources.teacher or sources.tokenizer) if pieces else None,
            words=read_words(sources.model) if self.family == "elmo" and sources.model else None,
            lowercase=self.settings.lowercase,
        )
        net, task = self._pieces(prepared, size) if pieces else self._words(prepared, size)
        plan, rows = self.settings.plan, []
        if task is not None:
            rows = fit(
                net, task, plan, self.progress, process=self.process, scratch=scratch, recipe=key
            )
        recipe = self._recipe(key, digest, prepared, net, rows)
        if self.process.leads:
            files = (net, prepared.tokenizer, self.out, scratch)
            save_trained(*files, recipe, rows, self.progress)
            shutil.rmtree(scratch, ignore_errors=True)
        self.process.wait()
        return Trained(self.out, recipe, tuple(rows))

    def _size(self) -> Size:
        s = self.settings
        names = [each.name for each in fields(Size)]
        size = size_of(s.size, **{name: getattr(s, name) for name in names})
        if self.sources.teacher is not None:
            size = initial_model.student_size(self.sources.teacher, size)
        return size

    def _pieces(self, prepared: Prepared, size: Size) -> tuple[nn.Module, Task]:
        seed, model, teacher = self.settings.plan.seed, self.sources.model, self.sources.teacher
        net: nn.Module
        if model is not None:
            net = initial_model.continued_model(
                self.family, self.objective, model, self.progress, seed
            )
            if teacher is not None:
                net = initial_model.with_teacher(net, teacher)
        elif teacher is not None:
            net = initial_model.student_of(teacher, size, prepared.tokenizer, seed)
        else:
            net = build(self.family, size, prepared.tokenizer, seed, self.objective)
        vocabulary, length = vocabulary_of(prepared.tokenizer), self._length(net, size)
        held_out_fraction = self.settings.held_out_fraction
        train_part: Packing
        if self.settings.rows == "sentences":
            train_part, held_out = sentences_of(
                prepared.store, vocabulary, length, seed, held_out_fraction
            )
        else:
            train_part, held_out = split_held_out(
                pack(prepared.store, vocabulary, length, seed), held_out_fraction
            )
        task = piece_task(
            self.objective,
            net,
            train_part,
            held_out,
            self.settings.plan,
            self.process.world,
            unit=self.settings.mask_by or family_of(self.family).unit,
            static=self.settings.static_masking,
            corruption=self.settings.corruption(),
        )
        return net, task

    def _length(self, net: nn.Module, size: Size) -> int:
        max_length, requested = initial_model.max_length(net), self.settings.sequence_length
        if requested and max_length and requested > max_length:
            raise WorkbenchError(
                f"sequence_length is {requested:,}; the model reads at most {max_length:,} pieces.",
                code="setting-invalid",
                where=str(self.sources.model or self.sources.teacher or ""),
                remedy=f"Set sequence_length to {max_length:,} or less.",
            )
        return min(requested or size.sequence_length, max_length or size.sequence_length)

    def _words(self, prepared: Prepared, size: Size) -> tuple[nn.Module, Task | None]:
        """The model and its task; None if it is fitted without steps."""
        plan, world, words = self.settings.plan, self.process.world, prepared.words
        assert words is not None, "a family that reads words has words"
        vocabulary = vocabulary_of(prepared.tokenizer)
        if self.family == "vectors":
            objective = of_words()[self.objective]
            packing = pack(prepared.store, vocabulary, size.sequence_length, plan.seed)
            model = self.sources.model if objective.fitted is None else None
            table = initial_model.vectors_of(
                model, words, size.width, plan.seed, objective.outputs(words)
            )
            if objective.fitted is None:
                return table, vectors_task(objective, words, packing, plan, world)
            self.progress(0, None, "counting words in windows, and their SVD")
            with torch.no_grad():
                table.center.copy_(objective.fitted(_all_texts(packing), words, size.width))
            return table, None
        net = initial_model.elmo_of(self.sources.model, words, size, plan.seed)
        train_part, held_out = sentences_of(
            prepared.store,
            vocabulary,
            size.sequence_length,
            plan.seed,
            self.settings.held_out_fraction,
            similar=1,
        )
        return net, elmo_task(net, train_part, held_out, plan, world)

    def _recipe(
        self, key: str, digest: str, prepared: Prepared, net: nn.Module, rows: list[Row]
    ) -> dict[str, Any]:
        manifest = prepared.store.manifest
        return {
            "format": FORMAT,
            "key": key,
            "family": self.family,
            "objective": self.objective,
            "settings": asdict(self.settings),
            "text": {"hash": digest, "bytes": manifest.text_bytes, "tokens": manifest.tokens},
            "tokenizer": manifest.tokenizer,
            "from": {name: str(path) for name, path in vars(self.sources).items() if path},
            "parameters": sum(p.numel() for p in net.parameters()),
            "devices": f"{self.process.world} x {self.process.device.type}",
            "versions": versions(),
            "last": asdict(rows[-1]) if rows else None,
        }


def _all_texts(packing: Packing) -> Iterator[Tensor]:
    """All tokens of a text once, some sequences at a time."""
    for first in range(0, len(packing), 64):
        yield packing.sequences(np.arange(first, min(first + 64, len(packing)))).tokens


def _finished(out: Path, key: str) -> Trained | None:
    """The finished training in the folder if it has this key; an error if it is another model."""
    recipe = read_recipe(out)
    if recipe is not None and recipe.get("key") == key:
        return Trained(out, recipe, tuple(read_curves(out / CURVES)))
    if recipe is not None or (out / "config.json").exists() or (out / "words.txt").exists():
        raise WorkbenchError(
            "the folder already holds another model.",
            code="folder-not-empty",
            where=str(out),
            remedy="Name a new folder, or remove this one.",
        )
    return None


# --- saving the model -----------------------------------------------------------------------------
#
# A trained model on disk: `training.json` is written last and marks the folder as complete.
#
# Files are written to a temporary folder and moved into place one by one. Costs: the bytes of the
# weights.

RECIPE, CURVES, SCRATCH = "training.json", "curves.csv", ".training"


def save_trained(
    net: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    out: Path,
    scratch: Path,
    recipe: Mapping[str, Any],
    rows: Sequence[Row],
    progress: Progress,
) -> None:
    """Write all files that open the model; a failure leaves the checkpoint in `scratch`."""
    temporary = scratch / "model"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        _save(net, tokenizer, temporary, family_of(recipe["family"]).reads, progress)
        for file in sorted(path for path in temporary.rglob("*") if path.is_file()):
            target = out / file.relative_to(temporary)
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)
    except (OSError, SafetensorError) as error:
        raise unwritable(
            out,
            error,
            "Then repeat the call: it continues from the last checkpoint.",
            needed=sum(part.nbytes for part in net.state_dict().values()),
        ) from None
    write_curves(rows, out / CURVES)
    write_atomically(out / RECIPE, json.dumps(recipe, indent=2) + "\n")


def read_recipe(folder: Path) -> dict[str, Any] | None:
    """The record of a finished training in a folder; None if there is none."""
    path = folder / RECIPE
    if not os.path.lexists(path):
        return None
    try:
        recipe = read_json(path)
        if not isinstance(recipe, dict):
            raise ValueError("it is not a JSON object")
    except (OSError, ValueError) as error:
        raise WorkbenchError(
            f"cannot be read as the record of a training: {reason_of(error)}.",
            code="file-unreadable",
            where=str(path),
            remedy="Copy the trained folder again, or train into a new folder.",
        ) from None
    return recipe


def versions() -> dict[str, str]:
    """Versions of the libraries that the results depend on."""
    return {name: version(name) for name in ("torch", "transformers", "tokenizers")}


def _save(
    net: nn.Module, tokenizer: PreTrainedTokenizerBase, folder: Path, reads: str, progress: Progress
) -> None:
    """Write the files that `wb.load` opens; models that read words save themselves."""
    model: Any = net
    if reads == "words":
        if not model.save(folder):
            progress.warn(
                "h5py is not installed: weights.hdf5, for the original ELMo code, is not written."
            )
        return
    with silenced():
        model.eval().save_pretrained(folder)
    save_tokenizer(tokenizer, folder)
