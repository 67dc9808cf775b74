"""The definition of an experiment: settings, a function from inputs to tables, and requirements.

    DESCRIBE = Experiment(
        name="describe", settings=Describe, tables={...},
        run="workbench.analyses.basics.describe:run", ...
    )

The options of the command, the form in the app, the spec on disk and the report are derived from
this object. `run` computes tables and draws nothing; `findings` and `figures` are pure functions of
the tables, so a report can be rebuilt without the model or the corpus. Costs: nothing until an
experiment is used; its code is imported when it runs.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from workbench.core.analysis import announced, faults, is_built_in
from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.findings import Finding, Tables, check_findings, plural
from workbench.core.objectives import facts_for, name_of
from workbench.core.public import check_fields
from workbench.core.registry import Code, Placed, Registry, imported
from workbench.experiment.growth import Growth

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import plotly.graph_objects as go
    from numpy.typing import NDArray
    from spacy.tokens import Doc

    from workbench.corpora.corpus import Corpus
    from workbench.engine.model import Model

    Draw = Callable[[Tables], go.Figure]

HELD_OUT = ("test", "dev")  # the splits to score a model on, the preferred one first
TRAIN = ("train",)  # the splits to train a model on
HEAD = ("stack", "kind", "layer", "head")  # the columns that identify the head of a row
QUICK, STANDARD, FULL = PRESETS = ("Quick", "Standard", "Full")
QUICK_SENTENCES = 200  # of the preset Quick, unless an experiment declares others
ARGUMENTS = (  # of `wb.run`: a setting of such a name could not be given
    "experiment", "model", "corpus", "split", "seed", "device", "precision", "wait", "progress",
)  # fmt: skip


# In the place of pydantic's own messages, by the type of the mistake.
PLAIN_MESSAGES = {
    "int_parsing": "this is not a whole number",
    "int_type": "this is not a whole number",
    "int_from_float": "this is not a whole number",
    "float_parsing": "this is not a number",
    "float_type": "this is not a number",
    "bool_parsing": "this is neither true nor false",
    "bool_type": "this is neither true nor false",
}

T = TypeVar("T")


class Settings(BaseModel):
    """The settings of an experiment; each field has a help text, bounds and a default.

    The options of `workbench run`, the form in the app and the spec on disk are derived from this
    class. Duplicates in a setting with several values are removed.

    Example:
        >>> from pydantic import Field
        >>> class Fertility(wb.Settings):
        ...     min_count: int = Field(10, ge=1, description="Minimum number of words.")
        >>> Fertility().min_count
        10
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    max_sentences: int | None = Field(
        None, ge=1, description="Maximum number of sentences of the split (default: all)."
    )

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise self._invalid(error) from None

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """List the settings in the docstring, so that `help` shows them."""
        fields = cls.model_fields.items()
        lines = [f"    {name}: {field.description or ''}".rstrip() for name, field in fields]
        about = (cls.__doc__ or "").partition("\n\nArgs:")[0].rstrip()
        cls.__doc__ = "\n".join([about, "", "Args:", *lines, ""])

    @classmethod
    def _invalid(cls, error: ValidationError) -> WorkbenchError:
        """The first mistake in some values."""
        first = error.errors()[0]
        message = PLAIN_MESSAGES.get(first["type"], first["msg"].removeprefix("Value error, "))
        message = f"{message[0].lower()}{message[1:]}"
        if not first["loc"]:  # of several settings together
            return WorkbenchError(
                f"{message}.",
                code="setting-invalid",
                where=cls.__name__,
                remedy="Change one of these settings.",
            )
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            return WorkbenchError(
                f"there is no setting {name!r}.",
                code="setting-unknown",
                where=cls.__name__,
                remedy=did_you_mean(name, cls.model_fields),
            )
        if first["type"] == "missing":
            return WorkbenchError(
                f"{name} has no default, and no value is given.",
                code="setting-invalid",
                where=cls.__name__,
                remedy=f"Give a value, or {cls.__name__} a default: {name}: … = Field(VALUE, …).",
            )
        field = cls.model_fields.get(str(first["loc"][0]))
        about = field.description if field and field.description else "write another value."
        return WorkbenchError(
            f"{name} is {first['input']!r:.60}: {message}.",
            code="setting-invalid",
            where=cls.__name__,
            remedy=f"{name}: {about}",
        )

    def in_seconds(self) -> float | None:
        """Return how long a run may take by these settings; None if they do not say it."""
        return None

    def in_prose(self) -> str:
        """Return the method with these settings in a few sentences, for reports ("": none).

        Example:
            >>> wb.experiments()["edge-probing"].settings().in_prose().split(" on ")[0]
            'We trained edge probes'
        """
        return ""

    @field_validator("*")
    @classmethod
    def _once(cls, value: object) -> object:
        return tuple(dict.fromkeys(value)) if isinstance(value, tuple) else value


