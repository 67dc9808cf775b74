"""Several runs as one short paper: a question for each chapter, its findings and one figure.

A report (`write_report`) has everything about each run; a paper only what answers a question, with
the command that computes it. It opens from disk and needs no network, as a report does. Costs:
reading the tables, and some tenths of a second per figure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.core.files import write_atomically
from workbench.core.findings import Finding, first_decided
from workbench.report.content import Drawing, Part, content, duration
from workbench.report.html import paper_page
from workbench.runs.run import Run

FINDINGS = 3  # of a chapter, at most


@dataclass(frozen=True)
class Chapter:
    """A question and the runs that answer it.

    Args:
        question: The heading.
        lead: What is looked at, and how.
        runs: The runs that answer it; if there are several, each says one finding.
        go_on: The command to go on with.
        measure: The measure of the finding that answers ("": the first decided finding).
        figure: The name of the figure ("": the one of the first finding).
    """

    question: str
    lead: str
    runs: Sequence[Run]
    go_on: str
    measure: str = ""
    figure: str = ""


@dataclass(frozen=True)
class Answer:
    """A chapter with the content of its runs."""

    number: int
    chapter: Chapter
    parts: tuple[Part, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return what answers the question, the answer in one sentence first."""
        return answers([part.run for part in self.parts], self.chapter.measure)

    @property
    def drawings(self) -> tuple[Drawing, ...]:
        """Return the figure of each run, under what it measures; the findings are next to it."""
        every = [part.drawings.get(self.chapter.figure, part.main) for part in self.parts]
        several = len(self.parts) > 1
        return tuple(
            replace(drawing, title=part.spec.models[0].name)
            if several
            else replace(drawing, title=drawing.subtitle or drawing.title, subtitle="")
            for part, drawing in zip(self.parts, every, strict=True)
            if drawing is not None
        )

    @property
    def is_builtin(self) -> bool:
        return self.parts[0].run.is_builtin

    @property
    def seconds(self) -> str:
        """Return how long its runs took."""
        return duration(sum(part.run.status.seconds for part in self.parts))


def answers(runs: Sequence[Run], measure: str = "") -> tuple[Finding, ...]:
    """Return the findings that answer a question.

    Of one run: the one with this measure or else the first decided one, then the others. Of several
    runs: the first of each, which names its model.
    """
    if len(runs) > 1:
        return tuple(_named(run.findings[0], run.spec.models[0].name) for run in runs)
    found = runs[0].findings
    named = (each for each in found if each.measure == measure)
    first = next(named, None) or first_decided(found)
    return (first, *(each for each in found if each is not first))[:FINDINGS]


def _named(finding: Finding, model: str) -> Finding:
    """Return the finding with the name of its model."""
    said = re.sub("^The model(?= )", model, finding.claim)
    return replace(finding, claim=said if said != finding.claim else f"{model}: {said}")


def write_paper(chapters: Sequence[Chapter], path: Path, title: str, abstract: str) -> Path:
    """Write the paper as one HTML file; return its path."""
    whole = content([run for chapter in chapters for run in chapter.runs], title)
    answers = [
        Answer(number, chapter, tuple(whole.part_of(run) for run in chapter.runs))
        for number, chapter in enumerate(chapters, start=1)
    ]
    page = paper_page(whole, abstract, answers)
    write_atomically(path, page)
    return path
