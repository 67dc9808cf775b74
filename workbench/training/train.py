"""Text in, a trained model's folder out: tokenizer, store, model, training, files.

    train("bert", Path("text.txt"), Path("out"), Settings(size="mini", plan=Plan(steps=2_000)))

The same text, settings and seed give the same weights on a CPU. A call that was killed goes on when
it is made again; one that is done returns at once. The folder opens with `AutoModel` and
`AutoTokenizer`, and says in `training.json` how it was made. Costs the time of its plan, and before
it some seconds a megabyte of text.
"""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from workbench import places
from workbench.errors import WorkbenchError
from workbench.models.vocabulary_files import read_words
from workbench.training import opening
from workbench.training.architectures import Size
from workbench.training.curves import Row, read_curves
from workbench.training.distributed import Place, joined
from workbench.training.families import build, family_of, objective_for, size_of
from workbench.training.packing import Packing, pack
from workbench.training.prepare import Prepared, Text, prepare, text_hash
from workbench.training.recipe import FORMAT, Settings, Sources, key_of, require_sound
from workbench.training.saving import CURVES, SCRATCH, read_recipe, save_trained, versions
from workbench.training.sentences import sentences_of
from workbench.training.task import Progress, Quiet, Task
from workbench.training.tasks import parted, task_of
from workbench.training.trainer import fit
from workbench.training.vocabulary import vocabulary_of
from workbench.training.wordtasks import elmo_task, vectors_task


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
        objective = opening.own_objective(family, continue_from)
    digest = text_hash(text)
    key = key_of(family, told, sources, digest)
    with joined(device) as place:
        tell = progress if progress is not None and place.leads else Quiet()
        if done := _finished(out, key):
            tell.log(f"{out} was trained so already.")
            return done
        aside = scratch or out / SCRATCH
        run = _Training(family, told, sources, objective, out, aside, place, tell)
        return run.all(text, digest, key, home or places.home() / "tokens")


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
            size = opening.teachers_size(self.sources.teacher, size)
        return size

    def _pieces(self, prepared: Prepared, size: Size) -> tuple[nn.Module, Task]:
        seed, model, teacher = self.settings.plan.seed, self.sources.model, self.sources.teacher
        net: nn.Module
        if model is not None:
            net = opening.gone_on(self.family, self.objective, model, self.tell, seed)
            if teacher is not None:
                net = opening.with_teacher(net, teacher)
        elif teacher is not None:
            net = opening.student_of(teacher, size, prepared.tokenizer, seed)
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
        most, asked = opening.longest(net), self.settings.length
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
            table = opening.vectors_of(self.sources.model, words, size.width, plan.seed)
            packing = pack(prepared.store, vocabulary, size.length, plan.seed)
            return table, vectors_task(words, packing, plan, world)
        net = opening.elmo_of(self.sources.model, words, size, plan.seed)
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
