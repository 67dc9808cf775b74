"""A form made from an experiment's settings: a widget for each, with its type, bounds and help.

A setting that is no number, choice or switch is typed as on the command line and parsed by the same
function. Values are kept for the session. Costs: nothing.
"""

import math
import re
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import streamlit as st
from pydantic.fields import FieldInfo

from workbench.app import glossary
from workbench.app.text import plain
from workbench.experiment.definition import Experiment

COLUMNS = 2
_MARKS = re.compile(r"([\\`*_\[\]$:<>~#])")  # only these: screen readers read a label unrendered
LARGEST = 2**53 - 1  # the largest integer that a browser represents exactly
UNSET = "not set"
DEFAULT = "default"  # label of a choice that is an empty string


def settings(
    experiment: Experiment[Any], initial: Mapping[str, Any] | None = None, key: str = ""
) -> dict[str, Any]:
    """Draw the form; return the settings that differ from their defaults, ready for a request.

    `initial` are the settings to start with, such as those of a preset, and `key` its name: what is
    typed is kept for each.
    """
    fields = experiment.settings.model_fields
    own = experiment.settings.__annotations__  # shown before those shared with other experiments
    names = sorted(fields, key=lambda name: (name != "max_sentences", name not in own))
    values: dict[str, Any] = {}
    _grid(experiment, names, initial or {}, values, key)
    return {name: value for name, value in values.items() if not _is_default(fields[name], value)}


def defaults(experiment: Experiment[Any]) -> dict[str, Any]:
    """The default of each setting."""
    fields = experiment.settings.model_fields.items()
    return {name: _json(field.get_default(call_default_factory=True)) for name, field in fields}


def sentence_of(description: str) -> str:
    """The label of a setting: its description up to the first full stop or its default.

    Example: `Maximum number of sentences (default: all).` is `Maximum number of sentences`.
    """
    first = re.split(r"\s\(default|[.;]\s|[.]$|:\s", description, maxsplit=1)[0]
    return first.strip().rstrip(".")


def non_default(experiment: Experiment[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run that differ from today's defaults, or do not exist today."""
    standard = defaults(experiment)
    return {name: value for name, value in values.items() if standard.get(name) != value}


def _grid(
    experiment: Experiment[Any],
    names: list[str],
    initial: Mapping[str, Any],
    values: dict[str, Any],
    key: str,
) -> None:
    for start in range(0, len(names), COLUMNS):
        row = names[start : start + COLUMNS]
        for column, name in zip(st.columns(COLUMNS), row, strict=False):
            with column:
                values[name] = _field(experiment, name, initial, key)


def _field(experiment: Experiment[Any], name: str, initial: Mapping[str, Any], preset: str) -> Any:
    field = experiment.settings.model_fields[name]
    key = f"set {experiment.name} {name}{f' {preset}' if preset else ''}"
    start = _json(initial.get(name, field.get_default(call_default_factory=True)))
    label = _MARKS.sub(r"\\\1", sentence_of(field.description or "") or name.replace("_", " "))
    about = f"`{name}`: {plain(field.description or '')}"
    if explained := glossary.terms().get(name.replace("_", " ")):
        about += f"\n\n{plain(explained)}"
    kind, optional, choices = _kind(field.annotation, field)
    if kind is bool:
        return st.checkbox(label, bool(start), key, about, wrap=True, persist_state="session")
    if kind is Literal:
        options = [None, *choices] if optional else choices
        return st.selectbox(
            label,
            options,
            options.index(start) if start in options else 0,
            _choice,
            key,
            about,
            persist_state="session",
        )
    if kind is list:
        selected = [choice for choice in start or () if choice in choices]
        return st.multiselect(label, choices, selected, str, key, about, persist_state="session")
    if kind in (int, float):
        return _number(kind, field, label, about, key, start, optional)
    return st.text_input(
        label,
        typed(start),
        key=key,
        help=about,
        placeholder=UNSET if optional else "",
        persist_state="session",
    )


def _number(
    kind: type, field: FieldInfo, label: str, about: str, key: str, start: Any, optional: bool
) -> Any:
    lower, upper = _bound(field, "ge", "gt"), _bound(field, "le", "lt")
    value: Any = start
    if kind is int:
        lowest: Any = max(-LARGEST, -LARGEST if lower is None else math.ceil(lower))
        highest: Any = min(LARGEST, LARGEST if upper is None else math.floor(upper))
        step: Any = 1
        value = None if start is None else min(max(int(start), lowest), highest)
    else:
        lowest = None if lower is None else float(lower)
        highest = None if upper is None else float(upper)
        step = 10.0 ** (math.floor(math.log10(abs(start) if start else 1.0)) - 1)
        value = None if start is None else float(start)
    return st.number_input(
        label,
        lowest,
        highest,
        value,
        step,
        "%d" if kind is int else "%g",
        key,
        about,
        placeholder=UNSET if optional else None,
        persist_state="session",
    )


def _kind(annotation: Any, field: FieldInfo | None = None) -> tuple[Any, bool, list[Any]]:
    """The kind of a setting (a type, Literal, list or str); if None is allowed; its choices."""
    if field is not None and any(type(one).__name__ == "BeforeValidator" for one in field.metadata):
        return str, _is_optional(annotation), []
    if get_origin(annotation) in (Union, UnionType):
        parts = [part for part in get_args(annotation) if part is not NoneType]
        if len(parts) != 1:
            return str, _is_optional(annotation), []
        kind, _, choices = _kind(parts[0])
        return kind, _is_optional(annotation), choices
    origin = get_origin(annotation)
    if origin is Annotated:
        return str, False, []  # has its own parser
    if origin is Literal:
        return Literal, False, list(get_args(annotation))
    if origin in (list, tuple, set, frozenset):
        inner = [part for part in get_args(annotation) if part is not Ellipsis]
        if len(inner) == 1 and get_origin(inner[0]) is Literal:
            return list, False, list(get_args(inner[0]))
        return str, False, []
    return (annotation if annotation in (bool, int, float) else str), False, []


def _is_optional(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType) and NoneType in get_args(annotation)


def _bound(field: FieldInfo, *names: str) -> float | None:
    """A bound that pydantic checks; an open bound is checked when the request is made."""
    bounds = (getattr(one, name, None) for one in field.metadata for name in names)
    return next((bound for bound in bounds if isinstance(bound, int | float)), None)


def _is_default(field: FieldInfo, value: Any) -> bool:
    default = field.get_default(call_default_factory=True)
    kind, _, _ = _kind(field.annotation, field)
    return bool(value == (typed(default) if kind is str else _json(default)))


def _json(value: Any) -> Any:
    """A default value in the form of a run's spec."""
    return (
        sorted(value, key=str)
        if isinstance(value, set | frozenset)
        else (list(value) if isinstance(value, tuple) else value)
    )


def typed(value: Any) -> str:
    """A value as the user would type it."""
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _choice(value: Any) -> str:
    return UNSET if value is None else str(value) or DEFAULT
