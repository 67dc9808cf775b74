"""A form from an experiment's settings: for each a widget that fits its type, its bounds, its help.

What cannot be a number, a choice or a switch is typed as on the command line, and read by the same
function. What is set is kept for the session. Costs nothing.
"""

import math
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import streamlit as st
from pydantic.fields import FieldInfo

from workbench.app.text import plain
from workbench.core.experiment import Experiment

AT_ONCE = 6  # settings in view; the rest behind a fold
COLUMNS = 3
LARGEST = 2**53 - 1  # the largest whole number that a browser tells from its neighbours
UNSET = "not set"
USUAL = "usual"  # for a choice that is empty text


def settings(kind: Experiment[Any], given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The form; what is set otherwise than by default, ready to be asked.

    `given` are the settings to begin with, such as those of a run that is looked at.
    """
    fields = kind.settings.model_fields
    own = kind.settings.__annotations__  # before what it shares with other questions
    names = sorted(fields, key=lambda name: (name == "max_sentences", name not in own))
    if len(names) > AT_ONCE:
        names = [*names[: AT_ONCE - 1], "max_sentences", *names[AT_ONCE - 1 : -1]]
    found: dict[str, Any] = {}
    _grid(kind, names[:AT_ONCE], given or {}, found)
    if rest := names[AT_ONCE:]:
        changed = any(name in rest for name in chosen(kind, given or {}))
        with st.expander(f"{len(rest)} more settings", expanded=changed):
            _grid(kind, rest, given or {}, found)
    return {name: value for name, value in found.items() if not _is_usual(fields[name], value)}


def chosen(kind: Experiment[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Of a run's settings those that are not as by default, or of which there are none today."""
    fields = kind.settings.model_fields
    usual = {n: _json(own.get_default(call_default_factory=True)) for n, own in fields.items()}
    return {name: value for name, value in given.items() if usual.get(name) != value}


def _grid(
    kind: Experiment[Any], names: list[str], given: Mapping[str, Any], found: dict[str, Any]
) -> None:
    for start in range(0, len(names), COLUMNS):
        for place, name in zip(st.columns(COLUMNS), names[start : start + COLUMNS], strict=False):
            with place:
                found[name] = _field(kind, name, given)


def _field(kind: Experiment[Any], name: str, given: Mapping[str, Any]) -> Any:
    field = kind.settings.model_fields[name]
    key = f"set {kind.name} {name}"
    start = _json(given.get(name, field.get_default(call_default_factory=True)))
    label = plain(name.replace("_", " "))
    about = plain(field.description or "")
    shape, optional, choices = _shape(field.annotation, field)
    if shape is bool:
        return st.checkbox(label, bool(start), key, about, wrap=True, persist_state="session")
    if shape is Literal:
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
    if shape is list:
        chosen = [one for one in start or () if one in choices]
        return st.multiselect(label, choices, chosen, str, key, about, persist_state="session")
    if shape in (int, float):
        return _number(shape, field, label, about, key, start, optional)
    return st.text_input(
        label,
        _typed(start),
        key=key,
        help=about,
        placeholder=UNSET if optional else "",
        persist_state="session",
    )


def _number(
    kind: type, field: FieldInfo, label: str, about: str, key: str, start: Any, optional: bool
) -> Any:
    least, most = _bound(field, "ge", "gt"), _bound(field, "le", "lt")
    begin: Any = start
    if kind is int:
        lowest: Any = max(-LARGEST, -LARGEST if least is None else math.ceil(least))
        highest: Any = min(LARGEST, LARGEST if most is None else math.floor(most))
        step: Any = 1
        begin = None if start is None else min(max(int(start), lowest), highest)
    else:
        lowest = None if least is None else float(least)
        highest = None if most is None else float(most)
        step = 10.0 ** (math.floor(math.log10(abs(start) if start else 1.0)) - 1)
        begin = None if start is None else float(start)
    return st.number_input(
        label,
        lowest,
        highest,
        begin,
        step,
        "%d" if kind is int else "%g",
        key,
        about,
        placeholder=UNSET if optional else None,
        persist_state="session",
    )


def _shape(annotation: Any, field: FieldInfo | None = None) -> tuple[Any, bool, list[Any]]:
    """What a setting is: a type, Literal, list (of choices) or str; whether none; the choices."""
    if field is not None and any(type(one).__name__ == "BeforeValidator" for one in field.metadata):
        return str, _is_optional(annotation), []
    if get_origin(annotation) in (Union, UnionType):
        parts = [part for part in get_args(annotation) if part is not NoneType]
        if len(parts) != 1:
            return str, _is_optional(annotation), []
        shape, _, choices = _shape(parts[0])
        return shape, _is_optional(annotation), choices
    origin = get_origin(annotation)
    if origin is Annotated:
        return str, False, []  # read in a way of its own
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
    """A bound among what pydantic checks; that an open one is not met is said when it is asked."""
    found = (getattr(one, name, None) for one in field.metadata for name in names)
    return next((bound for bound in found if isinstance(bound, int | float)), None)


def _is_usual(field: FieldInfo, value: Any) -> bool:
    usual = field.get_default(call_default_factory=True)
    shape, _, _ = _shape(field.annotation, field)
    return bool(value == (_typed(usual) if shape is str else _json(usual)))


def _json(value: Any) -> Any:
    """A default as it is in a run's spec."""
    return (
        sorted(value, key=str)
        if isinstance(value, set | frozenset)
        else (list(value) if isinstance(value, tuple) else value)
    )


def _typed(value: Any) -> str:
    """A setting as one types it."""
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _choice(value: Any) -> str:
    return UNSET if value is None else str(value) or USUAL