S = TypeVar("S", bound=Settings)


class Progress(Protocol):
    """The progress callback of a run: `progress(done, total, "measuring attention")`.

    Example:
        >>> from workbench.experiment import Inputs, Progress
        >>> def run(inputs: Inputs, settings: wb.Settings, progress: Progress) -> wb.Result:
        ...     progress(0, 1, "reading the corpus")
        ...     return wb.Result({})
    """

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
        """Report that `done` of `total` items are done; may be called very often.

        `doing` names the stage ("training probes"); details that change come after a colon
        ("training probes: tags, layer 3"). Without a `total` only the name is shown.
        """
        ...

    def log(self, text: str) -> None:
        """Write a line to the log."""
        ...

    def warn(self, text: str) -> None:
        """Show the user a warning."""
        ...


class SubrunResult(Protocol):
    """The result of another experiment that a run used."""

    @property
    def name(self) -> str: ...

    @property
    def tables(self) -> "Tables": ...

    @property
    def arrays(self) -> "Mapping[str, NDArray[np.generic]]": ...

    @property
    def caveats(self) -> "tuple[Caveat, ...]": ...

    @property
    def model(self) -> Path | None:
        """The folder of the model that it trained."""
        ...


@dataclass(frozen=True)
class SubrunRequest:
    """A request to another experiment; models and corpora are objects or references."""

    experiment: str
    models: "Sequence[Model | str]" = ()
    corpora: "Sequence[Corpus | str]" = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    split: str | None = None
    seed: int = 0


# Runs the requests, in parallel where possible; the callback gets the number of finished runs. The
# last argument is how many such runs the experiment requests later; None: it is not known.
RunSubruns = Callable[
    [Sequence[SubrunRequest], Callable[[int], object], int | None], Sequence[SubrunResult]
]


@dataclass(frozen=True)
class Inputs:
    """The inputs of an experiment: open models and corpora, and how to compute.

    Args:
        models: The models, in the order of the request.
        corpora: The corpora.
        split: The split to use (default: all).
        seed: Seed of all random numbers.
        device: The device of the models.
        precision: The precision of the models' weights.
        limit: Maximum number of sentences (default: all).
        scratch: Folder for checkpoints; deleted when the run is finished.
        keep: Folder in which a run saves the model that it trains.
        folders: The folders that the models were read from.
        run_subruns: Runs other experiments (default: none can be run).

    Example:
        >>> from workbench.experiment import Inputs
        >>> inputs = Inputs(corpora=(wb.read("primer"),), split="test", limit=2)
        >>> [len(doc) for doc in inputs.docs()]
        [6, 11]
    """

    models: tuple["Model", ...] = ()
    corpora: tuple["Corpus", ...] = ()
    split: str | None = None  # None: all splits
    seed: int = 0
    device: str = "cpu"
    precision: str = "fp32"
    limit: int | None = None
    scratch: Path | None = None  # for checkpoints; deleted when the run is finished
    keep: Path | None = None  # for the model that a run trains
    folders: tuple[Path | None, ...] = ()  # that the models were read from
    run_subruns: RunSubruns | None = None  # None: other experiments cannot be run

    def __post_init__(self) -> None:
        for what in ("models", "corpora"):
            if not isinstance(given := getattr(self, what), tuple | list):
                raise WorkbenchError(
                    f"{what} must be a tuple, not a {type(given).__name__}.",
                    code="wrong-type",
                    where="Inputs",
                    remedy=f"Write {what}=(…,), with a comma after a single one.",
                )

    @property
    def model(self) -> "Model":
        """Return the first model, which is often the only one."""
        return self._first("model", self.models)

    @property
    def corpus(self) -> "Corpus":
        """Return the first corpus, which is often the only one."""
        return self._first("corpus", self.corpora)

    def _first(self, what: str, given: "tuple[T, ...]") -> T:
        if not given:
            raise WorkbenchError(
                f"the experiment has no {what}.",
                code=f"{what}-missing",
                remedy=f"Name one with {what}=..., or in Inputs.",
            )
        return given[0]

    def docs(self) -> Iterator["Doc"]:
        """Return the Docs of the first corpus and the split, at most `limit`."""
        return self.corpus.docs(self.split, self.limit)

    def run_experiment(
        self,
        experiment: str,
        models: "Sequence[Model | str]" = (),
        corpora: "Sequence[Corpus | str]" = (),
        settings: Mapping[str, Any] | None = None,
        split: str | None = None,
        seed: int | None = None,
    ) -> SubrunResult:
        """Run another experiment, and return its result; from disk if it was computed before.

        The other experiment is a run of its own, with a folder on disk.
        """
        seed = self.seed if seed is None else seed
        request = SubrunRequest(experiment, models, corpora, settings or {}, split, seed)
        return self.run_experiments([request], later=None)[0]

    def run_experiments(
        self,
        requests: Sequence[SubrunRequest],
        on_progress: Callable[[int], object] = lambda done: None,
        later: int | None = 0,
    ) -> Sequence[SubrunResult]:
        """Run several experiments, in parallel where possible; results in the order of requests.

        `later` is how many runs like these are requested afterwards, for the time that the whole
        run has left; None: what follows takes another time.
        """
        if self.run_subruns is None:
            raise WorkbenchError(
                "this experiment runs other experiments, and there is no folder for their runs.",
                code="runs-unavailable",
                remedy="Start it with wb.run or workbench run.",
            )
        return self.run_subruns(requests, on_progress, later)


