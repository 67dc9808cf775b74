"""The built-in corpus: seeded stories in simple English, every sentence with exact gold, and tasks.

`primer` is the stories; `primer/sentiment` and its fellows the tasks. After a colon come options:
`primer:size=50000,seed=3`. `size` counts training sentences; dev and test have a tenth each, at
most 1,000, are drawn first, and so stay as they are when `size` grows. No sentence (or item) comes
twice within a seed. About 8,000 sentences a second on one core; memory grows by one string a
sentence.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.corpora.corpus import Corpus, Options, Origin
from workbench.corpora.layers import Mention, set_spans, vocabulary
from workbench.corpora.primer.draw import Draw
from workbench.corpora.primer.stories import Teller
from workbench.corpora.primer.structures import Item, Sentence
from workbench.corpora.primer.syntax import speak
from workbench.corpora.primer.tasks import TASKS

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.corpora.primer.gold import Scribe

VERSION = "2fedb50598248c31"  # the hash of what a seed gives; another text is another version
SIZE = 10_000
LARGEST = 1_000_000
HELD_OUT = 1_000


@dataclass(frozen=True)
class Recipe:
    """What to generate."""

    task: str  # "" for stories
    size: int = SIZE
    seed: int = 0

    @property
    def held_out(self) -> int:
        """Sentences, or items, of dev and of test each."""
        return max(1, min(HELD_OUT, self.size // 10))


@lru_cache(64)
def corpus(ref: str, options: Options) -> Corpus:
    """`primer`, `primer/TASK`, with options after a colon; one object for each, so that what its
    first Docs tell (`once`) is remembered."""
    recipe = parse(ref)
    make = partial(_task_docs if recipe.task else _story_docs, recipe, options)
    splits: dict[str, Callable[[], Iterator[Doc]]] = {
        split: partial(make, split) for split in ("train", "dev", "test")
    }
    made = f"primer {VERSION} {recipe.task} {recipe.size} {recipe.seed}"
    return Corpus(ref, splits, origin=Origin(ref, options, recipe=made))


def parse(ref: str) -> Recipe:
    """Read a reference such as `primer/entailment:size=500,seed=2`."""
    path, _, settings = ref.partition(":")
    _, _, task = path.partition("/")
    if "/" in path and task not in TASKS:
        raise WorkbenchError(
            f"primer has no task {task!r}.", where=ref, remedy=did_you_mean(task, TASKS)
        )
    numbers = {"size": SIZE, "seed": 0}
    for setting in filter(None, settings.split(",")):
        name, _, value = setting.partition("=")
        if name not in numbers:
            raise WorkbenchError(
                f"primer has no option {name!r}.", where=ref, remedy=did_you_mean(name, numbers)
            )
        if not (value.isascii() and value.isdecimal()) or len(value) > 12:
            raise WorkbenchError(
                f"{name} is {value!r}, but must be a whole number.",
                where=ref,
                remedy=f"For example: primer:{name}={numbers[name] or 1}",
            )
        numbers[name] = int(value)
    if not 1 <= numbers["size"] <= LARGEST:
        raise WorkbenchError(
            f"size is {numbers['size']}.", where=ref, remedy=f"Ask for 1 to {LARGEST:,} sentences."
        )
    return Recipe(task, **numbers)


def stories(seed: int) -> Iterator[list[Sentence]]:
    """Stories without end, no sentence twice."""
    draw = Draw(Random(f"primer stories {seed}"))
    seen: set[str] = set()
    while True:
        draw.afresh()
        story = [speak(clause) for clause in Teller(draw).tell()]
        texts = {sentence.text for sentence in story}
        if len(texts) == len(story) and seen.isdisjoint(texts):
            seen |= texts
            yield story


def items(task: str, seed: int) -> Iterator[Item]:
    """Items of a task without end, none twice; twins stay together."""
    seen: set[tuple[str, ...]] = set()
    for group in TASKS[task](Draw(Random(f"primer {task} {seed}"))):
        keys = {tuple(s.text for s in [*item.first, *item.second]) for item in group}
        if len(keys) == len(group) and seen.isdisjoint(keys):
            seen |= keys
            yield from group


def _story_docs(recipe: Recipe, options: Options, split: str) -> "Iterator[Doc]":
    scribe = _scribe()
    for number, story in _story_split(recipe, split):
        name = f"primer-{recipe.seed}-{number}"
        if options.unit == "document":
            yield scribe.doc(story, name)
        else:
            for i, sentence in enumerate(story):
                yield scribe.doc([sentence], name, first=i)


def _story_split(recipe: Recipe, split: str) -> Iterator[tuple[int, list[Sentence]]]:
    """Test comes first, then dev, then train, each until it has its sentences."""
    wanted = {"test": recipe.held_out, "dev": recipe.held_out, "train": recipe.size}
    stream = enumerate(stories(recipe.seed))
    for name, size in wanted.items():
        told = 0
        while told < size:
            number, story = next(stream)
            story = story[: size - told]
            told += len(story)
            if name == split:
                yield number, story
        if name == split:
            return


def _task_docs(recipe: Recipe, options: Options, split: str) -> "Iterator[Doc]":
    scribe = _scribe()
    pairs = 2 if recipe.task == "acceptability" else 1  # twins are never parted
    held_out, size = (-(-n // pairs) * pairs for n in (recipe.held_out, recipe.size))
    first = {"test": 0, "dev": held_out, "train": 2 * held_out}[split]
    count = size if split == "train" else held_out
    stream = islice(items(recipe.task, recipe.seed), first, first + count)
    for number, item in enumerate(stream, start=first):
        yield _item_doc(scribe, item, f"primer-{recipe.task}-{recipe.seed}-{number}")


def _scribe() -> "Scribe":
    from workbench.corpora.primer.gold import Scribe

    return Scribe(vocabulary("en"))


def _item_doc(scribe: "Scribe", item: Item, name: str) -> "Doc":
    doc = scribe.doc([*item.first, *item.second], name)
    doc._.labels = dict(item.labels)
    if item.second:
        middle = sum(len(sentence.words) for sentence in item.first)
        set_spans(doc, "segments", [Mention(0, middle, "1"), Mention(middle, len(doc), "2")])
        if item.answer is not None:
            start, end = item.answer
            set_spans(doc, "answers", [Mention(middle + start, middle + end, "answer")])
    return doc
