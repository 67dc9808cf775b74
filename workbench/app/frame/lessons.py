"""Lessons: lists of views of the app with words, notes for who teaches, and tasks that are checked.

The tour and three lessons on built-in results are here; a user's own are JSON files in the folder
`lessons` of Workbench's home. A step is an address, so a lesson is a link. What a student answers
stays in the student's browser session. Costs: one small file for each lesson of one's own.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qsl, urlencode, urlsplit
from zlib import crc32

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from workbench.app import navigation
from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.files import parse_json, read_regular, write_atomically

LESSON, STEP = "lesson", "tour"  # in the address: the name of the lesson (none: the tour), the step
MOST = 60  # steps of a lesson
Words = Annotated[str, StringConstraints(max_length=2_000)]
_UNIT = re.compile(r"(?<=\w) ?%$|(?<=\w) (heads?|points?|percent)$")
_DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")  # 1,4 for 1.4
_HEAD = re.compile(r"^layer (\d+),? head (\d+)$")  # 1.4 in words
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Task(_Frozen):
    """A question with the answers that are right; with `choices`, one of them is picked."""

    asks: Words
    answers: list[Words]
    choices: list[Words] = []
    hint: Words = ""

    def is_right(self, answer: str) -> bool:
        """Whether an answer is right.

        Case, spaces, a decimal comma, a final full stop, “layer”, “head” and a unit do not count.
        """
        return _told(answer) in {_told(each) for each in self.answers}


class Step(_Frozen):
    """A view: its page and address, what is said of it, the part that is outlined, a task."""

    page: str
    says: Words
    address: dict[str, str] = {}
    outlined: str = ""  # a CSS selector; only of built-in lessons
    notes: Words = ""  # for who teaches
    task: Task | None = None


class Lesson(_Frozen):
    """A list of steps with a title."""

    title: Annotated[str, StringConstraints(min_length=1, max_length=120)]
    about: Words = ""
    minutes: int = 10
    steps: list[Step] = []


def _told(answer: str) -> str:
    told = " ".join(_DECIMAL_COMMA.sub(".", answer.casefold()).split()).removesuffix(".")
    told = _HEAD.sub(r"\1.\2", told)
    return _UNIT.sub("", told.rstrip().removeprefix("head "))


# --- built in -------------------------------------------------------------------------------------

MODEL = {"model": "mini:bert", "corpus": "primer"}
SENTENCE = "The girls did not visit it because they were tall."
_FINDINGS = ".st-key-result-findings"
_FIGURE = ".st-key-result-figure"
_MAPS = ".st-key-attention-browser"


def _result(name: str) -> dict[str, str]:
    return {**MODEL, "run": f"built-in/{name}"}


TOUR = Lesson(
    title="Tour", about="Five views in under two minutes.", minutes=2,
    steps=[
        Step(
            page="attention", outlined=_MAPS,
            address={**MODEL, "from": "Your own text", "text": SENTENCE},
            says="Each small map is one attention head: rows are tokens that look, columns are "
            "tokens that are looked at. A diagonal that stands out is a head that looks at a "
            "neighbour.",
        ),
        Step(
            page="heads", outlined=_FINDINGS, address=_result("heads-mini-bert"),
            says="Over a whole corpus, heads get roles: some look at a fixed offset, some follow a "
            "syntactic relation. A role counts only where it beats every simple rule.",
        ),
        Step(
            page="probing", outlined=_FIGURE, address=_result("edge-probing-mini-bert"),
            says="Probes are small classifiers that read labels from one layer. The curve shows "
            "where the model knows parts of speech, syntax or coreference, and what baselines "
            "know.",
        ),
        Step(
            page="pruning", outlined=_FINDINGS, address=_result("head-pruning-mini-bert"),
            says="Many heads can go: they are removed one after another, the least important "
            "first, and the model is scored after each step, against random orders.",
        ),
        Step(
            page="home", outlined='[data-testid="stTextInput"]',
            says="Now your own sentence: type it here. Heads and predictions follow while you "
            "type.",
        ),
    ],
)  # fmt: skip

HEADS = Lesson(
    title="What heads do", about="Find heads by eye, then measure what they do on a corpus.",
    steps=[
        Step(
            page="attention", outlined=_MAPS,
            address={**MODEL, "from": "Your own text", "text": SENTENCE},
            says="Attention moves information between tokens. Each map is one attention head: a "
            "row is a token that looks; the cells that stand out are where it looks. Click a map "
            "to open it.",
            notes="Let the class describe patterns in their own words before you name them: "
            "diagonals, columns, blocks.",
            task=Task(
                asks="Which head of layer 1 looks at the word before, from nearly every word?",
                answers=["1.4", "4"],
                hint="Look for a diagonal one cell to the left of the main one. The answer is a "
                "name such as 1.2.",
            ),
        ),
        Step(
            page="attention", outlined=_MAPS,
            address={**MODEL, "from": "Your own text", "text": "She gave the boy a red book."},
            says="A pattern in one sentence may be chance. Here is another sentence, for the same "
            "heads. Does what you found still hold?",
            task=Task(
                asks="And which head of layer 1 looks at the word after?",
                answers=["1.1", "1"], hint="The diagonal is now one cell to the right.",
            ),
        ),
        Step(
            page="heads", outlined=_FINDINGS, address=_result("heads-mini-bert"),
            says="The same question over 8,465 words. A head is positional if it attends most "
            "to one offset for 90 % of them, and syntactic only if it beats such a simple rule.",
            notes="The test against a fixed offset is what many papers leave out: a relation that "
            "is mostly one word away needs no syntax.",
            task=Task(
                asks="How many of the 16 heads are positional?", answers=["2", "two"],
                hint="The findings say it.",
            ),
        ),
        Step(
            page="heads", outlined=_FINDINGS,
            address={**_result("heads-mini-bert"), "head": "2.3"},
            says="Head 2.3 finds the governor of an indirect object far more often than the best "
            "fixed offset does.",
            task=Task(
                asks="In how many percent of the arcs does head 2.3 follow “iobj”?",
                answers=["98", "97.5"],
                hint="The first bullet point of the findings, in %.",
            ),
        ),
        Step(
            page="pruning", outlined=_FIGURE, address=_result("head-pruning-mini-bert"),
            says="Are heads needed? They are removed one after another, and the loss is measured "
            "after each, next to random orders.",
            notes="Michel et al. (2019) found that most heads of a layer can go at test time.",
            task=Task(
                asks="How many of 16 heads can go for at most 5 % more loss?",
                answers=["6", "six"], choices=["0", "3", "6", "12"],
            ),
        ),
        Step(
            page="home", outlined='[data-testid="stTextInput"]',
            says="Now a sentence of your own. Is the head of the first step still the one that "
            "looks back?",
        ),
    ],
)  # fmt: skip

LAYERS = Lesson(
    title="What layers know", about="Read probes, baselines and lenses, and what they do not say.",
    steps=[
        Step(
            page="probing", outlined=_FIGURE, address=_result("edge-probing-mini-bert"),
            says="A probe is a small classifier on the states of one layer. Its score says what "
            "can be read there, not what the model uses.",
            notes="Ask what a probe would score on random vectors before you show the baselines.",
            task=Task(
                asks="At which layer are parts of speech read best?", answers=["1", "layer 1"],
                hint="The finding on POS names it.",
            ),
        ),
        Step(
            page="probing", outlined=_FINDINGS, address=_result("edge-probing-mini-bert"),
            says="Each task has baselines: the most frequent label, static vectors, and the "
            "same model with random weights. Only what lies above all of them, beyond the "
            "intervals, is knowledge.",
            task=Task(
                asks="Which task is not known above the best baseline?", answers=["coreference"],
                choices=["POS", "constituents", "coreference", "roles"],
                hint="The first finding names it.",
            ),
        ),
        Step(
            page="runs", outlined=_FIGURE, address=_result("structural-probe-mini-bert"),
            says="The structural probe asks more: is the whole tree in the distances between the "
            "states of words?",
            task=Task(
                asks="At which layer do distances recover most edges of the trees?",
                answers=["3", "layer 3"],
                hint="The first finding names it.",
            ),
        ),
        Step(
            page="runs", outlined=_FINDINGS, address=_result("lens-mini-bert"),
            says="A lens reads the prediction at every layer: how early does the model know what "
            "it will say?",
            notes="Compare with random weights: predictions that are early may be empty.",
            task=Task(
                asks="Which words are final earlier?", answers=["function words"],
                choices=["function words", "content words"],
                hint="The finding on function words compares their mean layers.",
            ),
        ),
    ],
)  # fmt: skip

TUNING = Lesson(
    title="What fine-tuning changes",
    about="When it helps, when it hurts, and which layers move.",
    steps=[
        Step(
            page="transfer", outlined=_FINDINGS, address=_result("frozen-vs-finetuned-mini-bert"),
            says="The same model, frozen under a small classifier, and with all its weights "
            "trained.",
            notes="Peters, Ruder and Smith (2019): it depends on the task.",
            task=Task(
                asks="Which task does fine-tuning help?", answers=["sentiment"],
                choices=["sentiment", "entities", "both", "neither"],
                hint="The first finding says it.",
            ),
        ),
        Step(
            page="transfer", outlined=_FIGURE, address=_result("frozen-vs-finetuned-mini-bert"),
            says="A gain needs an interval, and a comparison: in the tab Scores, a stronger "
            "classifier (an LSTM) on the frozen model.",
            task=Task(
                asks="By how many points of accuracy does sentiment rise?",
                answers=["26.7", "+26.7", "27", "+27"],
                hint="The finding has Δ before its interval.",
            ),
        ),
        Step(
            page="transfer", outlined=_FIGURE, address=_result("drift-mini-bert"),
            says="Where does a model change when it is trained? Here: from random weights to the "
            "trained model.",
            notes="CKA 1: the same up to rotation; 0: unrelated.",
            task=Task(
                asks="The states of which layer change most?", answers=["4", "layer 4"],
                hint="The lowest CKA.",
            ),
        ),
        Step(
            page="heads", outlined=_FINDINGS,
            address={**_result("heads-mini-bert"), "head": "1.4"},
            says="The tab Heads of the last view names the head whose attention changes most: head "
            "1.4. Here is what training made it do: it looks at the word before.",
        ),
    ],
)  # fmt: skip
BUILT_IN: Mapping[str, Lesson] = {
    "what-heads-do": HEADS,
    "what-layers-know": LAYERS,
    "what-fine-tuning-changes": TUNING,
}


def found(name: str) -> Lesson | None:
    """The lesson of this name in the address, with those steps whose pages are there."""
    lesson = TOUR if not name else BUILT_IN.get(name)
    if lesson is None and _NAME.fullmatch(name):
        with suppress(WorkbenchError):
            lesson = read(name)
    if lesson is None:
        return None
    steps = [step for step in lesson.steps if navigation.named(step.page) is not None]
    return lesson.model_copy(update={"steps": steps})


# --- one's own ------------------------------------------------------------------------------------


def own() -> Mapping[str, Lesson]:
    """The user's lessons by name; a file that cannot be read is left out."""
    lessons = {}
    for path in sorted(_folder().glob("*.json"))[:500]:
        with suppress(WorkbenchError):
            lessons[path.stem] = read(path.stem)
    return lessons