@dataclass(frozen=True)
class Caveat:
    """A caveat for the tables and figures named in `applies_to` (default: all).

    Example:
        >>> from workbench.experiment import Caveat
        >>> Caveat("Rare parts of speech are left out.", ("pieces",)).applies_to
        ('pieces',)
    """

    text: str
    applies_to: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)


def unread_caveat(n_words: int) -> tuple[Caveat, ...]:
    """A caveat that counts the words beyond a model's maximum length; none if all were read."""
    if not n_words:
        return ()
    were = "was" if n_words == 1 else "were"
    words = plural(n_words, "word")
    return (Caveat(f"{words} beyond the model's maximum length {were} not read."),)


@dataclass(frozen=True)
class Table:
    """The description of a table; its `keys` identify a row, and align it with another run's row.

    Args:
        about: What a row is, and what its columns are.
        keys: Columns that identify a row.
        labels: Columns of numbers without meaningful differences, such as the index of a head.

    Example:
        >>> from workbench.experiment import Table
        >>> Table("Pieces per word, by part of speech.", ("tag",)).keys
        ('tag',)
    """

    about: str
    keys: tuple[str, ...]
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Result:
    """The result of a run: tables, arrays too large for a table, and caveats.

    Args:
        tables: Data frames by name, each declared in the experiment's `tables`.
        arrays: NumPy arrays by name.
        caveats: Caveats of the tables and figures.

    Example:
        >>> import pandas as pd
        >>> list(wb.Result({"words": pd.DataFrame({"word": ["dog"], "count": [1]})}).tables)
        ['words']
    """

    tables: "Mapping[str, pd.DataFrame]"
    arrays: "Mapping[str, NDArray[np.generic]]" = field(default_factory=dict)
    caveats: Sequence[Caveat] = ()

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Need:
    """A requirement of a model, checked on its facts (`workbench.models.references.facts`)."""

    what: str
    met: Callable[[Mapping[str, Any]], bool]
    remedy: str
    code: str = "model-unsupported"  # of the error


PREDICTS = Need(
    "a language-model head or a task head",
    lambda facts: facts["predicts"] is not None,
    "Choose a model saved with a language-model head, such as bert-base-uncased or gpt2, a text "
    "classifier, or a run of finetune.",
)


