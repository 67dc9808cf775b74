"""What can be asked of a corpus' layers: each task's spans, its metric, and labels left out.

The eight of Tenney et al. 2019 are known by name, also where a file calls them as others do
(`srl-ewt` holds roles); any other layer of labelled edges is a task of its own. Costs nothing.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from workbench.errors import WorkbenchError, did_you_mean


def _none(label: str) -> bool:
    return False


@dataclass(frozen=True)
class Task:
    """A layer to be predicted from spans."""

    name: str
    layer: str  # what the corpus calls it
    about: str = ""
    positive: str = ""  # the one label whose F1 is the score; all where it is ""
    left_out: Callable[[str], bool] = _none  # labels that are learnt but not scored

    @property
    def metric(self) -> str:
        return "positive_f1" if self.positive else "micro_f1"


@dataclass(frozen=True)
class _Known:
    about: str
    called: tuple[str, ...] = ()  # what files call it
    positive: str = ""
    left_out: Callable[[str], bool] = _none


KNOWN: Mapping[str, _Known] = {
    "pos": _Known("the part of speech of a word"),
    "constituents": _Known("the kind of a phrase", ("constituent", "nonterminal", "phrases")),
    "dependencies": _Known("the relation of a word to its head", ("dep", "deps", "ud")),
    "entities": _Known("the type of a named entity", ("ner", "entity")),
    "roles": _Known(
        "the role of an argument of a predicate",
        ("srl", "propbank"),
        left_out=lambda label: label.startswith(("R-", "C-")),
    ),
    "coreference": _Known("whether two mentions are one", ("coref",), positive="1"),
    "proto-roles": _Known("the properties of an argument", ("spr", "spr1", "spr2", "protoroles")),
    "relations": _Known(
        "the relation between two entities",
        ("rel", "semeval", "relation"),
        left_out=lambda label: label.split("(")[0] in ("Other", "no_relation"),
    ),
}  # in the order of the published pipeline
NOT_ASKED = ("tags", "answers", "segments")  # layers that are a task only where they are named
_READABLE = ("pos", "tags", "dependencies", "entities", "constituents", "coreference", "answers")


def tasks_of(
    layers: Iterable[str], asked: Sequence[str] = (), edges: Iterable[str] = (), where: str = ""
) -> tuple[Task, ...]:
    """The tasks of a corpus with these layers, `edges` being those of its own labelled edges.

    All it has, in the order of the pipeline, or those asked for: by a task's name, a layer's, or
    what others call the task.
    """
    present = [*(layer for layer in _READABLE if layer in set(layers)), *sorted(set(edges))]
    named = _named(present)
    if not asked:
        found = [task for task in named if task.layer not in NOT_ASKED]
        if not found:
            raise WorkbenchError(
                "this corpus has no layer to probe for.",
                where=where,
                remedy="Read one with parts of speech, trees, entities or labelled edges: CoNLL-U, "
                "brackets, or edge JSONL.",
            )
        return tuple(found)
    chosen = []
    for name in dict.fromkeys(asked):
        match = next((task for task in named if name in _names(task)), None)
        if match is None:
            known = [task.name for task in named]
            raise WorkbenchError(
                f"there is no task {name!r} in this corpus.",
                where=where,
                remedy=did_you_mean(name, known),
            )
        chosen.append(match)
    return tuple(chosen)


def _named(layers: Sequence[str]) -> list[Task]:
    """A task for each layer; two layers of one kind keep their own names."""
    kinds = {layer: _kind(layer) for layer in layers}
    tasks = []
    for layer, kind in kinds.items():
        known = KNOWN.get(kind, _Known(""))
        alone = list(kinds.values()).count(kind) == 1
        name = kind if kind and alone else layer
        tasks.append(Task(name, layer, known.about, known.positive, known.left_out))
    order = list(KNOWN)
    return sorted(
        tasks, key=lambda t: (order.index(k) if (k := kinds[t.layer]) else len(order), t.name)
    )


def _names(task: Task) -> tuple[str, ...]:
    """What a task may be asked for by."""
    known = KNOWN.get(task.name, _Known(""))
    return (task.name, task.layer, *known.called)


def _kind(layer: str) -> str:
    """The known task a layer's name speaks of, or ""."""
    for part in [layer.lower(), *re.split(r"[^a-z0-9]+", layer.lower())]:
        for name, known in KNOWN.items():
            if part == name or part in known.called:
                return name
    return ""
