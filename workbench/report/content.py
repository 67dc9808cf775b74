"""What a report says, whatever its form: read from the runs' folders, and nothing but from there.

Every form shows the same: what was asked, of what, with what and when; caveats beside what they
touch; figures and tables; how to make it again. Costs reading the tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from workbench.errors import WorkbenchError
from workbench.experiment import Caveat
from workbench.report.cells import Grid, grid
from workbench.report.comparison import Comparison, comparisons
from workbench.report.drawings import Drawing, drawings
from workbench.report.question import Rows, command, facts
from workbench.runs.integrity import PROVENANCE
from workbench.runs.results import damaged
from workbench.runs.run import Run


@dataclass(frozen=True)
class Part:
    """All that is said of one run."""

    number: int
    run: Run
    about: str
    facts: Mapping[str, Rows]
    command: str
    caveats: tuple[Caveat, ...]
    warnings: tuple[str, ...]
    swept: tuple[str, ...]  # the runs that a sweep is made of
    drawings: Mapping[str, Drawing]

    @property
    def title(self) -> str:
        """The experiment, and what it looked at."""
        asked = self.run.spec
        questions = asked.parts or (asked,)
        models = dict.fromkeys(model.name for one in questions for model in one.models)
        corpora = dict.fromkeys(corpus.name for one in questions for corpus in one.corpora)
        kind = f"{asked.experiment}, a sweep" if asked.sweep else asked.experiment
        seen = ", ".join([*models, *corpora])
        return f"{kind}: {seen}" if seen else kind

    @cached_property
    def tables(self) -> tuple[Grid, ...]:
        return tuple(grid(name, self.run.tables[name]) for name in self.run.tables)

    def beside(self, name: str) -> tuple[str, ...]:
        """The caveats that touch this figure or table."""
        return tuple(caveat.text for caveat in self.caveats if name in caveat.beside)

    @property
    def of_all(self) -> tuple[str, ...]:
        """The caveats that touch everything, or nothing that is there."""
        there = {*self.drawings, *self.run.tables}
        return tuple(c.text for c in self.caveats if not there.intersection(c.beside))

    def export(self, name: str, ending: str) -> str:
        """The command that exports one of its tables or figures."""
        return f"workbench export {self.run.name} {name} --out {name}{ending}"


@dataclass(frozen=True)
class Content:
    """One report."""

    parts: tuple[Part, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def title(self) -> str:
        if len(self.parts) == 1:
            return self.parts[0].title
        kinds = dict.fromkeys(part.run.spec.experiment for part in self.parts)
        return f"{len(self.parts)} runs: {', '.join(kinds)}"

    def heading(self, part: Part) -> str:
        """The title of a run's section: not that of another."""
        titles = [other.title for other in self.parts]
        if len(titles) == 1:
            return f"The run {part.run.name}"
        if titles.count(part.title) == 1:
            return part.title
        return f"{part.title} ({part.run.spec.fingerprint[:8]})"

    @property
    def has_drawings(self) -> bool:
        return any(part.drawings for part in self.parts)


def content(runs: Sequence[Run]) -> Content:
    """Read all that there is to say; an error where a run has no results."""
    apart = list({run.path.resolve(): run for run in runs}.values())
    parts = tuple(_part(number, run) for number, run in enumerate(apart, start=1))
    return Content(parts, comparisons(apart))


def _part(number: int, run: Run) -> Part:
    provenance = run.provenance  # raises where the run is not done
    try:
        swept = provenance.get("runs", ()) if run.spec.sweep else ()
        return Part(
            number,
            run,
            str(provenance.get("about", "")),
            facts(run),
            command(run.spec),
            run.caveats,
            tuple(dict.fromkeys(run.warnings)),
            tuple(map(str, swept)),
            drawings(run),
        )
    except WorkbenchError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise damaged(run.path / PROVENANCE, error) from error