def predicts_any_but(*kinds: str) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a model predicts anything, by its facts, but labels of these kinds."""
    return lambda facts: PREDICTS.met(facts) and facts["task"] not in kinds


LM_HEAD = Need(
    "a language-model head",
    lambda facts: bool(facts["objective"]),
    "Choose a model saved with a language-model head, such as bert-base-uncased or gpt2.",
)
HEADS = Need(
    "attention heads",
    lambda facts: facts["sites"] > 0,
    "Choose a model with attention, such as BERT.",
    "no-attention",
)
UNADDED = Need(
    "a model without added modules (adapters, a prefix or a prompt)",
    lambda facts: not facts["added"],
    "Choose the model without them, or one fine-tuned by another method.",
)


@dataclass(frozen=True)
class Demo:
    """A run of an experiment on what is built in, of some seconds.

    Args:
        title: What it shows.
        models: References of its models.
        corpora: References of its corpora.
        settings: Settings other than their defaults.
        order: Its place among the others.
    """

    title: str
    models: tuple[str, ...] = ()
    corpora: tuple[str, ...] = ("primer",)
    settings: Mapping[str, Any] = field(default_factory=dict)
    order: int = 100

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Experiment(Generic[S]):
    """An analysis: settings, and a function from models and corpora to tables.

    `run`, `fits` and `suits` are functions, or "module:function", which is imported when first
    called. Call `experiment.run(inputs, settings, progress)` to try an experiment. To use your own
    experiment with `wb.run`, the command line and the app, announce it in a `wb.Analysis` of an
    installed package.

    Args:
        name: As in `workbench run NAME`.
        about: One sentence.
        settings: A subclass of `Settings`.
        run: Computes a `Result` from `Inputs`, settings and `Progress`.
        tables: The description of each table.
        version: Increased when the same inputs would give other tables.
        models: Minimum and maximum number of models (None: no maximum).
        corpora: Minimum and maximum number of corpora.
        needs: Requirements of each model, or a function of the settings.
        layers: The layers each corpus must have, or a function of the settings.
        fits: Raises an error if a corpus cannot be used.
        suits: Raises an error if a model, by its facts, cannot be used on a corpus.
        split: The default split: `all`, `held-out` or `train`.
        trains: Whether it saves a model in `Inputs.keep`.
        measures: Whether it measures what the model predicts, so that an objective can be chosen.
        exact_up_to: Models with at most this many parameters are computed in fp32 on every device
            by default: in bf16, small differences of weights, states or maps are rounding errors.
        figures: Pure functions of the tables, by name, or "module:MAPPING".
        findings: A pure function of the tables that returns three to seven `Finding`s, the first
            one first, or "module:function".
        presets: Settings by the name of a preset, the fastest first (default: Quick with 200
            sentences, Standard with the defaults, Full with all sentences; if the sample grows,
            each effort).
        growth: What of its sample grows until its findings are decided (default: nothing); its
            settings are then a subclass of `GrowingSettings`.
        papers: The papers whose methods it uses, keys of `workbench/report/papers.bib`, or a
            function of the settings.
        title: The beginning of the title of a result; the names of its models and corpora follow
            (default: its name, and "of").
        demo: Its stop in `workbench demo --all` (default: none).
        question: The question that it answers, in the app (default: the beginning of `about`).
        subject: The heading under which the app lists it.

    Example:
        >>> import pandas as pd
        >>> from workbench.experiment import Inputs, Progress, Table
        >>> def lengths(inputs, settings, progress):
        ...     rows = [(n, len(doc)) for n, doc in enumerate(inputs.docs())]
        ...     return wb.Result({"lengths": pd.DataFrame(rows, columns=["sentence", "words"])})
        >>> experiment = wb.Experiment(
        ...     name="lengths",
        ...     about="Counts the words of each sentence.",
        ...     settings=wb.Settings,
        ...     run=lengths,
        ...     tables={"lengths": Table("Words of each sentence.", ("sentence",))},
        ... )
        >>> class Quiet(Progress): ...
        >>> inputs = Inputs(corpora=(wb.read("primer"),), split="test", limit=2)
        >>> experiment.run(inputs, wb.Settings(), Quiet()).tables["lengths"]["words"].tolist()
        [6, 11]
    """

    name: str
    about: str
    settings: type[S]
    run: Code[Callable[[Inputs, S, Progress], Result]] = Code()  # noqa: RUF009 (a descriptor)
    tables: Mapping[str, Table]
    version: int = 1
    models: tuple[int, int | None] = (1, 1)  # minimum and maximum number
    corpora: tuple[int, int | None] = (1, 1)
    needs: tuple[Need, ...] | Callable[[S], Iterable[Need]] = ()
    layers: tuple[str, ...] | Callable[[S], Iterable[str]] = ()
    fits: "Code[Callable[[Corpus, S], None] | None]" = Code(None)  # noqa: RUF009
    suits: "Code[Callable[[Mapping[str, Any], Corpus, S], None] | None]" = Code(None)  # noqa: RUF009
    split: Literal["all", "held-out", "train"] = "all"
    trains: bool = False  # it then needs a device even without a model
    measures: bool = False  # what the model predicts: its objective can be chosen
    exact_up_to: float = 0
    figures: "str | Mapping[str, Draw]" = field(default_factory=dict)
    findings: "Code[Callable[[Tables], Iterable[Finding]] | None]" = Code(None)  # noqa: RUF009
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    growth: Growth | None = None
    papers: tuple[str, ...] | Callable[[S], Iterable[str]] = ()
    title: str = ""
    demo: Demo | None = None
    question: str = ""
    subject: str = "More"

    def __post_init__(self) -> None:
        check_fields(self, skip=("run", "fits", "suits", "findings", "settings", "split"))
        wrong = []
        if not (isinstance(self.settings, type) and issubclass(self.settings, Settings)):
            wrong.append(f"settings is {self.settings!r:.40}, not a subclass of wb.Settings")
        elif not any(each.is_required() for each in self.settings.model_fields.values()):
            try:
                self.settings()
            except WorkbenchError as error:
                wrong.append(f"with its defaults, {error.what.removesuffix('.')}")
            else:
                wrong += self._wrong_presets()
            wrong += [
                f"a setting is named {name!r}, which is an argument of wb.run"
                for name in self.settings.model_fields
                if name in ARGUMENTS
            ]
        if self.split not in ("all", "held-out", "train"):
            wrong.append(f"split is {self.split!r:.40}, not all, held-out or train")
        wrong += [
            f"table {name!r} is a {type(table).__name__}, not a Table"
            for name, table in self.tables.items()
            if not isinstance(table, Table)
        ]
        run = vars(self)["run"]
        if not callable(run) or (isinstance(run, Placed) and ":" not in run.home):
            wrong.append("run is neither a function nor 'module:function'")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", self.name):
            wrong.append("a name is letters, digits, '-', '_' and '.'")
        if wrong:
            raise WorkbenchError(
                f"{wrong[0]}.",
                code="wrong-type",
                where=f"wb.Experiment {self.name!r:.40}",
                remedy="help(wb.Experiment) describes each argument.",
            )

    def _wrong_presets(self) -> Iterator[str]:
        for name, changes in self.presets.items():
            try:
                self.settings(**changes)
            except WorkbenchError as error:
                yield f"with the preset {name!r:.40}, {error.what.removesuffix('.')}"

    def __repr__(self) -> str:
        """Its name, its question and its settings."""
        settings = ", ".join(self.settings.model_fields)
        return f"<Experiment {self.name}: {self.about} Settings: {settings}>"

    def layers_for(self, settings: S) -> tuple[str, ...]:
        """Return the layers that a corpus must have with these settings."""
        return tuple(self.layers(settings) if callable(self.layers) else self.layers)

    def needs_for(self, settings: S) -> tuple[Need, ...]:
        """Return what each model must have with these settings."""
        return tuple(self.needs(settings) if callable(self.needs) else self.needs)

    def settings_of_presets(self) -> dict[str, dict[str, Any]]:
        """Return what each preset changes of the defaults, the fastest first.

        Two presets that change the same would be one choice under two names; the first is left.
        """
        presets = {name: dict(changes) for name, changes in self.presets.items()}
        if self.growth is not None:
            presets |= {QUICK: {"effort": "quick"}, STANDARD: {}, FULL: {"effort": "full"}}
        elif not presets and "max_sentences" in self.settings.model_fields:
            default = self.settings.model_fields["max_sentences"].default
            quick = min(default or QUICK_SENTENCES, QUICK_SENTENCES)
            presets = {QUICK: {"max_sentences": quick}, STANDARD: {}, FULL: {"max_sentences": None}}
        defaults = {name: each.default for name, each in self.settings.model_fields.items()}
        found: dict[str, dict[str, Any]] = {}
        for name, changes in (presets or {STANDARD: {}}).items():
            differing = {key: value for key, value in changes.items() if defaults[key] != value}
            if differing not in found.values():
                found[name] = differing
        return found

    def papers_for(self, settings: S) -> tuple[str, ...]:
        """Return the papers whose methods are used with these settings."""
        return tuple(self.papers(settings) if callable(self.papers) else self.papers)

    def import_code(self) -> Callable[[Inputs, S, Progress], Result]:
        """Import and return the function that `run` is or names.

        A worker does so before it sets the seed: imports may use the global random generators.
        """
        return self.run.function if isinstance(self.run, Placed) else self.run

    def drawings(self) -> "Mapping[str, Draw]":
        """Return the functions that draw the figures, imported where they are given by name."""
        if isinstance(self.figures, str):
            figures: Mapping[str, Draw] = imported(self.figures, f"the figures of {self.name}")
            return figures
        return self.figures

    def findings_of(self, tables: "Tables") -> tuple[Finding, ...]:
        """Return what these tables of a run show; nothing if the experiment states no findings."""
        if self.findings is None:
            return ()
        try:
            figures: Mapping[str, Draw] | None = self.drawings()
        except WorkbenchError:  # said where they are drawn
            figures = None
        return check_findings(self.findings(tables), tables, figures)

    @property
    def default_splits(self) -> tuple[str, ...]:
        """The first of these that a corpus has is its default split; else all of it is used."""
        return {"all": (), "held-out": HELD_OUT, "train": TRAIN}[self.split]

    def split_of(self, corpus: "Corpus", split: str | None) -> str | None:
        """Return the split to use: the given one, or the default; None for the whole corpus."""
        if split is not None:
            corpus.docs(split, 0)  # raises if there is no such split
            return split
        return next((name for name in self.default_splits if name in corpus.splits), None)


PLURALS = {"model": "models", "corpus": "corpora"}


def require_input_counts(experiment: Experiment[Any], n_models: int, n_corpora: int) -> None:
    """Raise an error unless the number of models and corpora is one the experiment takes."""
    for what, count, (minimum, maximum) in (
        ("model", n_models, experiment.models),
        ("corpus", n_corpora, experiment.corpora),
    ):
        if count < minimum or (maximum is not None and count > maximum):
            raise WorkbenchError(
                f"{experiment.name} takes {counted(what, minimum, maximum)}; {count or 'none'} "
                f"{'was' if count < 2 else 'were'} given.",
                code=f"{what}-count",
                remedy=_count_remedy(what, count, maximum),
            )


def _count_remedy(what: str, count: int, maximum: int | None) -> str:
    if maximum == 0:
        return f"Remove --{what}."
    if maximum == 1:
        texts = "; several texts are wb.read([TEXT, …])" if what == "corpus" and count > 1 else ""
        return f"Name it with --{what} REF, in Python {what}=REF{texts}."
    return (
        f"Name them with --{what} REF, in Python {what}=[REF, …], or in the app under More "
        f"{PLURALS[what]}."
    )


def counted(what: str, minimum: int, maximum: int | None) -> str:
    """Return a number of inputs in words, as in `2 models`."""
    several = PLURALS[what]
    if maximum == 0:
        return f"no {what}"
    if minimum == maximum:
        return f"one {what}" if minimum == 1 else f"{minimum} {several}"
    if maximum is None:
        return f"{minimum} or more {several}"
    return f"{minimum} to {maximum} {several}"


def unmet_requirements(
    experiment: Experiment[Any],
    settings: Settings,
    models: Sequence[Mapping[str, Any]] = (),
    corpora: "Iterable[Corpus]" = (),
) -> list[WorkbenchError]:
    """Return why these models (by their facts) and corpora cannot be used; empty if they can."""
    errors: list[WorkbenchError] = []
    for facts in models:
        errors.extend(
            _unmet(experiment.name, need, facts)
            for need in experiment.needs_for(settings)
            if not need.met(facts)
        )
    for corpus in corpora:
        try:
            corpus.require(experiment.layers_for(settings), experiment.name)
            if experiment.fits is not None:
                experiment.fits(corpus, settings)
            if experiment.suits is not None and not errors:
                for facts in models:
                    experiment.suits(facts, corpus, settings)
        except WorkbenchError as error:
            errors.append(error)
    return errors


def _unmet(experiment: str, need: Need, facts: Mapping[str, Any]) -> WorkbenchError:
    """What a model lacks; if another of its objectives meets the need, that is the remedy."""
    others = (facts_for(facts, objective) for objective in facts.get("objectives", ())[1:])
    other = next(filter(need.met, others), None)
    if other is None:
        what, remedy = f"which {facts['name']} does not have.", need.remedy
    else:
        what = f"and {facts['name']} was made for {facts['predicts']['name']}."
        remedy = (
            f"Add --objective {name_of(other['predicts'])} (in the app: Objective) to measure it "
            f"on {other['predicts']['name']}. {need.remedy}"
        )
    return WorkbenchError(
        f"{experiment} needs {need.what}, {what}",
        code=need.code,
        where=facts["family"],
        remedy=remedy,
    )


EXPERIMENTS: Registry[Experiment[Any]] = Registry(
    "experiment", lambda: announced("experiments"), Experiment, faults
)


def built_in_experiments() -> list[str]:
    """Return the names of the experiments that come with Workbench."""
    return [name for name, home in EXPERIMENTS.homes.items() if is_built_in(home)]
