"""The experiment `distil`: a student with a teacher, and the same student without one.

Each training is that of `train` (its loop, checkpoints and schedule), on the same texts in the same
order, so that arms differ in their start and their loss only. All are scored on the same held-out
texts. The student of the first seed is saved. Costs: a training per arm and seed; with a teacher
a step takes one more forward pass, of the teacher.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import torch

from workbench.analyses.distillation.experiments import (
    ALONE,
    FLOOR,
    PAIRS,
    RANDOM,
    SCRATCH,
    STUDENT,
    TEACHER,
    Distil,
    LossName,
)
from workbench.analyses.distillation.lessons import Lesson, Scored, lesson_of
from workbench.analyses.distillation.losses import LayerMaps, Pair, read
from workbench.analyses.distillation.student import (
    continued,
    matched,
    matched_with,
    require_equal_heads,
    require_teacher,
    student_of,
)
from workbench.analyses.training.distributed import Process
from workbench.analyses.training.task import Part, Plan
from workbench.analyses.training.trainer import fit
from workbench.core.arrays import Floats
from workbench.core.files import folder_or_temporary
from workbench.core.machine import MEBI, stretch
from workbench.core.stats import difference, holm, interval, ratio, resampled
from workbench.engine.task import objective_table
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.huggingface import HuggingFace

TIMES = 7  # pairs of passes that are timed
TIMED = 4  # micro-batches of a pass


def run(inputs: Inputs, settings: Distil, progress: Progress) -> Result:
    """Train the arms, score them, and save the student."""
    teacher = require_teacher(inputs.models[0])
    start = require_teacher(inputs.models[1]) if len(inputs.models) > 1 else None
    school = School(settings, teacher, start)
    progress(0, None, "reading the corpus")
    lesson = lesson_of(inputs, settings, teacher)
    teacher.net.eval()
    scored: dict[str, list[Scored]] = {TEACHER: [lesson.score(teacher)]}
    trainings: list[dict[str, Any]] = []
    saved: HuggingFace | None = None
    with folder_or_temporary(inputs.scratch) as home:
        for arm in school.arms:
            scored[arm] = []
            for seed in settings.seeds:
                n_all = len(school.arms) * len(settings.seeds) * settings.steps
                part = Part(progress, len(trainings) * settings.steps, n_all, f"{arm}, seed {seed}")
                student, row = _trained(school, lesson, arm, seed, home, part)
                scored[arm].append(lesson.score(student))
                trainings.append(row)
                saved = saved or student  # the first arm's of the first seed
    assert saved is not None, "there is a seed"
    scored[FLOOR] = [lesson.baseline(school.plan(settings.seeds[0]))]
    if inputs.keep is not None:
        saved.save(inputs.keep)
    matched_layers = [
        {"stack": stack, "layer": own, "teacher_layer": layer}
        for stack, layers in school.layers.items()
        for own, layer in enumerate(layers, 1)
    ]
    tables = {
        **_compared(scored, lesson, inputs.seed),
        "sizes": _sizes(teacher, saved, lesson),
        "layers": pd.DataFrame(matched_layers),
        "trainings": pd.DataFrame(trainings),
        "objective": objective_table(teacher.predicts),
    }
    return Result(tables, caveats=tuple(_caveats(settings, lesson, school)))


# --- the arms -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class School:
    """The teacher, and the student that each arm begins with."""

    settings: Distil
    teacher: HuggingFace
    start: HuggingFace | None  # a model that the student goes on from
    checkpoint_steps: int = 0  # also a checkpoint every so many steps; 0: by time only

    @property
    def layers(self) -> LayerMaps:
        """The teacher's layer for each of the student's."""
        if self.start is not None:
            return matched_with(self.start, self.teacher, self.settings.layer_map)
        return matched(self.teacher, self.settings.n_layers, self.settings.layer_map)

    @property
    def copies(self) -> bool:
        """Whether the student starts from weights that were trained."""
        same_width = self.settings.width in (None, self.teacher.width)
        return self.start is not None or (self.settings.start == "teacher" and same_width)

    @property
    def arms(self) -> tuple[str, ...]:
        """The trainings; from random weights the student's own null is one of them."""
        nulls = (SCRATCH, RANDOM)
        return (STUDENT, ALONE, *nulls) if self.copies else (STUDENT, *nulls)

    def losses(self, arm: str) -> tuple[LossName, ...]:
        """The terms of an arm's loss; without a teacher the gold targets alone."""
        return (*self.settings.weight_of,) if arm in (STUDENT, RANDOM) else ("hard",)

    def begin(self, arm: str, seed: int) -> HuggingFace:
        """The untrained student of an arm."""
        if self.start is not None:
            student = continued(self.start, self.teacher, seed)
            return student if arm in (STUDENT, ALONE) else student.reinitialised(seed)
        copied = self.copies and arm in (STUDENT, ALONE)
        return student_of(self.teacher, self.layers, self.settings.width, seed, copied)

    def plan(self, seed: int) -> Plan:
        """The plan of every training with a seed."""
        s = self.settings
        return Plan(
            steps=s.steps, batch_size=s.batch_size, learning_rate=s.learning_rate, seed=seed,
            points=20, checkpoint_steps=self.checkpoint_steps,
        )  # fmt: skip


