"""What an experiment is: settings, a function from inputs to tables, and what it needs.

    DESCRIBE = Experiment(
        name="describe", settings=Describe, run="workbench.basics.describe:run", tables={...}, ...
    )

From this one object follow the command's options, the form in the app, the spec on disk and the
report. `run` computes tables and draws nothing; `figures` are pure functions of the tables, so that
a report can be rebuilt without model or corpus. Costs nothing: experiments are imported when they
are asked for, and their code when it is run.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.public import check_fields
from workbench.core.registry import Code, Placed, Registry, imported

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import plotly.graph_objects as go
    from numpy.typing import NDArray
    from spacy.tokens import Doc

    from workbench.corpora.corpus import Corpus
    from workbench.engine.model import Model

    Tables = Mapping[str, pd.DataFrame]
    Draw = Callable[[Tables], go.Figure]

HELD_OUT = ("test", "dev")  # the splits to score a model on, the best first
TRAIN = ("train",)  # and to train one on
HEAD = ("stack", "kind", "layer", "head")  # the columns that say which head a row is of
FEW = 30  # sentences, below which drawing them again tells little


T = TypeVar("T")


class Settings(BaseModel):
    """What can be set of an experiment; each field has a help text, bounds and a default.

    From this class follow the options of `workbench run`, the form in the app and the spec on disk.
    What can be chosen several of is kept once, however often it was named.

    Example:
        >>> from pydantic import Field
        >>> class Fertility(wb.Settings):
        ...     min_count: int = Field(10, ge=1, description="Minimum number of words.")
        >>> Fertility().min_count
        10
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    # Settings renamed in this class: the name now, and the first name it had. First names are
    # still accepted, and runs are found under them: fingerprints hash first names.
    former_names: ClassVar[Mapping[str, str]] = {"max_sentences": "limit"}

    max_sentences: int | None = Field(
        None, ge=1, description="Maximum number of sentences (default: all)."
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
        message = first["msg"].removeprefix("Value error, ")
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
        field = cls.model_fields.get(str(first["loc"][0]))
        about = field.description if field and field.description else "see its description."
        return WorkbenchError(
            f"{name} is {first['input']!r:.60}: {message}.",
            code="setting-invalid",
            where=cls.__name__,
            remedy=f"{name}: {about}",
        )

    @classmethod
    def renamed(cls) -> dict[str, str]:
        """The settings that had another name: the name now, and the first name."""
        found: dict[str, str] = {}
        for parent in reversed(cls.__mro__):
            found |= vars(parent).get("former_names", {})
        return {now: first for now, first in found.items() if now in cls.model_fields}

    @classmethod
    def with_current_names(cls, values: Mapping[str, T]) -> dict[str, T]:
        """The values under the current names of settings; a setting given twice is an error."""
        current = {first: now for now, first in cls.renamed().items()}
        found: dict[str, T] = {}
        for name, value in values.items():
            now = current.get(name, name)
            if now in found:
                raise WorkbenchError(
                    f"{now} is set twice; {current.get(now, name)} is its former name.",
                    code="setting-repeated",
                    remedy=f"Set {now} only.",
                )
            found[now] = value
        return found

    @model_validator(mode="before")
    @classmethod
    def _accept_first_names(cls, values: Any) -> Any:
        return cls.with_current_names(values) if isinstance(values, Mapping) else values

    @field_validator("*")
    @classmethod
    def _once(cls, value: object) -> object:
        return tuple(dict.fromkeys(value)) if isinstance(value, tuple) else value


S = TypeVar("S", bound=Settings)


class Progress(Protocol):
    """How a run reports what it is doing: `progress(done, total, "sentences")`.

    Example:
        >>> def run(inputs: wb.Inputs, settings: wb.Settings, progress: wb.Progress) -> wb.Result:
        ...     progress(0, 1, "sentences")
        ...     return wb.Result({})
    """

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
        """So much is done, of so much; called as often as one likes."""
        ...

    def log(self, text: str) -> None:
        """A line for the log."""
        ...

    def warn(self, text: str) -> None:
        """A line the user should see."""
        ...


class Answer(Protocol):
    """What an experiment that was asked on the way has left."""

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
class Asked:
    """A question to another experiment; models and corpora as objects, or by reference."""

    experiment: str
    models: "Sequence[Model | str]" = ()
    corpora: "Sequence[Corpus | str]" = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    split: str | None = None
    seed: int = 0


# Has questions answered, at the same time where there is room; told how many are done.
Ask = Callable[[Sequence[Asked], Callable[[int], object]], Sequence[Answer]]


@dataclass(frozen=True)
class Inputs:
    """What an experiment looks at, opened and ready.

    Args:
        models: The models, in the order in which they were named.
        corpora: The corpora.
        split: The split to look at (default: all).
        seed: Seed of everything that is drawn.
        device: Where the models are.
        precision: Of the models' weights.
        limit: Maximum number of sentences (default: all).
        scratch: Folder for checkpoints, kept while a run is unfinished.
        keep: Folder in which a run that trains a model leaves it.
        folders: The folders that the models were read from.
        asking: How other experiments are asked (default: there is no place for their runs).

    Example:
        >>> inputs = wb.Inputs(corpora=(wb.read("primer"),), split="test", limit=2)
        >>> [len(doc) for doc in inputs.docs()]
        [6, 11]
    """

    models: tuple["Model", ...] = ()
    corpora: tuple["Corpus", ...] = ()
    split: str | None = None  # None: all of them
    seed: int = 0
    device: str = "cpu"
    precision: str = "fp32"
    limit: int | None = None
    scratch: Path | None = None  # kept while a run is unfinished: checkpoints go there
    keep: Path | None = None  # where a run that trains a model leaves it
    folders: tuple[Path | None, ...] = ()  # that the models were read from
    asking: Ask | None = None  # None: where there is no place for runs

    def __post_init__(self) -> None:
        for what in ("models", "corpora"):
            if not isinstance(given := getattr(self, what), tuple | list):
                raise WorkbenchError(
                    f"{what} must be a tuple, not a {type(given).__name__}.",
                    code="wrong-type",
                    where="wb.Inputs",
                    remedy=f"Write {what}=(…,), with a comma after a single one.",
                )

    @property
    def model(self) -> "Model":
        """The first model; the one there is, mostly."""
        return self._first("model", self.models)

    @property
    def corpus(self) -> "Corpus":
        """The first corpus; the one there is, mostly."""
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
        """The first corpus' Docs of the split, as many as the limit lets through."""
        return self.corpus.docs(self.split, self.limit)

    def ask(
        self,
        experiment: str,
        models: "Sequence[Model | str]" = (),
        corpora: "Sequence[Corpus | str]" = (),
        settings: Mapping[str, Any] | None = None,
        split: str | None = None,
        seed: int | None = None,
    ) -> Answer:
        """Another experiment's answer, from disk where it was asked before.

        Each is a run of its own, so there must be a place for runs.
        """
        own = self.seed if seed is None else seed
        question = Asked(experiment, models, corpora, settings or {}, split, own)
        return self.ask_all([question])[0]

    def ask_all(
        self, questions: Sequence[Asked], told: Callable[[int], object] = lambda done: None
    ) -> Sequence[Answer]:
        """Several answers, in the order of the questions; at the same time where there is room."""
        if self.asking is None:
            raise WorkbenchError(
                "other experiments are to be asked, and there is no place for their runs.",
                remedy="Call wb.run, or workbench run.",
            )
        return self.asking(questions, told)


@dataclass(frozen=True)
class Caveat:
    """Something to know when reading the tables or figures named in `beside`; none: all.

    Example:
        >>> wb.Caveat("Rare parts of speech are left out.", ("pieces",)).beside
        ('pieces',)
    """

    text: str
    beside: tuple[str, ...] = ()


def few_sentences(number: int) -> tuple[str, ...]:
    """What to know of intervals over so many sentences; nothing, where they are enough."""
    if number >= FEW:
        return ()
    counted = "1 sentence is" if number == 1 else f"{number} sentences are"
    return (
        f"Only {counted} scored: intervals and p-values of fewer than {FEW} are too sure of "
        "themselves.",
    )


@dataclass(frozen=True)
class Table:
    """What a table holds; its `keys` say of what a row speaks, and align it with another run's.

    Args:
        about: One sentence.
        keys: Columns that tell the rows apart.
        labels: Columns of numbers whose differences say nothing: which head, which offset.

    Example:
        >>> wb.Table("Pieces a word, by part of speech.", ("tag",)).keys
        ('tag',)
    """

    about: str
    keys: tuple[str, ...]
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Result:
    """What a run leaves: tables, arrays too large for a table, and what to know about them.

    Args:
        tables: Data frames by name, each declared in the experiment's `tables`.
        arrays: NumPy arrays by name.
        caveats: What to know when reading them.

    Example:
        >>> import pandas as pd
        >>> list(wb.Result({"words": pd.DataFrame({"word": ["dog"], "count": [1]})}).tables)
        ['words']
    """

    tables: "Mapping[str, pd.DataFrame]"
    arrays: "Mapping[str, NDArray[np.generic]]" = field(default_factory=dict)
    caveats: tuple[Caveat, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Need:
    """Something a model must have, told from its facts (`workbench.models.references.facts`)."""

    what: str
    met: Callable[[Mapping[str, Any]], bool]
    remedy: str


HEADS = Need(
    "attention heads",
    lambda facts: facts["sites"] > 0,
    "Choose a model with attention, such as BERT.",
)


@dataclass(frozen=True, kw_only=True)
class Experiment(Generic[S]):
    """An analysis: settings, and a function from models and corpora to tables.

    `run` and `fits` are functions, or "module:function", which is imported when first called. Call
    `experiment.run(inputs, settings, progress)` to try it. `wb.run`, the command line and the app
    know an experiment of yours once an installed package names it in the entry point group
    `workbench.experiments`, as `NAME = "module:EXPERIMENT"`.

    Args:
        name: As in `workbench run NAME`.
        about: One sentence.
        settings: A subclass of `Settings`.
        run: Computes a `Result` from `Inputs`, settings and `Progress`.
        tables: What each table holds.
        version: Goes up when the same inputs would give other tables.
        models: How many models it looks at: at least, at most (None: any number).
        corpora: How many corpora.
        needs: What each model must have.
        layers: What each corpus must have, or a function of the settings.
        fits: Raises where a corpus cannot serve.
        split: Which split is looked at unless one is named: `all`, `held-out` or `train`.
        trains: Whether it leaves a model in `Inputs.keep`.
        exact_up_to: Models of at most so many parameters are computed in fp32 on every device,
            unless the user chooses: in bf16, small differences of weights, states or maps are
            rounding.
        figures: Pure functions of the tables, by name, or "module:MAPPING".

    Example:
        >>> import pandas as pd
        >>> def lengths(inputs, settings, progress):
        ...     rows = [(n, len(doc)) for n, doc in enumerate(inputs.docs())]
        ...     return wb.Result({"lengths": pd.DataFrame(rows, columns=["sentence", "words"])})
        >>> experiment = wb.Experiment(
        ...     name="lengths",
        ...     about="Counts the words of each sentence.",
        ...     settings=wb.Settings,
        ...     run=lengths,
        ...     tables={"lengths": wb.Table("Words of each sentence.", ("sentence",))},
        ... )
        >>> class Quiet(wb.Progress): ...
        >>> inputs = wb.Inputs(corpora=(wb.read("primer"),), split="test", limit=2)
        >>> experiment.run(inputs, wb.Settings(), Quiet()).tables["lengths"]["words"].tolist()
        [6, 11]
    """

    name: str
    about: str
    settings: type[S]
    run: Code[Callable[[Inputs, S, Progress], Result]] = Code()  # noqa: RUF009 (a descriptor)
    tables: Mapping[str, Table]
    version: int = 1
    models: tuple[int, int | None] = (1, 1)  # how many, at least and at most
    corpora: tuple[int, int | None] = (1, 1)
    needs: tuple[Need, ...] = ()  # what each model must have
    layers: tuple[str, ...] | Callable[[S], Iterable[str]] = ()  # what each corpus must have
    # raises where a corpus cannot serve
    fits: "Code[Callable[[Corpus, S], None] | None]" = Code(None)  # noqa: RUF009
    split: Literal["all", "held-out", "train"] = "all"  # unless the user names one
    trains: bool = False  # leaves a model in `Inputs.keep`, and so a device is asked for
    # models of at most so many parameters are asked in fp32 on every device, unless the user says
    # otherwise: in bf16, small differences between weights, states or maps are rounding
    exact_up_to: float = 0
    figures: "str | Mapping[str, Draw]" = field(default_factory=dict)  # or where they are

    def __post_init__(self) -> None:
        check_fields(self, skip=("run", "fits", "settings", "split"))
        wrong = [
            f"settings is {self.settings!r:.40}, not a subclass of wb.Settings"
            for kind in [self.settings]
            if not (isinstance(kind, type) and issubclass(kind, Settings))
        ]
        wrong += [
            f"split is {self.split!r:.40}, not all, held-out or train"
            for split in [self.split]
            if split not in ("all", "held-out", "train")
        ]
        wrong += [
            f"table {name!r} is a {type(table).__name__}, not a wb.Table"
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

    def __repr__(self) -> str:
        """Its name, its question and its settings."""
        settings = ", ".join(self.settings.model_fields)
        return f"<Experiment {self.name}: {self.about} Settings: {settings}>"

    def layers_for(self, settings: S) -> tuple[str, ...]:
        """The layers a corpus must have under these settings."""
        return tuple(self.layers(settings) if callable(self.layers) else self.layers)

    def import_code(self) -> Callable[[Inputs, S, Progress], Result]:
        """The function that `run` is or names, imported.

        A worker does so before it seeds: imports may draw from the global random generators.
        """
        return self.run.function if isinstance(self.run, Placed) else self.run

    def drawings(self) -> "Mapping[str, Draw]":
        """The figures, imported where only their home was told."""
        if isinstance(self.figures, str):
            found: Mapping[str, Draw] = imported(self.figures, f"the figures of {self.name}")
            return found
        return self.figures

    def split_of(self, corpus: "Corpus", asked: str | None) -> str | None:
        """The split that is looked at; None for the whole corpus."""
        if asked is not None:
            corpus.docs(asked, 0)  # raises where there is none of that name
            return asked
        wanted = {"all": (), "held-out": HELD_OUT, "train": TRAIN}[self.split]
        return next((split for split in wanted if split in corpus.splits), None)


def require_number(experiment: Experiment[Any], models: int, corpora: int) -> None:
    """As many models and corpora as the experiment looks at, or an error that says how many."""
    for what, number, (least, most) in (
        ("model", models, experiment.models),
        ("corpus", corpora, experiment.corpora),
    ):
        if number < least or (most is not None and number > most):
            wanted = _counted(what, least, most)
            raise WorkbenchError(
                f"{experiment.name} looks at {wanted}; {number or 'none'} "
                f"{'was' if number < 2 else 'were'} named.",
                remedy=f"Name {'it' if most == 1 else 'them'} with --{what} REF."
                if most != 0
                else f"Leave --{what} out.",
            )


def _counted(what: str, least: int, most: int | None) -> str:
    many = {"corpus": "corpora"}.get(what, f"{what}s")
    if most == 0:
        return f"no {what}"
    if least == most:
        return f"one {what}" if least == 1 else f"{least} {many}"
    return f"{least} or more {many}" if most is None else f"{least} to {most} {many}"


def misfits(
    experiment: Experiment[Any],
    settings: Settings,
    models: Iterable[Mapping[str, Any]] = (),
    corpora: "Iterable[Corpus]" = (),
) -> list[WorkbenchError]:
    """Why these models (by their facts) and corpora cannot be looked at; empty where they can."""
    found = []
    for facts in models:
        for need in experiment.needs:
            if not need.met(facts):
                what = f"{experiment.name} needs {need.what}, which {facts['name']} does not have."
                found.append(WorkbenchError(what, where=facts["family"], remedy=need.remedy))
    for corpus in corpora:
        try:
            corpus.require(experiment.layers_for(settings), experiment.name)
            if experiment.fits is not None:
                experiment.fits(corpus, settings)
        except WorkbenchError as error:
            found.append(error)
    return found


EXPERIMENTS: Registry[Experiment[Any]] = Registry(
    "experiment",
    "workbench.experiments",
    {
        "attention-averages": "workbench.attention_maps.experiments:EXPERIMENT",
        "attention-probe": "probes.experiments:ATTENTION_PROBE",
        "describe": "workbench.basics.experiments:DESCRIBE",
        "description-length": "probes.experiments:DESCRIPTION_LENGTH",
        "drift": "workbench.transfer.experiments:DRIFT",
        "edge-probing": "probes.experiments:EDGE_PROBING",
        "finetune": "workbench.transfer.experiments:FINETUNE",
        "frozen-vs-finetuned": "workbench.transfer.experiments:FROZEN_VS_FINETUNED",
        "head-ablation": "workbench.pruning.experiments:HEAD_ABLATION",
        "head-gates": "workbench.pruning.experiments:HEAD_GATES",
        "head-importance": "workbench.pruning.experiments:HEAD_IMPORTANCE",
        "head-pruning": "workbench.pruning.experiments:HEAD_PRUNING",
        "heads": "workbench.heads.experiments:EXPERIMENT",
        "minimal-pairs": "workbench.basics.experiments:MINIMAL_PAIRS",
        "pretraining": "workbench.transfer.experiments:PRETRAINING",
        "profile": "workbench.basics.experiments:PROFILE",
        "similarity": "workbench.transfer.experiments:SIMILARITY",
        "structural-probe": "probes.experiments:STRUCTURAL_PROBE",
        "train": "workbench.training.experiments:EXPERIMENT",
        "trigram": "workbench.basics.experiments:TRIGRAM",
    },
    Experiment,
)
