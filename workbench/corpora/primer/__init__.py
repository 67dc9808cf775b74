"""The built-in corpus: random stories in simple English with exact gold, and tasks.

`primer` is the stories; `primer/sentiment` and the others are the tasks. Options follow a colon:
`primer:size=50000,seed=3`. `size` is the number of training sentences. Dev and test have a tenth of
it each, at most 1,000; they are drawn first, so they do not change when `size` grows. No sentence
(or item) occurs twice within a seed. Costs: about 8,000 sentences per second on one core; memory
grows by one string per sentence, and the first of a seed are kept, some 10 MB.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count, islice
from random import Random
from typing import TYPE_CHECKING, TypeVar

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

T = TypeVar("T")
VERSION = "2fedb50598248c31"  # hash of the text of a seed; a changed text needs a new version
VERSIONS = {  # the same, of tasks added since
    "counterfactuals": "f2ef3ffdf1aa7e5b",
    "rewrites": "8851edf59ff5c35e",
}
WORDS = {  # of train, dev and test at the default size, by reference: counting them takes seconds
    "primer": (86_224, 8_596, 8_465),
    "primer/acceptability": (75_442, 7_526, 7_544),
    "primer/counterfactuals": (146_360, 14_602, 14_560),
    "primer/entailment": (183_093, 18_308, 18_299),
    "primer/paraphrase": (207_987, 20_919, 21_018),
    "primer/questions": (372_138, 37_277, 37_597),
    "primer/relatedness": (191_053, 18_994, 18_850),
    "primer/rewrites": (159_120, 16_090, 15_904),
    "primer/sentiment": (75_896, 7_661, 7_509),
}
SIZE = 10_000
LARGEST = 1_000_000
HELD_OUT = 1_000
KEPT = 2_500  # stories or items of a seed that a second reader need not generate


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


def items(task: str, seed: int) -> Iterator[Item]:
    """An endless stream of items of a task without repetition; minimal pairs stay together."""
    seen: set[tuple[str, ...]] = set()
    for group in TASKS[task](Draw(Random(f"primer {task} {seed}"))):
        keys = {tuple(s.text for s in [*item.first, *item.second]) for item in group}
        if len(keys) == len(group) and seen.isdisjoint(keys):
            seen |= keys
            yield from group


@lru_cache(maxsize=8)
def _begun(task: str, seed: int) -> dict[int, object]:
    """The first stories (task "") or items of a seed that were read in this process."""
    return {}


def _read(made: Callable[[], Iterator[T]], task: str, seed: int) -> Iterator[T]:
    """What an endless stream has, which is the same each time: its beginning once it was read."""
    kept: dict[int, T] = _begun(task, seed)  # type: ignore[assignment]
    stream: Iterator[T] | None = None
    for n in count():
        if stream is None and n in kept:
            yield kept[n]
            continue
        stream = stream or islice(made(), n, None)
        each = next(stream)
        if n < KEPT:
            kept[n] = each
        yield each


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
    stream = enumerate(_read(partial(stories, recipe.seed), "", recipe.seed))
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
    number = size if split == "train" else held_out
    task, seed = recipe.task, recipe.seed
    stream = islice(_read(partial(items, task, seed), task, seed), first, first + number)
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
