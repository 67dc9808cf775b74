"""Trains a spaCy pipeline for tags, trees and sentences on any treebank.

It needs no pretrained weights and no network: words are hashed, and tags and trees share a small
convolution over them. Sentences end where the parser predicts no arc. The result is a folder that
spaCy loads and `--pipeline` accepts. Training and evaluation use raw text, tokenized by the
language's own tokenizer. Costs: 7 minutes on one core for the 200,000 words of English EWT, 2 for
primer, and 8 MB of disk; the treebank is kept in memory.
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
from workbench.corpora.content_hash import content_hash
from workbench.corpora.corpus import Corpus
from workbench.corpora.layers import layers
from workbench.corpora.readers.docbin import write
from workbench.corpora.readers.text import blank
from workbench.corpora.splits import DEV, TEST, TRAIN, cut

NEEDED = frozenset({"pos", "dependencies"})
TOGETHER = 10  # maximum sentences of a document per Doc: a single sentence shows no boundary
STEPS = (200, 2_000)  # minimum and maximum of the default number of steps
WORDS_A_STEP = 120  # training words per step, for the default number of steps
CHECKS = 10  # evaluations on dev during training
RARE = 30  # minimum uses of a relation to be learnt; fewer in a small treebank
SCORES = {  # Workbench's names and those of spaCy's scorer, which ignores punctuation in trees
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
    on_progress: Callable[[int], object] = lambda done: None,
) -> dict[str, Any]:
    """Train on the train part, keep the best step on dev, score on dev and test, write a folder.

    After an error, no partial folder is left. `limit` is the maximum number of sentences per part;
    `on_progress` receives the number of steps done. The returned facts are also in the folder's
    `meta.json`, and the settings in its `config.cfg`. The random generators of Python, numpy and
    torch are seeded again.
    """
    for name, value, least in (("steps", 1 if steps is None else steps, 1), ("seed", seed, 0)):
        if not isinstance(value, int) or not least <= value < 2**32:
            raise WorkbenchError(
                f"{name} is {value!r:.80}.",
                code="setting-invalid",
                remedy=f"Use a whole number from {least} to {2**32 - 1}.",
            )
    start = time.monotonic()
    with _new_folder(user_path(out)) as draft, TemporaryDirectory(prefix="workbench-") as scratch:
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
            "nlp.lang": blank(language).lang,  # an error if its tokenizer needs a package
            "paths.train": str(paths[TRAIN]),
            "paths.dev": str(paths[DEV]),
            "system.seed": seed,
            "components.parser.min_action_freq": min(RARE, 1 + words // 5_000),
            "training.max_steps": steps,
            "training.eval_frequency": max(1, steps // CHECKS),
        }
        curve = _train(settings, Path(scratch), on_progress)
        nlp = spacy.load(Path(scratch) / "model-best")
        facts = {
            "corpus": corpus.name,
            "corpus_hash": content_hash(corpus),
            "language": language,
            "sentences": {part: len(docs) for part, docs in parts.items()},
            "seed": seed,
            "steps": steps,
            "best_step": max(curve, key=lambda point: (point["score"], point["step"]))["step"],
            "seconds": round(time.monotonic() - start, 1),
            "scores": {part: _scores(nlp, paths[part]) for part in parts if part != TRAIN},
            "curve": curve,
            "notes": notes,
        }
        _write(nlp, facts, draft)
    return facts


@contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """A draft folder, renamed to `out` at the end; an error at the start if `out` is not empty."""
    try:
        if os.path.lexists(out) and (out.is_symlink() or not out.is_dir() or any(out.iterdir())):
            raise WorkbenchError(
                "this path exists already and is not an empty folder.",
                code="file-exists",
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
            out,
            error,
            "Name a new folder in an existing folder that you may write to, on a disk with space.",
        ) from None


# --- parts ----------------------------------------------------------------------------------------


def _parts(
    corpus: Corpus, seed: int, limit: int | None
) -> tuple[dict[str, list[Doc]], tuple[str, ...]]:
    """Sentences by part (train, dev and, if present, test), and notes."""
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
        notes = (f"There is no {TRAIN} split: {TRAIN}, {DEV} and {TEST} are random parts of all.",)
    if not parts[TRAIN]:
        raise WorkbenchError(
            f"there is no tree in {TRAIN}.",
            code="too-few-sentences",
            where=corpus.name,
            remedy="Use a corpus whose sentences have tags and trees.",
        )
    if not parts.get(DEV):
        parts[TRAIN], parts[DEV] = cut(parts[TRAIN], seed + 1, corpus.name)
        notes = notes or (f"There is no {DEV} split: a tenth of {TRAIN} is used as {DEV}.",)
    return {part: parts[part][:limit] for part in (TRAIN, DEV, TEST) if parts.get(part)}, notes


def _sentences(docs: Iterable[Doc], limit: int | None) -> Iterator[Doc]:
    """One Doc per sentence, of the Docs with tags, trees and sentence starts."""
    annotated = (doc for doc in docs if layers(doc) >= NEEDED and doc.has_annotation("SENT_START"))
    return islice((sentence for doc in annotated for sentence in _split_sentences(doc)), limit)


def _split_sentences(doc: Doc) -> Iterator[Doc]:
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
        while sentences := list(islice(document, next(sizes))):
            yield Doc.from_docs(sentences, exclude=["user_data", "spans"])  # type: ignore[call-arg]


# --- training -------------------------------------------------------------------------------------


def _train(
    settings: dict[str, Any], folder: Path, on_progress: Callable[[int], object]
) -> list[dict[str, float]]:
    """Train with spaCy; write the best pipeline to `folder` and return dev's scores by step."""
    from spacy.training.initialize import init_nlp
    from spacy.training.loop import train
    from thinc.api import Config

    curve: list[dict[str, float]] = []

    def logger(nlp: Language, stdout: io.StringIO, stderr: io.StringIO) -> tuple[Any, Any]:
        step = count()

        def log(checked: dict[str, Any] | None) -> None:
            on_progress(next(step))
            if checked is not None:
                point = {"step": checked["step"], "score": round(checked["score"], 4)}
                curve.append(point | _renamed(checked["other_scores"]))

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
    """The scores of spaCy's scorer under Workbench's names, without those the gold lacks."""
    return {
        ours: round(scores[theirs], 4)
        for ours, theirs in SCORES.items()
        if scores.get(theirs) is not None
    }


def _write(nlp: Language, facts: dict[str, Any], folder: Path) -> None:
    """Write the pipeline with its facts; the temporary paths and logger leave its config."""
    nlp.config["paths"].update({TRAIN: None, DEV: None})
    nlp.config["training"]["logger"] = {"@loggers": "spacy.ConsoleLogger.v1"}
    nlp.meta["name"] = "parser"
    nlp.meta["description"] = (
        f"Tags, trees and sentences, trained by Workbench on {facts['corpus']}."
    )
    nlp.meta["workbench"] = facts
    nlp.to_disk(folder)
