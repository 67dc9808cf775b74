"""Text in, a trained model's folder out: tokenizer, store, model, training, files.

    train("bert", Path("text.txt"), Path("out"), Settings(size="mini", plan=Plan(steps=2_000)))

The same text, settings and seed give the same weights on a CPU. A call that was killed goes on when
it is made again; one that is done returns at once. The folder opens with `AutoModel` and
`AutoTokenizer`, and says in `training.json` how it was made. Costs the time of its plan, and before
it some seconds a megabyte of text.
"""

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import nn
from transformers import PreTrainedTokenizerBase

from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.files import (
    parsed_json,
    read_regular,
    reason_of,
    unreadable,
    unwritable,
    written_whole,
)
from workbench.models.bilm import Words, read_words, save_words
from workbench.models.checkpoint import read_tokenizer
from workbench.training import initial_model
from workbench.training.batches import elmo_task, parted, task_of, vectors_task
from workbench.training.config import FORMAT, Settings, Sources, key_of, require_sound
from workbench.training.curves import Row, read_curves, write_curves
from workbench.training.distributed import Place, joined
from workbench.training.elmo import count_words, word_tokenizer
from workbench.training.families import Family, Size, build, family_of, objective_for, size_of
from workbench.training.initial_model import quietly
from workbench.training.packing import Packing, pack, sentences_of
from workbench.training.task import Progress, Quiet, Task
from workbench.training.token_store import Store, lines_of, open_store, tokenize_text
from workbench.training.tokenizers import save_tokenizer, train_tokenizer
from workbench.training.trainer import fit
from workbench.training.vocabulary import vocabulary_of

# --- what a training reads, made once: the tokenizer or the words, and the store of tokens --------
#
# The process that leads makes them and writes down where they are; all others, and a run that
# goes on after it was killed, open what is there. Costs reading the text once for its hash, once
# for the tokenizer, and tokenising it.

PREPARED, TOKENIZER = "prepared.json", "tokenizer"
Text = Path | Sequence[str]  # a file, or lines


@dataclass(frozen=True)
class Prepared:
    """A text as its family reads it."""

    tokenizer: PreTrainedTokenizerBase
    words: Words | None  # of a family that reads words
    store: Store
    text_hash: str


def prepare(
    row: Family,
    size: Size,
    text: Text,
    scratch: Path,
    home: Path,
    place: Place,
    progress: Progress,
    *,
    digest: str,
    tokenizer: Path | None = None,
    words: Words | None = None,
    lowercase: bool = False,
) -> Prepared:
    """Find or make what is read; `tokenizer` is a folder that has one, `words` go before others."""
    note = scratch / PREPARED
    given = str(tokenizer or "")
    if place.leads and not _is_made(note, digest, given):
        if row.reads == "words":
            counted = _with(words, count_words(lines_of(text)))
            save_words(counted, scratch / TOKENIZER)
            own: PreTrainedTokenizerBase = word_tokenizer(counted)
        elif tokenizer is not None:
            own = open_tokenizer(tokenizer)
            save_tokenizer(own, scratch / TOKENIZER)
        else:
            own = _trained(row, size, text, lowercase, progress)
            save_tokenizer(own, scratch / TOKENIZER)
        store = tokenize_text(
            text, own, home, progress=lambda done: progress(done, None, "bytes of text")
        )
        made = {
            "manifest": str(store.folder / f"{store.manifest.key}.json"),
            "text": digest,
            "tokenizer": given,
        }
        with written_whole(note) as draft:
            draft.write_text(json.dumps(made), "utf-8")
    place.wait()
    return _opened(row, note)


def text_hash(text: Text) -> str:
    """Of the lines, however they are kept."""
    digest = hashlib.blake2b(digest_size=16)
    for line in lines_of(text):
        digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def open_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """A tokenizer's folder, and nothing from a network."""
    try:
        return read_tokenizer(str(folder))
    except WorkbenchError as error:
        raise WorkbenchError(
            f"there is no tokenizer: {error.what}",
            where=error.where,
            remedy="Name a folder that tokenizer.save_pretrained wrote.",
        ) from None


def _trained(
    row: Family, size: Size, text: Text, lowercase: bool, progress: Progress
) -> PreTrainedTokenizerBase:
    """A new tokenizer; what the library would warn of is told where the user sees it."""
    progress(0, None, "training the tokenizer")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = train_tokenizer(
            lines_of(text),
            row.algorithm,
            row.layout,
            size.vocabulary,
            max_length=size.length,
            lowercase=lowercase,
        )
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            progress.warn(str(warning.message))
    return found


