"""Several runs as one short paper: a question for each chapter, its findings and one figure.

A report (`write_report`) has everything about each run; a paper only what answers a question, with
the command that computes it. It opens from disk and needs no network, as a report does. Costs:
reading the tables, and some tenths of a second per figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.core.files import atomic_write
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
        figure: The name of the figure ("": the one of the first finding).
    """

    question: str
    lead: str
    runs: Sequence[Run]
    go_on: str
    figure: str = ""


@dataclass(frozen=True)
class Answer:
    """A chapter with the content of its runs."""

    number: int
    chapter: Chapter
    parts: tuple[Part, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the first findings of the run, or the first of each of several runs."""
        if len(self.parts) == 1:
            return self.parts[0].findings[:FINDINGS]
        return tuple(
            replace(finding, claim=f"{part.spec.models[0].name}: {finding.claim}")
            for part in self.parts
            for finding in part.findings[:1]
        )

    @property
    def first(self) -> Finding:
        """Return the finding that answers the question in one sentence."""
        return first_decided(self.findings)

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


def write_paper(chapters: Sequence[Chapter], path: Path, title: str, abstract: str) -> Path:
    """Write the paper as one HTML file; return its path."""
    whole = content([run for chapter in chapters for run in chapter.runs], title)
    answers = [
        Answer(number, chapter, tuple(whole.part_of(run) for run in chapter.runs))
        for number, chapter in enumerate(chapters, start=1)
    ]
    page = paper_page(whole, abstract, answers)
    with atomic_write(path) as draft:
        draft.write_text(page, encoding="utf-8", newline="\n")
    return path