def read(name: str) -> Lesson:
    """Read one of the user's lessons."""
    try:
        return parsed(read_regular(_file(name)))
    except OSError:
        raise WorkbenchError(
            f"there is no lesson {name!r}.",
            code="lesson-not-found",
            remedy="Choose one of the list.",
        ) from None


def parsed(content: bytes) -> Lesson:
    """Return a lesson from the content of a file. Its selectors are left out: they are of CSS."""
    try:
        found = parse_json(content)
        json.dumps(found, ensure_ascii=False).encode()  # not half a character, which is not stored
        lesson = Lesson.model_validate(found)
    except (ValueError, ValidationError) as error:
        why = error.errors()[0] if isinstance(error, ValidationError) else {"msg": str(error)}
        at = ".".join(map(str, why.get("loc", ())))
        raise WorkbenchError(
            f"this is no lesson: {at + ': ' if at else ''}{why['msg']}.",
            code="lesson-invalid",
            remedy="Load a file that the page Lessons has saved.",
        ) from None
    steps = [step.model_copy(update={"outlined": ""}) for step in lesson.steps]
    return lesson.model_copy(update={"steps": steps})


def write(lesson: Lesson) -> str:
    """Store a lesson under a name made of its title; return the name."""
    if len(lesson.steps) > MOST:
        raise WorkbenchError(
            f"a lesson has at most {MOST} steps.",
            code="lesson-invalid",
            remedy="Make two lessons of it.",
        )
    name = name_of(lesson.title)
    if not name or name in BUILT_IN:
        raise WorkbenchError(
            f"{lesson.title!r} cannot be the title of a lesson of your own.",
            code="lesson-invalid",
            remedy="Choose another title, with letters or digits.",
        )
    write_atomically(_file(name), lesson.model_dump_json(indent=2))
    return name