def _with(first: Words | None, counted: Words) -> Words:
    """The words of a model that is gone on with keep their places; new ones come behind."""
    if first is None:
        return counted
    counts: dict[str, int] = dict(zip(counted.words, counted.counts, strict=True))
    old = set(first.words)
    more = [word for word in counted.words if word not in old]
    words = (*first.words, *more)
    return Words(words, tuple(counts.get(word, 0) for word in words))


def _is_made(note: Path, digest: str, tokenizer: str) -> bool:
    """Whether it was made of this text; what cannot be read is made again."""
    try:
        made: dict[str, Any] = parsed_json(read_regular(note))
        there = Path(made["manifest"]).is_file()
        return bool(there and made["text"] == digest and made["tokenizer"] == tokenizer)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _opened(row: Family, note: Path) -> Prepared:
    try:
        made: dict[str, str] = parsed_json(read_regular(note))
        text, manifest = made["text"], Path(made["manifest"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise unreadable(note, error) from None
    folder = note.parent / TOKENIZER
    words = read_words(folder) if row.reads == "words" else None
    own = word_tokenizer(words) if words is not None else open_tokenizer(folder)
    return Prepared(own, words, open_store(manifest), text)


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
    """Train a family on a text, a file or lines.

    `home` is where stores of tokens are kept, `scratch` where checkpoints are until it is done: on
    the disk of `out`, and in it where it is not named.
    """
    told = settings or Settings()
    sources = Sources(tokenizer, continue_from, teacher)
    objective = objective_for(family, told.objective)
    require_sound(family, sources, told, objective)
    if continue_from and not told.objective:
        objective = initial_model.own_objective(family, continue_from)
    digest = text_hash(text)
    key = key_of(family, told, sources, digest)
    with joined(device) as place:
        tell = progress if progress is not None and place.leads else Quiet()
        if done := _finished(out, key):
            tell.log(f"{out} was trained so already.")
            return done
        aside = scratch or out / SCRATCH
        run = _Training(family, told, sources, objective, out, aside, place, tell)
        return run.all(text, digest, key, home or machine.home() / "tokens")


@dataclass(frozen=True)
class _Training:
    family: str
    settings: Settings
    sources: Sources
    objective: str
    out: Path
    scratch: Path
    place: Place
    tell: Progress

    def all(self, text: Text, digest: str, key: str, home: Path) -> Trained:
        row, sources, scratch = family_of(self.family), self.sources, self.scratch
        size = self._size()
        pieces = row.reads == "pieces"
        prepared = prepare(
            row,
            size,
            text,
            scratch,
            home,
            self.place,
            self.tell,
            digest=digest,
            tokenizer=(sources.model or sources.teacher or sources.tokenizer) if pieces else None,
            words=read_words(sources.model) if self.family == "elmo" and sources.model else None,
            lowercase=self.settings.lowercase,
        )
        net, task = self._pieces(prepared, size) if pieces else self._words(prepared, size)
        plan = self.settings.plan
        rows = fit(net, task, plan, self.tell, place=self.place, scratch=scratch, recipe=key)
        recipe = self._recipe(key, digest, prepared, net, rows)
        if self.place.leads:
            files = (net, prepared.tokenizer, self.out, scratch)
            save_trained(*files, recipe, rows, self.tell)
            shutil.rmtree(scratch, ignore_errors=True)
        self.place.wait()
        return Trained(self.out, recipe, tuple(rows))

    def _size(self) -> Size:
        s = self.settings
        names = ("layers", "width", "heads", "vocabulary", "length", "dropout")
        size = size_of(s.size, **{name: getattr(s, name) for name in names})
        if self.sources.teacher is not None:
            size = initial_model.teachers_size(self.sources.teacher, size)
        return size

    def _pieces(self, prepared: Prepared, size: Size) -> tuple[nn.Module, Task]:
        seed, model, teacher = self.settings.plan.seed, self.sources.model, self.sources.teacher
        net: nn.Module
        if model is not None:
            net = initial_model.gone_on(self.family, self.objective, model, self.tell, seed)
            if teacher is not None:
                net = initial_model.with_teacher(net, teacher)
        elif teacher is not None:
            net = initial_model.student_of(teacher, size, prepared.tokenizer, seed)
        else:
            net = build(self.family, size, prepared.tokenizer, seed, self.objective)
        vocabulary, length = vocabulary_of(prepared.tokenizer), self._length(net, size)
        share = self.settings.held_out
        part: Packing
        if self.settings.rows == "sentences":
            part, held = sentences_of(prepared.store, vocabulary, length, seed, share)
        else:
            part, held = parted(pack(prepared.store, vocabulary, length, seed), share)
        task = task_of(
            self.objective,
            net,
            part,
            held,
            self.settings.plan,
            self.place.world,
            unit=self.settings.mask_by or family_of(self.family).unit,
            static=self.settings.static,
            hidden=self.settings.hidden,
        )
        return net, task

    def _length(self, net: nn.Module, size: Size) -> int:
        most, asked = initial_model.longest(net), self.settings.length
        if asked and most and asked > most:
            raise WorkbenchError(
                f"sequences of {asked:,} tokens are longer than the model reads: {most:,}.",
                where=str(self.sources.model or self.sources.teacher or ""),
                remedy=f"Set the length to {most:,} or less.",
            )
        return min(asked or size.length, most or size.length)

    def _words(self, prepared: Prepared, size: Size) -> tuple[nn.Module, Task]:
        plan, world, words = self.settings.plan, self.place.world, prepared.words
        assert words is not None, "a family that reads words has them"
        vocabulary = vocabulary_of(prepared.tokenizer)
        if self.family == "vectors":
            table = initial_model.vectors_of(self.sources.model, words, size.width, plan.seed)
            packing = pack(prepared.store, vocabulary, size.length, plan.seed)
            return table, vectors_task(words, packing, plan, world)
        net = initial_model.elmo_of(self.sources.model, words, size, plan.seed)
        part, held = sentences_of(
            prepared.store, vocabulary, size.length, plan.seed, self.settings.held_out, alike=1
        )
        return net, elmo_task(net, part, held, plan, world)

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
            "devices": f"{self.place.world} x {self.place.device.type}",
            "versions": versions(),
            "last": asdict(rows[-1]) if rows else None,
        }


def _finished(out: Path, key: str) -> Trained | None:
    """The training that the folder holds, if it is this one; an error if it holds another."""
    recipe = read_recipe(out)
    if recipe is not None and recipe.get("key") == key:
        return Trained(out, recipe, tuple(read_curves(out / CURVES)))
    if recipe is not None or (out / "config.json").exists() or (out / "words.txt").exists():
        raise WorkbenchError(
            "the folder holds another model.",
            where=str(out),
            remedy="Name a new folder, or remove this one.",
        )
    return None


# --- saving the model -----------------------------------------------------------------------------
#
# A trained model on disk: its files first, `training.json` last, which says that it is whole.
#
# Files are made in a folder beside and moved into place one by one. Costs the weights' bytes,
# once.

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
    """Write all that opens a model again; a failure leaves the checkpoint in `scratch`."""
    aside = scratch / "model"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir(parents=True)
        _save(net, tokenizer, aside, family_of(recipe["family"]).reads, progress)
        for file in sorted(path for path in aside.rglob("*") if path.is_file()):
            target = out / file.relative_to(aside)
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)
    except (OSError, SafetensorError) as error:
        raise unwritable(
            out,
            error,
            "Then run the same again: the last checkpoint is kept.",
            needed=sum(part.nbytes for part in net.state_dict().values()),
        ) from None
    write_curves(rows, out / CURVES)
    with written_whole(out / RECIPE) as draft:
        draft.write_text(json.dumps(recipe, indent=2) + "\n", "utf-8")


def read_recipe(folder: Path) -> dict[str, Any] | None:
    """What a folder was trained with; None where no training was finished in it."""
    path = folder / RECIPE
    if not os.path.lexists(path):
        return None
    try:
        found = parsed_json(read_regular(path))
        if not isinstance(found, dict):
            raise ValueError("it is no JSON object")
    except (OSError, ValueError) as error:
        raise WorkbenchError(
            f"cannot be read as a training's recipe: {reason_of(error)}.",
            where=str(path),
            remedy="Copy the folder again from where it was trained, or train into a new one.",
        ) from None
    return found


def versions() -> dict[str, str]:
    """Of what decides the numbers."""
    return {name: version(name) for name in ("torch", "transformers", "tokenizers")}


def _save(
    net: nn.Module, tokenizer: PreTrainedTokenizerBase, folder: Path, reads: str, progress: Progress
) -> None:
    """As `wb.load` opens it: a net that reads words knows how to, a transformer has a tokenizer."""
    model: Any = net
    if reads == "words":
        if not model.save(folder):
            progress.warn(
                "h5py is not installed: weights.hdf5, which the original reads, was left out."
            )
        return
    with quietly():
        model.eval().save_pretrained(folder)
    save_tokenizer(tokenizer, folder)
