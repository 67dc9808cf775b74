"""A pipeline of one's own for tags, trees and sentences, learnt by spaCy from any treebank.

No pretrained weights and no network: words are hashed, a small convolution over them is shared by
the tags and the trees, and sentences are what the parser finds no arc between. What comes of it is
a folder that spaCy loads and `--pipeline` takes. It learns from raw text as the language's own
tokenizer cuts it, and is scored on raw text too. Costs 7 minutes of one core for the 200,000 words
of English EWT, 2 for primer, and 8 MB of disk; the treebank is held in memory.
"""

import io
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count, cycle, groupby, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import registry

from workbench.core.errors import WorkbenchError
from workbench.core.files import drafted, unwritable, user_path
from workbench.core.splits import DEV, TEST, TRAIN, cut
from workbench.corpora.content_hash import content_hash
from workbench.corpora.corpus import Corpus
from workbench.corpora.docbin import write
from workbench.corpora.layers import layers
from workbench.corpora.text import blank

NEEDED = frozenset({"pos", "dependencies"})
TOGETHER = 10  # sentences of a document in one Doc, at most: one of them alone shows no boundary
STEPS = (200, 2_000)  # at least and at most, where nobody says
WORDS_A_STEP = 120  # of the train part, where nobody says
CHECKS = 10  # of the dev part while it learns
RARE = 30  # uses below which a relation is not told apart; fewer in a small treebank
SCORES = {  # our names, and those of spaCy's scorer, which leaves punctuation out of trees
    "words": "token_f",
    "sentences": "sents_f",
    "upos": "pos_acc",
    "uas": "dep_uas",
    "las": "dep_las",
}
_STEPS_LOGGER = "workbench.steps.v1"

CONFIG = """
[paths]
train = null
dev = null

[system]
seed = 0

[nlp]
lang = "en"
pipeline = ["tok2vec", "morphologizer", "parser"]
batch_size = 64

[components]

[components.tok2vec]
factory = "tok2vec"

[components.tok2vec.model]
@architectures = "spacy.HashEmbedCNN.v2"
pretrained_vectors = null
width = 96
depth = 4
embed_size = 5000
window_size = 1
maxout_pieces = 3
subword_features = true

[components.morphologizer]
factory = "morphologizer"

[components.morphologizer.model]
@architectures = "spacy.Tagger.v2"

[components.morphologizer.model.tok2vec]
@architectures = "spacy.Tok2VecListener.v1"
width = ${components.tok2vec.model.width}

[components.parser]
factory = "parser"
min_action_freq = 30

[components.parser.model]
@architectures = "spacy.TransitionBasedParser.v2"
state_type = "parser"
extra_state_tokens = false
hidden_width = 64
maxout_pieces = 2
use_upper = true

[components.parser.model.tok2vec]
@architectures = "spacy.Tok2VecListener.v1"
width = ${components.tok2vec.model.width}

[corpora]

[corpora.train]
@readers = "spacy.Corpus.v1"
path = ${paths.train}

[corpora.dev]
@readers = "spacy.Corpus.v1"
path = ${paths.dev}

[training]
seed = ${system.seed}
gpu_allocator = null
patience = 0
max_steps = 0
eval_frequency = 0

[training.batcher]
@batchers = "spacy.batch_by_words.v1"
discard_oversize = false
tolerance = 0.2

[training.batcher.size]
@schedules = "compounding.v1"
start = 200
stop = 1000
compound = 1.002

[training.optimizer]
@optimizers = "Adam.v1"

[training.optimizer.learn_rate]
@schedules = "warmup_linear.v1"
initial_rate = 0.008
warmup_steps = 30
total_steps = ${training.max_steps}

[training.logger]
@loggers = "spacy.ConsoleLogger.v1"
"""


