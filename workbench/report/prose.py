"""The words of a report: its title, the method in prose with its papers, and the limits.

The method comes from the settings of the experiment, with one sentence on models, corpora and seed
added; an experiment without such words has this sentence only. Costs: the import of the experiment.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any
from unicodedata import normalize

from workbench.core.errors import WorkbenchError, line_of, what_is_wrong
from workbench.core.findings import listing, plural, whole
from workbench.corpora.splits import FEW
from workbench.experiment.definition import EXPERIMENTS, Caveat, Experiment
from workbench.runs.spec import CorpusSpec, ModelSpec, Spec, names_in


def registered(name: str) -> Experiment[Any] | None:
    """Return the experiment if it is installed and can be imported; else None."""
    try:
        return EXPERIMENTS[name]
    except WorkbenchError:
        return None


# --- titles ---------------------------------------------------------------------------------------

NAMES = 4  # maximum number of names in a title


def title_of(spec: Spec) -> str:
    """Return a run's experiment, models and corpora as a title."""
    names = _named([spec])
    others = set(spec.sweep) - {"model", "corpus"}  # those are in the names
    varied = f", with several {'seeds' if others == {'seed'} else 'settings'}" if others else ""
    return f"{_before_names(spec.experiment)} {names}{varied}" if names else spec.experiment


def title_of_names(experiment: str, models: Sequence[str], corpora: Sequence[str]) -> str:
    """Return the same title from the names that a run's status has."""
    names = " on ".join(listing(list(each), NAMES) for each in (models, corpora) if each)
    return f"{_before_names(experiment)} {names}" if names else experiment


def title_of_several(specs: Sequence[Spec]) -> str:
    """Return the title of a report about several runs."""
    kinds = {spec.experiment for spec in specs}
    if len(kinds) == 1 and (names := _named(specs)):
        return f"{_before_names(kinds.pop())} {names}: {plural(len(specs), 'run')} compared"
    models, corpora = names_in(specs)
    counted = ((models, "model", "models"), (corpora, "corpus", "corpora"))
    named = [
        listing(names) if len(names) < NAMES else plural(len(names), one, several)
        for names, one, several in counted
        if names
    ]
    return " of ".join([plural(len(specs), "run"), *([" on ".join(named)] if named else [])])


def _before_names(experiment: str) -> str:
    """The words before the names of the models, or of the corpora if there is no model."""
    kind = registered(experiment)
    return (kind and kind.title) or f"{experiment.replace('-', ' ').capitalize()} of"


def _named(specs: Sequence[Spec]) -> str:
    return " on ".join(listing(names, NAMES) for names in names_in(specs) if names)


# --- method ---------------------------------------------------------------------------------------


def method(experiment: Experiment[Any] | None, settings: Mapping[str, Any]) -> str:
    """Return the method of an experiment with these settings in prose; "" if it has no words."""
    if experiment is None:
        return ""
    try:
        valid = experiment.settings.model_validate(settings)
    except Exception:  # settings of another version
        return ""
    try:
        return str(valid.in_prose())
    except Exception as error:  # any experiment; the report is written, and its author is told
        logging.getLogger("workbench").warning(
            "The method of %s cannot be stated (%s): %s",
            experiment.name,
            line_of(error) or "in_prose",
            what_is_wrong(error),
        )
        return ""


