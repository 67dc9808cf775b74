"""The built-in corpus: random stories in simple English with exact gold, and tasks.

`primer` is the stories; `primer/sentiment` and the others are the tasks. Options follow a colon:
`primer:size=50000,seed=3`. `size` is the number of training sentences. Dev and test have a tenth of
it each, at most 1,000; they are drawn first, so they do not change when `size` grows. No sentence
(or item) occurs twice within a seed. Costs: about 8,000 sentences per second on one core; memory
grows by one string per sentence. The first stories of a seed are drawn once in a process.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

from workbench.core.errors import WorkbenchError, did_you_mean, require_one_of
from workbench.corpora.corpus import Corpus, Options, Origin
from workbench.corpora.counterfactuals import AGAINST, PREDICTED, TARGET
from workbench.corpora.layers import Mention, set_spans, vocabulary
from workbench.corpora.primer.draw import Draw
from workbench.corpora.primer.stories import StoryGenerator
from workbench.corpora.primer.structures import Item, Sentence
from workbench.corpora.primer.syntax import realise
from workbench.corpora.primer.tasks import TASKS

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.corpora.primer.gold import DocBuilder

VERSION = "2fedb50598248c31"  # hash of the text of a seed; a changed text needs a new version
VERSIONS = {  # the same, of tasks added since
    "counterfactuals": "f2ef3ffdf1aa7e5b",
    "rewrites": "8851edf59ff5c35e",
}
SIZE = 10_000
LARGEST = 1_000_000
HELD_OUT = 1_000
KEPT = 1_000  # stories of a seed that are drawn once: those of dev and test, and the first of train
_first: dict[int, list[list[Sentence]]] = {}  # by seed


@dataclass(frozen=True)
class Recipe:
    """The task, the size and the seed of a generated corpus."""

    task: str  # "" for stories
    size: int = SIZE
    seed: int = 0

    @property
    def held_out(self) -> int:
        """Number of sentences, or items, in each of dev and test."""
        return max(1, min(HELD_OUT, self.size // 10))


@lru_cache(64)
def corpus(ref: str, options: Options) -> Corpus:
    """The corpus `primer` or `primer/TASK`, with options after a colon.

    There is one cached object per reference, so that values computed from its first Docs (`once`)
    are cached too.
    """
    recipe = parse(ref)
    make = partial(_task_docs if recipe.task else _story_docs, recipe, options)
    splits: dict[str, Callable[[], Iterator[Doc]]] = {
        split: partial(make, split) for split in ("train", "dev", "test")
    }
    version = VERSIONS.get(recipe.task, VERSION)
    key = f"primer {version} {recipe.task} {recipe.size} {recipe.seed}"
    return Corpus(ref, splits, origin=Origin(ref, options, recipe=key))


def parse(ref: str) -> Recipe:
    """Read a reference such as `primer/entailment:size=500,seed=2`."""
    path, _, settings = ref.partition(":")
    _, _, task = path.partition("/")
    if "/" in path and task not in TASKS:
        raise WorkbenchError(
            f"primer has no task {task!r}.",
            code="task-not-found",
            where=ref,
            remedy=did_you_mean(task, TASKS),
        )
    values = {"size": SIZE, "seed": 0}
    for setting in filter(None, settings.split(",")):
        name, _, value = setting.partition("=")
        require_one_of(
            name, values, f"primer has no option {name!r}.", code="setting-unknown", where=ref
        )
        if not (value.isascii() and value.isdecimal()) or len(value) > 12:
            raise WorkbenchError(
                f"{name} is {value!r}, but must be a whole number.",
                code="setting-invalid",
                where=ref,
                remedy=f"For example: primer:{name}={values[name] or 1}",
            )
        values[name] = int(value)
    if not 1 <= values["size"] <= LARGEST:
        raise WorkbenchError(
            f"size is {values['size']}.",
            code="setting-invalid",
            where=ref,
            remedy=f"Use a size of 1 to {LARGEST:,} sentences.",
        )
    return Recipe(task, **values)


def stories(seed: int) -> Iterator[list[Sentence]]:
    """An endless stream of stories in which no sentence occurs twice."""
    draw = Draw(Random(f"primer stories {seed}"))
    seen: set[str] = set()
    while True:
        draw.reset()
        story = [realise(clause) for clause in StoryGenerator(draw).generate()]
        texts = {sentence.text for sentence in story}
        if len(texts) == len(story) and seen.isdisjoint(texts):
            seen |= texts
            yield story


def _drawn_once(seed: int) -> Iterator[list[Sentence]]:
    """The same stream, of which the first stories are kept; no one changes a sentence."""
    known = _first.get(seed, [])
    count = 0
    for story in known:
        count += 1
        yield story
    own = known[:count]
    for story in islice(stories(seed), count, None):
        if len(own) < KEPT:
            own.append(story)
            if len(own) > len(_first.get(seed, ())):
                if len(_first) > 3:
                    _first.clear()
                _first[seed] = own
        yield story


def items(task: str, seed: int) -> Iterator[Item]:
    """An endless stream of items of a task without repetition; minimal pairs stay together."""
    seen: set[tuple[str, ...]] = set()
    for group in TASKS[task](Draw(Random(f"primer {task} {seed}"))):
        keys = {tuple(s.text for s in [*item.first, *item.second]) for item in group}
        if len(keys) == len(group) and seen.isdisjoint(keys):
            seen |= keys
            yield from group


def _story_docs(recipe: Recipe, options: Options, split: str) -> "Iterator[Doc]":
    builder = _doc_builder()
    for index, story in _story_split(recipe, split):
        name = f"primer-{recipe.seed}-{index}"
        if options.unit == "document":
            yield builder.doc(story, name)
        else:
            for i, sentence in enumerate(story):
                yield builder.doc([sentence], name, first=i)


def _story_split(recipe: Recipe, split: str) -> Iterator[tuple[int, list[Sentence]]]:
    """The stories of a split; test is drawn first, then dev, then train."""
    sizes = {"test": recipe.held_out, "dev": recipe.held_out, "train": recipe.size}
    stream = enumerate(_drawn_once(recipe.seed))
    for name, size in sizes.items():
        n_sentences = 0
        while n_sentences < size:
            index, story = next(stream)
            story = story[: size - n_sentences]
            n_sentences += len(story)
            if name == split:
                yield index, story
        if name == split:
            return


def _task_docs(recipe: Recipe, options: Options, split: str) -> "Iterator[Doc]":
    builder = _doc_builder()
    pairs = 2 if recipe.task == "acceptability" else 1  # a minimal pair stays in one split
    held_out, size = (-(-n // pairs) * pairs for n in (recipe.held_out, recipe.size))
    first = {"test": 0, "dev": held_out, "train": 2 * held_out}[split]
    count = size if split == "train" else held_out
    stream = islice(items(recipe.task, recipe.seed), first, first + count)
    for index, item in enumerate(stream, start=first):
        yield _item_doc(builder, item, f"primer-{recipe.task}-{recipe.seed}-{index}")


def _doc_builder() -> "DocBuilder":
    from workbench.corpora.primer.gold import DocBuilder

    return DocBuilder(vocabulary("en"))


def _item_doc(builder: "DocBuilder", item: Item, name: str) -> "Doc":
    doc = builder.doc([*item.first, *item.second], name)
    doc._.labels = dict(item.labels)
    if item.second:
        middle = sum(len(sentence.words) for sentence in item.first)
        set_spans(doc, "segments", [Mention(0, middle, "1"), Mention(middle, len(doc), "2")])
        if item.answer is not None:
            start, end = item.answer
            set_spans(doc, "answers", [Mention(middle + start, middle + end, "answer")])
        if (word := item.predicted) is not None:
            words = (word, TARGET), (middle + word, AGAINST)
            set_spans(doc, PREDICTED, [Mention(at, at + 1, label) for at, label in words])
    return doc