def train_parser(
    corpus: Corpus,
    out: str | os.PathLike[str],
    *,
    steps: int | None = None,
    seed: int = 0,
    limit: int | None = None,
    progress: Callable[[int], object] = lambda done: None,
) -> dict[str, Any]:
    """Train on the train part, keep the best step on dev, score on dev and test, write a folder.

    The folder is there whole or not at all. `limit` is of sentences in each part; `progress` is
    told the steps done. What is returned stands in the folder's `meta.json` too, and the settings
    in its `config.cfg`. Python's, numpy's and torch's generators are seeded anew.
    """
    for name, value, least in (("steps", 1 if steps is None else steps, 1), ("seed", seed, 0)):
        if not isinstance(value, int) or not least <= value < 2**32:
            raise WorkbenchError(
                f"{name} is {value!r:.80}.",
                remedy=f"Use a whole number from {least} to {2**32 - 1}.",
            )
    begun = time.monotonic()
    with _appearing(user_path(out)) as draft, TemporaryDirectory(prefix="workbench-") as scratch:
        corpus.require(NEEDED, "training a parser")
        parts, notes = _parts(corpus, seed, limit)
        words = sum(map(len, parts[TRAIN]))
        fewest, most = STEPS
        steps = steps or min(max(words // WORDS_A_STEP, fewest), most)
        paths = {part: Path(scratch) / f"{part}.spacy" for part in parts}
        for part, docs in parts.items():
            write(_together(docs), paths[part])
        language = parts[TRAIN][0].vocab.lang
        settings = {
            "nlp.lang": blank(language).lang,  # which tells what its tokenizer lacks
            "paths.train": str(paths[TRAIN]),
            "paths.dev": str(paths[DEV]),
            "system.seed": seed,
            "components.parser.min_action_freq": min(RARE, 1 + words // 5_000),
            "training.max_steps": steps,
            "training.eval_frequency": max(1, steps // CHECKS),
        }
        curve = _learn(settings, Path(scratch), progress)
        nlp = spacy.load(Path(scratch) / "model-best")
        found = {
            "corpus": corpus.name,
            "corpus_hash": content_hash(corpus),
            "language": language,
            "sentences": {part: len(docs) for part, docs in parts.items()},
            "seed": seed,
            "steps": steps,
            "best_step": max(curve, key=lambda point: (point["score"], point["step"]))["step"],
            "seconds": round(time.monotonic() - begun, 1),
            "scores": {part: _scores(nlp, paths[part]) for part in parts if part != TRAIN},
            "curve": curve,
            "notes": notes,
        }
        _write(nlp, found, draft)
    return found


@contextmanager
def _appearing(out: Path) -> Iterator[Path]:
    """A folder beside `out` that gets its name at the end; what is in its way is told at once."""
    try:
        if os.path.lexists(out) and (out.is_symlink() or not out.is_dir() or any(out.iterdir())):
            raise WorkbenchError(
                "there is something already.",
                where=str(out),
                remedy="Name a new folder, or an empty one.",
            )
        draft = drafted(out.absolute())
        try:
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            yield draft
            draft.rename(out.absolute())
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise unwritable(
            out, error, "Name a new folder in one that is there, where you may write and have room."
        ) from None


# --- parts ----------------------------------------------------------------------------------------


def _parts(
    corpus: Corpus, seed: int, limit: int | None
) -> tuple[dict[str, list[Doc]], tuple[str, ...]]:
    """Sentences to learn from, to choose a step by and, where there are some, to score; notes."""
    parts: dict[str, list[Doc]] = {}
    notes: tuple[str, ...] = ()
    if TRAIN in corpus.splits:
        for part in (TRAIN, DEV, TEST):
            if part in corpus.splits:
                parts[part] = list(_sentences(corpus.docs(part, limit), limit))
    else:
        most = None if limit is None else 3 * limit
        docs = list(_sentences(corpus.docs(limit=most), most))
        parts[TRAIN], parts[TEST] = cut(docs, seed, corpus.name)
        notes = (f"There is no {TRAIN} split: {TRAIN}, {DEV} and {TEST} were drawn from all.",)
    if not parts[TRAIN]:
        raise WorkbenchError(
            f"there is no tree in {TRAIN}.",
            where=corpus.name,
            remedy="Give sentences with tags and trees to learn from.",
        )
    if not parts.get(DEV):
        parts[TRAIN], parts[DEV] = cut(parts[TRAIN], seed + 1, corpus.name)
        notes = notes or (f"There is no {DEV} split: a tenth of {TRAIN} was kept for it.",)
    return {part: parts[part][:limit] for part in (TRAIN, DEV, TEST) if parts.get(part)}, notes


def _sentences(docs: Iterable[Doc], limit: int | None) -> Iterator[Doc]:
    """One Doc a sentence, of those that have what is to be learnt."""
    whole = (doc for doc in docs if layers(doc) >= NEEDED and doc.has_annotation("SENT_START"))
    return islice((sentence for doc in whole for sentence in _divided(doc)), limit)


def _divided(doc: Doc) -> Iterator[Doc]:
    if len(sentences := list(doc.sents)) == 1:
        yield doc
        return
    for span in sentences:
        sentence = span.as_doc()
        sentence._.document = doc._.document
        yield sentence


def _together(docs: Iterable[Doc]) -> Iterator[Doc]:
    """Sentences of a document in Docs of one, two, … and ten, so that boundaries can be learnt."""
    sizes = cycle(range(1, TOGETHER + 1))
    for _, document in groupby(docs, key=lambda doc: doc._.document):
        while some := list(islice(document, next(sizes))):
            yield Doc.from_docs(some, exclude=["user_data", "spans"])  # type: ignore[call-arg]


# --- learning -------------------------------------------------------------------------------------


def _learn(
    settings: dict[str, Any], folder: Path, progress: Callable[[int], object]
) -> list[dict[str, float]]:
    """spaCy's training, with the best pipeline in `folder`; dev's scores at every check."""
    from spacy.training.initialize import init_nlp
    from spacy.training.loop import train
    from thinc.api import Config

    curve: list[dict[str, float]] = []

    def logger(nlp: Language, stdout: io.StringIO, stderr: io.StringIO) -> tuple[Any, Any]:
        step = count()

        def log(checked: dict[str, Any] | None) -> None:
            progress(next(step))
            if checked is not None:
                told = {"step": checked["step"], "score": round(checked["score"], 4)}
                curve.append(told | _renamed(checked["other_scores"]))

        return log, lambda: None

    registry.loggers.register(_STEPS_LOGGER, func=lambda: logger)
    overrides = settings | {"training.logger.@loggers": _STEPS_LOGGER}
    nlp = init_nlp(Config().from_str(CONFIG, overrides=overrides))
    train(nlp, folder, stdout=io.StringIO(), stderr=io.StringIO())
    return curve


def _scores(nlp: Language, path: Path) -> dict[str, float]:
    from spacy.training import Corpus as Examples

    return _renamed(nlp.evaluate(Examples(path)(nlp)))


def _renamed(scores: dict[str, Any]) -> dict[str, float]:
    """What spaCy's scorer found, but for what the gold does not tell."""
    return {
        ours: round(scores[theirs], 4)
        for ours, theirs in SCORES.items()
        if scores.get(theirs) is not None
    }


def _write(nlp: Language, found: dict[str, Any], folder: Path) -> None:
    """The pipeline, with what it was made of; its config without what was there for this once."""
    nlp.config["paths"].update({TRAIN: None, DEV: None})
    nlp.config["training"]["logger"] = {"@loggers": "spacy.ConsoleLogger.v1"}
    nlp.meta["name"] = "parser"
    nlp.meta["description"] = (
        f"Tags, trees and sentences, learnt by Workbench from {found['corpus']}."
    )
    nlp.meta["workbench"] = found
    nlp.to_disk(folder)
