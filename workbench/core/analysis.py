"""Analyses: what each announces, so that no other code has to name it.

An analysis is a package with an `ANALYSIS`:

    ANALYSIS = Analysis(__name__, experiments={"heads": "experiments:EXPERIMENT"})

The packages in `workbench/analyses/`, and those that an installed package names in the
entry point group `workbench.analyses` (`NAME = "package"`) are found, and all are treated alike.
What an analysis announces it names as "module:attribute", the module within its package, so that
listing analyses imports neither torch nor Streamlit. Costs: importing a module of strings for each
analysis.
"""

import pkgutil
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from workbench.core.errors import WorkbenchError, did_you_mean, line_of, what_is_wrong
from workbench.core.public import check_fields
from workbench.core.registry import imported

GROUP = "workbench.analyses"  # of entry points
INSIDE = "workbench.analyses"  # the package whose packages are analyses
Home = str  # "module:attribute", the module within the package of the analysis, or ":attribute"
OURS = {  # names that no analysis may have; and those of functions that `workbench` has itself
    "page": (
        "corpora", "experiments", "home", "lessons", "models", "questions", "runs", "settings",
    ),
    "command": (
        "app", "corpora", "demo", "doctor", "experiments", "export", "export-model", "fetch",
        "models", "report", "run", "runs",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Page:
    """A page of the app, by its name in the address.

    Args:
        name: In the address; built-in pages have a file of this name in `pages/`.
        title: In the bar of pages.
        group: The group of the bar that it is in.
        icon: A Material symbol.
        draw: Draws it: a function, or a `ResultPage`.
        order: Its place in the group.
        on_phone: Whether it is in the bar of a phone.
        is_typed: Whether a text of one's own is typed there: it then opens with a model that has
            read English, others with the one that has built-in results.
        selection: What of the selection (text, at, mark, layer, head) its address has.
        has_tabs: Whether analyses add tabs to it.

    Example:
        >>> from workbench.core.analysis import Page
        >>> page = Page("fertility", "Fertility", "Measure", "content_cut", "views:FERTILITY")
        >>> page.title
        'Fertility'
    """

    name: str
    title: str
    group: str = ""
    icon: str = ""
    draw: Home = ""
    order: int = 100
    on_phone: bool = False
    is_typed: bool = False
    selection: tuple[str, ...] = ()
    has_tabs: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if not re.fullmatch(r"[A-Za-z0-9_-]+", self.name):  # else the app does not start
            raise WorkbenchError(
                f"the name of a page is letters, digits, '-' and '_', not {self.name!r:.40}.",
                code="wrong-type",
                where=f"Page {self.title!r:.40}",
                remedy="Give it such a name: its address has it.",
            )


@dataclass(frozen=True)
class Tab:
    """A tab that an analysis adds to the page of another one.

    Args:
        page: The name of a page that `has_tabs`, such as `predict`.
        title: Of the tab.
        draw: Draws it, given a list of the sides of the page: one, or two that are compared, each
            with its `model`, its `doc` and the `place` that is predicted.
        order: Its place.
        experiments: Experiments that do the same over a corpus, with the words of their links.
    """

    page: str
    title: str
    draw: Home
    order: int = 100
    experiments: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class GoesOn:
    """An experiment that goes on from the model that another one left.

    Args:
        after: The experiment that left the model.
        experiment: What is run on it.
        label: Of the button.
        icon: A Material symbol.
    """

    after: str
    experiment: str
    label: str
    icon: str

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Card:
    """A card on the page Home, with the figure of a built-in result; it opens the page.

    Args:
        title: Of the card.
        about: What the page shows.
        result: The name of the built-in result (default: no picture).
        figure: The name of the figure.
        order: Its place.
    """

    title: str
    about: str
    result: str = ""
    figure: str = ""
    order: int = 100

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Recipe:
    """A question on the page Questions: what it asks for, what is run, and what the answer is.

    The page asks for one or two models and a corpus, and draws the settings that the page of the
    experiment has in view. Paths of functions are within the package of the analysis.

    Args:
        name: In the address.
        question: As a person asks it.
        about: What comes out, in a sentence.
        experiment: What is run.
        models: The number of models that it needs.
        is_apart: Whether each model gets a run of its own; else one run has them all.
        is_trained: Whether the model of the top bar is the second one, trained from the other.
        example: References of models, then of a corpus, that have what the question needs.
        settings: Settings of the experiment other than the defaults.
        asks: Draws further choices, given the models and the address; returns what the
            address then says, None after an error.
        answer: Findings in the order of the question, given the runs and the choices (default:
            those of the run; of several runs, what differs).
        figure: Draws the figure of the answer, given the same (default: the main figure of each
            run).
        page: The page that shows more of the choices ("": none).
        order: Its place.

    Example:
        >>> from workbench.core.analysis import Recipe
        >>> recipe = Recipe("long", "Which words are long?", "A list of words.", "fertility")
        >>> recipe.models
        1
    """

    name: str
    question: str
    about: str
    experiment: str
    models: int = 1
    is_apart: bool = False
    is_trained: bool = False
    example: tuple[str, ...] = ("mini:bert", "primer")
    settings: Mapping[str, Any] = field(default_factory=dict)
    asks: Home = ""
    answer: Home = ""
    figure: Home = ""
    page: str = ""
    order: int = 100

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Analysis:
    """What an analysis announces.

    Args:
        package: Its package, `__name__` where it is declared.
        needs: The packages of other analyses without which it does not work.
        experiments: Its experiments by name.
        functions: Its functions that `import workbench` has, by name: the module that has this
            name, or "module:attribute".
        commands: Its commands of the command line, by name: functions that typer calls, whose
            parameters with their annotations are the arguments and options.
        results: By experiment, the `ResultPage` that shows its results.
        page: Its page of the app.
        pages: Further pages of the app.
        tabs: What it adds to pages of others.
        goes_on: Experiments of its own that go on from a model that a run left.
        ahead: Functions of a model and a corpus, by name, that compute what its page shows first;
            called when the app starts.
        modules: Further modules that its page needs, imported when the app starts.
        bare: Modules that also run where only torch, transformers and safetensors are.
        first_look: The `Look` that it adds to the page Home.
        cards: Its cards on the page Home.
        recipes: Its questions on the page Questions.

    Example:
        >>> analysis = wb.Analysis("fertility", experiments={"fertility": "experiment:EXPERIMENT"})
        >>> analysis.home("experiment:EXPERIMENT")
        'fertility.experiment:EXPERIMENT'
    """

    package: str
    needs: tuple[str, ...] = ()
    experiments: Mapping[str, Home] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, Home] = field(default_factory=dict)
    results: Mapping[str, Home] = field(default_factory=dict)
    page: Page | None = None
    pages: tuple[Page, ...] = ()
    tabs: tuple[Tab, ...] = ()
    goes_on: tuple[GoesOn, ...] = ()
    ahead: tuple[Home, ...] = ()
    modules: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()
    first_look: Home = ""
    cards: tuple[Card, ...] = ()
    recipes: tuple[Recipe, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        for what in ("experiments", "functions", "commands", "results"):
            for name, home in getattr(self, what).items():
                if not (isinstance(name, str) and isinstance(home, str)):
                    raise WorkbenchError(
                        f"{what} has a {type(home).__name__} for {name!r:.40}, where both must be "
                        "strings.",
                        code="wrong-type",
                        where="wb.Analysis",
                        remedy='Write name: "module:attribute", the module within the package.',
                    )

    def home(self, home: Home) -> str:
        """Return "module:attribute" with the full name of the module; ":attribute" is its own."""
        return f"{self.package}{home}" if home.startswith(":") else f"{self.package}.{home}"

    def imported(self, home: Home) -> Any:
        """Return the object at a home, imported."""
        return imported(self.home(home), f"{home} of {self.package}")


def analyses() -> Mapping[str, Analysis]:
    """Return what is announced, by package; the built-in analyses first."""
    return _found(tuple(sys.path))[0]


def pages() -> list[tuple[Analysis, Page]]:
    """Return the pages that are announced, each with its analysis."""
    return [(each, page) for each in analyses().values() for page in _pages(each)]


def _pages(analysis: Analysis) -> tuple[Page, ...]:
    return analysis.pages if analysis.page is None else (analysis.page, *analysis.pages)


def faults() -> tuple[WorkbenchError, ...]:
    """Return why installed packages that should announce an analysis do not."""
    return _found(tuple(sys.path))[1]


@cache
def _found(path: tuple[str, ...]) -> tuple[Mapping[str, Analysis], tuple[WorkbenchError, ...]]:
    """Look once for each path: a forked process may have another one than its parent."""
    found: dict[str, Analysis] = {}
    wrong = []
    for package in dict.fromkeys(_packages()):
        try:
            found[package] = _declared(package, found)
        except WorkbenchError as error:  # kept without the frames of who first looked
            wrong.append(
                WorkbenchError(error.what, code=error.code, where=error.where, remedy=error.remedy)
            )
    strange = tuple(_strange(found.values()))
    for each in strange:
        found.pop(each.where, None)
    return found, (*wrong, *strange)


def forget() -> None:
    """Look for packages again: some were installed or removed while this process runs."""
    _found.cache_clear()


def _packages() -> Iterator[str]:
    folder = Path(__file__).parents[1] / "analyses"
    for module in sorted(pkgutil.iter_modules([str(folder)]), key=lambda module: module.name):
        if module.ispkg:
            yield f"{INSIDE}.{module.name}"
    for point in entry_points(group=GROUP):
        yield point.value.partition(":")[0].strip()  # `point.module` may raise


def _declared(package: str, others: Mapping[str, Analysis]) -> Analysis:
    try:
        found = import_module(package).ANALYSIS
    except Exception as error:  # code of others may raise anything
        raise WorkbenchError(
            f"the analysis {package} cannot be imported: {what_is_wrong(error)}",
            code="import-failed",
            where=package,
            remedy=f"Install what is missing, fix {line_of(error) or package}, or uninstall the "
            f"package that names it in the entry points of {GROUP}.",
        ) from error
    if not isinstance(found, Analysis):
        raise WorkbenchError(
            f"ANALYSIS of {package} is a {type(found).__name__}, not a wb.Analysis.",
            code="plugin-invalid",
            where=package,
            remedy="Fix the package that provides it.",
        )
    taken = {other.package: _names(other) for other in others.values()}
    taken["workbench"] = _ours()
    for owner, names in taken.items():
        for what, name in sorted(_names(found) & names):
            raise WorkbenchError(
                f"the {what} {name!r} of {package} is there already, in {owner}.",
                code="name-conflict",
                where=package,
                remedy=f"Give the {what} another name in its ANALYSIS, or uninstall one of them.",
            )
    return found


def _ours() -> set[tuple[str, str]]:
    """What Workbench itself has by a name that no analysis may have."""
    functions = vars(sys.modules["workbench"])["_HOMES"]
    return {
        (what, name) for what, names in {**OURS, "function": functions}.items() for name in names
    }


def _strange(known: Collection[Analysis]) -> Iterator[WorkbenchError]:
    """Errors for what packages name and nobody announces, and for pages that nothing draws."""
    experiments = {name for each in known for name in each.experiments}
    with_tabs = {page.name for each in known for page in _pages(each) if page.has_tabs}
    there_are = {*OURS["page"], *(page.name for each in known for page in _pages(each))}
    for analysis in known:
        own = not is_built_in(analysis.package)  # others draw a file, and may lack a deleted page
        for page in _pages(analysis):
            if own and not page.draw:
                yield WorkbenchError(
                    f"{analysis.package} does not say what draws its page {page.name!r:.40}.",
                    code="plugin-invalid",
                    where=analysis.package,
                    remedy='Give the Page draw="module:attribute": a ResultPage or a function.',
                )
        goes_on = (name for each in analysis.goes_on for name in (each.after, each.experiment))
        asked = (each.experiment for each in analysis.recipes)
        named = {
            "experiment": (experiments, [*analysis.results, *asked, *goes_on]),
            "page with tabs": (with_tabs, [each.page for each in analysis.tabs]),
            "page": (there_are, [each.page for each in analysis.recipes if own and each.page]),
        }
        for what, (there, names) in named.items():
            for name in names:
                if name not in there:
                    yield WorkbenchError(
                        f"{analysis.package} names the {what} {name!r:.40}, which is not there.",
                        code="plugin-invalid",
                        where=analysis.package,
                        remedy=did_you_mean(name, there),
                    )


def _names(analysis: Analysis) -> set[tuple[str, str]]:
    """What an analysis announces by a name that no other analysis may have."""
    named = {
        "experiment": analysis.experiments,
        "function": analysis.functions,
        "command": analysis.commands,
        "page of results": analysis.results,
        "page": [page.name for page in _pages(analysis)],
        "question": [recipe.name for recipe in analysis.recipes],
    }
    return {(what, name) for what, names in named.items() for name in names}


def announced(what: str) -> dict[str, str]:
    """Return a mapping that every analysis announces, joined: full homes by name."""
    return {
        name: analysis.home(home)
        for analysis in analyses().values()
        for name, home in getattr(analysis, what).items()
    }


def is_built_in(home: str) -> bool:
    """Whether a home is of an analysis that comes with Workbench."""
    return home.startswith(f"{INSIDE}.")


def recipes() -> dict[str, tuple[Analysis, Recipe]]:
    """Return the questions in their order by name, each with the analysis that announces it."""
    found = [(each, recipe) for each in analyses().values() for recipe in each.recipes]
    return {pair[1].name: pair for pair in sorted(found, key=lambda pair: pair[1].order)}


def page_of(experiment: str) -> str | None:
    """Return the name of the page that shows results of an experiment, if it has one."""
    for analysis in analyses().values():
        if experiment in analysis.results and analysis.page is not None:
            return analysis.page.name
    return None


def tabs_of(page: str) -> list[tuple[Analysis, Tab]]:
    """Return the tabs of a page in their order, each with the analysis that adds it."""
    found = [(each, tab) for each in analyses().values() for tab in each.tabs if tab.page == page]
    return sorted(found, key=lambda pair: pair[1].order)