def rename(name: str, lesson: Lesson, title: str) -> None:
    """Store one of the user's lessons under another title, unless another lesson has it."""
    if name_of(title) != name and name_of(title) in own():
        raise WorkbenchError(
            f"there is a lesson {title!r} already.",
            code="lesson-invalid",
            remedy="Choose another title.",
        )
    if write(lesson.model_copy(update={"title": title})) != name:
        remove(name)


def name_of(title: str) -> str:
    """Return the name of the lesson with this title, in links and of its file; "" for none."""
    name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:50].strip("-")
    if not title.isascii() and any(map(str.isalnum, title)):  # else other letters are all alike
        name = f"{name}-{crc32(title.encode()):08x}".strip("-")
    return name


def remove(name: str) -> None:
    """Remove one of the user's lessons."""
    _file(name).unlink(missing_ok=True)


def step_at(link: str) -> Step:
    """Return a step that shows what a link of the app shows."""
    parts = urlsplit(link.strip())
    page = parts.path.strip("/").rpartition("/")[2] or navigation.HOME.name
    if not link.strip() or navigation.named(page) is None or len(link) > 8_000:
        raise WorkbenchError(
            f"this link opens no page of the app: {link[:80]!r}.",
            code="lesson-invalid",
            remedy="Open the view in the app, and copy the address of the browser.",
        )
    given = dict(parse_qsl(parts.query))
    address = {key: value for key, value in given.items() if key not in (LESSON, STEP, "present")}
    # a link leaves out the first model and corpus, and the step before may have others
    return Step(page=page, says="", address={**MODEL, **address} if address else {})


def link_to(step: Step) -> str:
    """Return a link that `step_at` reads."""
    return f"{step.page}?{urlencode(step.address)}"


def _folder() -> Path:
    return machine.home() / "lessons"


def _file(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise WorkbenchError(
            f"there is no lesson {name[:60]!r}.", code="lesson-not-found",
            remedy="Choose one of the list.",
        )  # fmt: skip
    return _folder() / f"{name}.json"