def _trained(
    school: School, lesson: Lesson, arm: str, seed: int, home: Path, progress: Part
) -> tuple[HuggingFace, dict[str, Any]]:
    """The trained student of an arm, and its row of the table `trainings`."""
    plan, student = school.plan(seed), school.begin(arm, seed)
    losses, layers = school.losses(arm), school.layers
    # another seed than the student's, so that a random teacher is not what the student starts as
    teacher = school.teacher.reinitialised(seed + 1) if arm == RANDOM else school.teacher
    if "maps" in losses:
        require_equal_heads(student, teacher, layers)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        pair = Pair(student, teacher, layers, losses, school.settings.temperature)
    scratch = home / f"{school.arms.index(arm)}-{seed}"
    scratch.mkdir(parents=True, exist_ok=True)
    rows = fit(
        pair, lesson.task(losses, plan), plan, progress,
        process=Process(student.device), scratch=scratch, recipe=f"{arm} {seed}",
    )  # fmt: skip
    student.net.eval()
    last = rows[-1]
    return student, {
        "arm": arm, "seed": seed, "steps": last.step, "tokens": last.tokens, "loss": last.loss,
        "seconds": last.seconds,
    }  # fmt: skip


# --- the tables -----------------------------------------------------------------------------------


def _compared(
    scored: Mapping[str, Sequence[Scored]], lesson: Lesson, seed: int
) -> dict[str, pd.DataFrame]:
    """The tables `scores` and `differences`."""
    arms = list(scored)
    n_seeds = max(map(len, scored.values()))
    of_seeds = [[runs[n % len(runs)] for n in range(n_seeds)] for runs in scored.values()]
    counts = np.stack([[each.counts for each in runs] for runs in of_seeds])
    same = np.stack(
        [[_agreed(each, scored[TEACHER][0], lesson) for each in runs] for runs in of_seeds]
    )
    values, draws = _measured(counts, lesson.measure, seed)  # [arms], [arms, draws]
    agreed, agreed_draws = _measured(same, lambda sums: ratio(sums[..., 0], sums[..., 1]), seed)
    teacher, floor = arms.index(TEACHER), arms.index(FLOOR)
    scores = []
    for row, arm in enumerate(arms):
        kept = _kept(values[row], values[teacher], values[floor])
        kept_draws = _kept(draws[row], draws[teacher], draws[floor])
        scores.append(
            {"arm": arm, "metric": lesson.metric, "value": values[row],
             **_ends("", draws[row]), "kept": kept, **_ends("kept_", kept_draws),
             "agreement": agreed[row], **_ends("agreement_", agreed_draws[row]),
             "texts": counts.shape[2], "seeds": len(scored[arm])}
        )  # fmt: skip
    differences = []
    for arm, against in PAIRS:
        if against not in arms:
            continue
        own, other = arms.index(arm), arms.index(against)
        lower, upper, p = difference(draws[other], draws[own])
        differences.append(
            {"arm": arm, "against": against, "metric": lesson.metric,
             "difference": values[own] - values[other], "lower": lower, "upper": upper, "p": p,
             "better": bool(lesson.sign * (values[own] - values[other]) > 0)}
        )  # fmt: skip
    table = pd.DataFrame(differences)
    table["p"] = holm(table["p"].to_numpy(np.float64))
    return {"scores": pd.DataFrame(scores), "differences": table}


