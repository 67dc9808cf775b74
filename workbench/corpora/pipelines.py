"""The spaCy pipelines that turn raw text into words, sentences and whatever else they predict.

Nothing is ever downloaded here. Loading a pipeline takes a second or so and the memory of its
model; a blank one, which only knows rules, 0.1 s.
"""

import sys

import spacy
from spacy.language import Language
from spacy.util import get_installed_models

from workbench.corpora.vocabulary import vocabulary
from workbench.errors import WorkbenchError

READ_WITH = "Read with the spaCy pipeline {}."  # which predicted whatever else than text there is
_BATCH = 32  # texts a pipeline holds at once


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
    return nlp


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
    try:
        nlp = spacy.load(name)
    except Exception as error:  # whatever a package or folder that is no pipeline leads to
        installed = ", ".join(sorted(get_installed_models())) or "none"
        raise WorkbenchError(
            f"the spaCy pipeline {name!r} cannot be loaded: {_first_line(error)}",
            remedy=f"To install it run: python -m spacy download {name}\n"
            f"  Or name a folder that holds a pipeline. Installed: {installed}.",
        ) from None
    nlp.batch_size = _BATCH
    if any("token.is_sent_start" in nlp.get_pipe_meta(pipe).assigns for pipe in nlp.pipe_names):
        return nlp, ()
    nlp.add_pipe("sentencizer", first=True)
    return nlp, (f"The pipeline {name} finds no sentences; they end at full stops and their like.",)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__