def papers_used(experiment: Experiment[Any] | None, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of the papers whose methods an experiment uses with these settings."""
    if experiment is None:
        return ()
    try:
        return experiment.papers_for(experiment.settings.model_validate(settings))
    except Exception:  # any experiment, or settings of another version
        return ()


def material(
    models: Sequence[tuple[ModelSpec, Mapping[str, Any]]],
    corpora: Sequence[CorpusSpec],
    spec: Spec,
    device: str,
) -> str:
    """Return the models with their facts, the corpora, the seed and the device in one sentence."""
    limit, sweep = spec.settings.get("max_sentences"), spec.sweep
    parts: list[str] = []
    if models:
        precisions = dict.fromkeys(model.precision for model, _ in models)
        named = listing([_model(*each) for each in models], len(models))
        parts.append(f"{named} in {listing(list(precisions))}")
    if corpora:
        split = f"the {spec.split} split of " if spec.split else ""
        names = listing([corpus.name for corpus in corpora], len(corpora))
        at_most = f" (at most {plural(limit, 'sentence')})" if isinstance(limit, int) else ""
        parts.append(f"{split}{names}{at_most}")
    swept = [f"{name} ({listing(values, len(values))})" for name, values in sweep.items()]
    seed = [] if "seed" in sweep else [f"seed {spec.seed}"]
    used = f"We used {listing([*parts, *seed], 9)}, on {_on(device)}."
    varied = f" We varied {listing(swept, len(swept))}, with a run for each combination."
    return used + (varied if swept else "")


def _model(model: ModelSpec, facts: Mapping[str, Any]) -> str:
    size, stacks = facts.get("parameters"), facts.get("stacks")
    about = [str(facts["family"])] if facts.get("family") else []
    about += [f"{whole(size)} parameters"] if isinstance(size, int) else []
    for stack in stacks if isinstance(stacks, list) else ():
        if isinstance(stack, dict) and isinstance(stack.get("layers"), int):
            heads = stack.get("heads")
            of = f" of {plural(heads, 'head')}" if isinstance(heads, int) and heads else ""
            name = f"{stack.get('name')} of " if len(stacks or ()) > 1 else ""
            about.append(f"{name}{plural(stack['layers'], 'layer')}{of}")
    return f"{model.name} ({', '.join(about)})" if about else model.name


def _on(device: str) -> str:
    return {"cpu": "the CPU", "cuda": "a GPU", "mps": "an Apple GPU"}.get(device, device)


# --- limits ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limit:
    """A caveat or warning, and the tables and figures that it concerns (none: all)."""

    text: str
    concerns: tuple[str, ...] = ()


def limits(
    caveats: Sequence[Caveat], warnings: Sequence[str], others: Sequence[str], there: set[str]
) -> tuple[Limit, ...]:
    """Return caveats, warnings and other limits in one list, the most important first."""
    found = [
        Limit(each.text, tuple(name for name in each.applies_to if name in there))
        for each in caveats
    ]
    found += [Limit(text) for text in [*warnings, *others]]
    once = {each.text: each for each in reversed(found)}
    order = {each.text: index for index, each in enumerate(found)}
    return tuple(sorted(once.values(), key=lambda each: (_rank(each.text), order[each.text])))


def _rank(text: str) -> int:
    """Return 0 for missing files, 1 for too few sentences, 2 for others."""
    if "missing from this run" in text:
        return 0
    return 1 if text.startswith("Only ") and f"fewer than {FEW}" in text else 2


# --- papers ---------------------------------------------------------------------------------------

FILE = "papers.bib"
AUTHORS = 4  # maximum number of authors in a reference; of more, the first


@dataclass(frozen=True)
class Paper:
    """A paper of `papers.bib`: its entry, and its fields as text."""

    key: str
    entry: str
    authors: tuple[str, ...]
    year: str
    title: str
    venue: str

    @property
    def short(self) -> str:
        """Return authors and year as they are cited, such as `Hewitt and Liang 2019`."""
        names = [author.partition(",")[0] for author in self.authors]
        if len(names) > 2:
            names = [f"{names[0]} et al."]
        return f"{' and '.join(names)} {self.year}"

    @property
    def text(self) -> str:
        """Return the reference."""
        names = [" ".join(reversed(author.split(", ", 1))) for author in self.authors]
        is_whole = len(names) <= AUTHORS and names[-1] != "others"
        who = listing(names, AUTHORS) if is_whole else f"{names[0]} et al"
        stop = "" if self.title.endswith(("?", "!", ".")) else "."
        venue = f" {self.venue}." if self.venue else ""
        return f"{who}. {self.year}. {self.title}{stop}{venue}"


@cache
def bibliography() -> Mapping[str, Paper]:
    """Return all papers by key."""
    source = files("workbench.report").joinpath(FILE).read_text(encoding="utf-8")
    return {paper.key: paper for paper in map(_paper, re.split(r"\n(?=@)", source.strip()))}


def papers(keys: Sequence[str]) -> tuple[Paper, ...]:
    """Return the papers with these keys, in the order of their authors; others are left out."""
    known = [bibliography()[key] for key in dict.fromkeys(keys) if key in bibliography()]
    return tuple(sorted(known, key=lambda paper: paper.short))


def cited(text: str, among: Sequence[Paper]) -> Iterator[tuple[str, Paper | None]]:
    """Yield the parts of a text: words, and citations of papers such as `Hewitt and Liang 2019`."""
    shorts = [paper.short for paper in among]
    by_name = {paper.short: paper for paper in among if shorts.count(paper.short) == 1}
    if not by_name:
        yield text, None
        return
    names = "|".join(map(re.escape, sorted(by_name, key=len, reverse=True)))
    for index, part in enumerate(re.split(f"({names})", text)):
        if part:
            yield part, by_name[part] if index % 2 else None


def _paper(entry: str) -> Paper:
    key = entry[entry.index("{") + 1 : entry.index(",")]
    fields = dict(re.findall(r"^  (\w+) = \{(.*)\},?$", entry, re.MULTILINE))
    plain = {name: _without_tex(value) for name, value in fields.items()}
    wheres = (plain.get(field) for field in ("booktitle", "journal", "howpublished", "note"))
    venue = next((where for where in wheres if where), "")
    authors = tuple(plain["author"].split(" and "))
    return Paper(key, entry.strip(), authors, plain["year"], plain["title"], venue)


_ACCENT = re.compile(r"\\([\"'`^~u])\{?(\w)\}?")
_MARKS = {'"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", "u": "\u0306"}


def _without_tex(text: str) -> str:
    accented = _ACCENT.sub(lambda found: normalize("NFC", found[2] + _MARKS[found[1]]), text)
    return re.sub(r"[{}]|\\(?=[&%$#_])", "", accented)