def _measured(counts: Floats, measure: Any, seed: int) -> tuple[Floats, Floats]:
    """The measure of each arm, a mean over seeds, and its bootstrap samples."""
    values: Floats = measure(counts.sum(2).astype(np.float64)).mean(1)
    return values, resampled(counts, measure, seed)


def _agreed(own: Scored, teacher: Scored, lesson: Lesson) -> Floats:
    """By text, how many predictions are the teacher's, of how many.  # [texts, 2]"""
    same = np.array([a == b for a, b in zip(own.guesses, teacher.guesses, strict=True)], float)
    text, n_texts = lesson.text_of_guesses, len(own.counts)
    return np.stack([np.bincount(text, weights, n_texts) for weights in (same, same * 0 + 1)], 1)


def _kept(value: Any, teacher: Any, floor: Any) -> Any:
    """The share of the teacher's gain over the baseline; undefined where it has none."""
    gain = np.asarray(teacher - floor, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gain == 0, np.nan, (value - floor) / gain)[()]


def _ends(prefix: str, draws: Floats) -> dict[str, float]:
    lower, upper = interval(draws)
    return {f"{prefix}lower": float(lower), f"{prefix}upper": float(upper)}


def _sizes(teacher: HuggingFace, student: HuggingFace, lesson: Lesson) -> pd.DataFrame:
    """Layers, width, parameters and time of both models; passes over the same texts, in turn."""
    micros = lesson.held_out[:TIMED]

    def passed(model: HuggingFace) -> float:
        with torch.no_grad(), stretch(model.device) as took:
            for micro in micros:
                read(model, micro.inputs, states=False)
        return took.seconds

    turns = [(passed(teacher), passed(student)) for _ in range(TIMES + 1)][1:]
    ratios = [before / max(after, 1e-12) for before, after in turns]
    rows = []
    for index, (arm, model) in enumerate(((TEACHER, teacher), (STUDENT, student))):
        speed = (1.0,) if arm == TEACHER else ratios
        rows.append(
            {"arm": arm, "layers": sum(stack.layers for stack in model.stacks),
             "width": model.width, "parameters": model.parameters,
             "weights": sum(weight.nbytes for weight in model.net.parameters()) / MEBI,
             "seconds": median(turn[index] for turn in turns),
             "speedup": median(speed), "lowest": min(speed), "highest": max(speed)}
        )  # fmt: skip
    return pd.DataFrame(rows)


def _caveats(settings: Distil, lesson: Lesson, school: School) -> Iterator[Caveat]:
    yield from map(Caveat, lesson.notes)
    if len(settings.seeds) < 3:
        yield Caveat("Fewer than three seeds: the variation between trainings is hardly known.")
    yield Caveat(
        "All arms take the same number of steps; a step with a teacher takes longer. Compare the "
        "seconds of the table trainings.",
        ("differences",),
    )
    if (
        settings.width
        and school.start is None
        and settings.start == "teacher"
        and not school.copies
    ):
        yield Caveat("The student's width is not the teacher's, so it started from random weights.")
