"""The spaCy pipelines that turn raw text into words, sentences and whatever else they predict.

Nothing is ever downloaded here. Loading a pipeline takes a second or so and the memory of its
model; a blank one, which only knows rules, 0.1 s.
"""

import re
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from unicodedata import category

import spacy
from spacy.language import Language
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc
from spacy.util import get_installed_models

from workbench.corpora.vocabulary import vocabulary
from workbench.errors import WorkbenchError

READ_WITH = "Read with the spaCy pipeline {}."  # which predicted whatever else than text there is
_BATCH = 32  # texts a pipeline holds at once
LONGEST = 300  # characters without a space that spaCy tokenizes at once: it takes time by n²
PART = 60  # characters of a longer piece that are tokenized at once, where it can be cut
_TOO_LONG = re.compile(rf"\S{{{LONGEST + 1},}}")
_UNCUT = re.compile(r"[^\W_]+|[\W_]")
_JOINING = ("Mn", "Me", "Mc", "Cf", "Sk")  # categories of what belongs to the character before


def blank(language: str) -> Language:
    """A language's tokenizer and nothing else, for texts of any length."""
    vocabulary(language)  # which knows the languages there are
    try:
        nlp = spacy.blank(language)
    except ImportError as error:
        raise WorkbenchError(
            f"the tokenizer for {language!r} needs a package: {_first_line(error)}",
            remedy="See https://spacy.io/usage/models#languages for what to install.",
        ) from None
    nlp.max_length = sys.maxsize
    return _bounded(nlp)


def load_pipeline(name: str | None, language: str) -> tuple[Language, tuple[str, ...]]:
    """The named pipeline, else an installed one of that language, else rules; with notes."""
    if name is not None:
        nlp, notes = _load(name)
        return nlp, (READ_WITH.format(name), *notes)
    installed = sorted(m for m in get_installed_models() if m.split("_")[0] == language)
    if installed:
        nlp, notes = _load(installed[0])
        return nlp, (READ_WITH.format(installed[0]), *notes)
    nlp = blank(language)
    nlp.add_pipe("sentencizer")
    how = (
        "run: python -m spacy download en_core_web_sm"
        if language == "en"
        else "install one of those listed at https://spacy.io/models"
    )
    note = (
        f"No spaCy pipeline for {language!r} is installed, so words and sentences come from rules, "
        "and there are no tags, lemmas, trees or entities. "
        f"For those {how} (or name a folder that holds a pipeline with pipeline= or --pipeline)."
    )
    return nlp, (note,)


def tokenizer(name: str | None, language: str) -> Language:
    """What tables need: the named pipeline, else words alone."""
    return blank(language) if name is None else _load(name)[0]


def _load(name: str) -> tuple[Language, tuple[str, ...]]:
    if (Path(name) / "meta.json").exists():
        for path in Path(name).rglob("*"):
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise WorkbenchError(
                    "this is a pipe, socket or device, not a file.",
                    where=str(path),
                    remedy="Put the pipeline's own files into the folder, and nothing else.",
                )
    try:
        nlp = spacy.load(name)
    except Exception as error:  # whatever a package or folder that is no pipeline leads to
        installed = ", ".join(sorted(get_installed_models())) or "none"
        raise WorkbenchError(
            f"the spaCy pipeline {name!r} cannot be loaded: {_first_line(error)}",
            remedy=f"To install it run: python -m spacy download {name}\n"
            f"  Or name a folder that holds a pipeline. Installed: {installed}.",
        ) from None
    _bounded(nlp).batch_size = _BATCH
    if any("token.is_sent_start" in nlp.get_pipe_meta(pipe).assigns for pipe in nlp.pipe_names):
        return nlp, ()
    nlp.add_pipe("sentencizer", first=True)
    return nlp, (f"The pipeline {name} finds no sentences; they end at full stops and their like.",)


def _bounded(nlp: Language) -> Language:
    """The same pipeline with a tokenizer whose time grows with the length of a text, not faster."""
    if isinstance(nlp.tokenizer, Tokenizer):
        nlp.tokenizer = partial(_tokenized, nlp.tokenizer)
    return nlp


def _tokenized(inner: Callable[[str], Doc], text: str) -> Doc:
    """spaCy's own words, but where more than LONGEST characters come without a space.

    Its tokenizer takes a sign off such a piece at a time and looks at all that is left: 8,000 "("
    take 10 s. Such pieces are tokenized part by part.
    """
    if not _TOO_LONG.search(text):
        return inner(text)
    starts = [0]
    for piece in _TOO_LONG.finditer(text):
        starts += _cuts(text, piece.start(), piece.end())
    parts = [inner(text[start:end]) for start, end in pairwise([*starts, len(text)])]
    whole = Doc.from_docs(parts, ensure_whitespace=False)
    assert isinstance(whole, Doc)
    return whole


def _cuts(text: str, start: int, end: int) -> list[int]:
    """Where parts begin: never inside a word, nor between a sign and marks that belong to it."""
    found, begun = [], start
    for unit in _UNCUT.finditer(text, start, end):
        at = unit.start()
        joins = category(text[at]) in _JOINING or text[at - 1] == "\u200d"
        if unit.end() - begun > PART and at > begun and not (joins and at - begun < 4 * PART):
            found.append(at)
            begun = at
    return found


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__
