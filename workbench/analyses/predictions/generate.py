"""Text that a model writes: continuations, answers and summaries, with every step's distribution.

    wb.generate(model, "Ben walks", on_piece=lambda piece: print(piece.text, end=""))
    wb.answer(model, "Who walks?", "Ben walks to the hill.")
    wb.summarise(model, text)

A causal model continues the text, an encoder-decoder writes for it, and ELMo continues word by word
with its forward direction. transformers runs its models (`models/scoring/generation.py`); ELMo is
not of transformers, so its loop is here. `answer` also reads a fine-tuned head that extracts the
answer from the text. Costs: one pass over the text, then one pass for each piece over this piece
alone; of ELMo over the whole text.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from workbench.analyses.predictions.prediction import Prediction, cannot, following, written
from workbench.analyses.predictions.results import (
    NO_ANSWER,
    Choice,
    Generated,
    Labelled,
    WrittenPiece,
)
from workbench.core.errors import WorkbenchError
from workbench.core.findings import of_all
from workbench.core.public import public, require_seed
from workbench.corpora.answer_spans import answer_spans
from workbench.corpora.encode import encode
from workbench.corpora.text_prediction import pair_of, predict_text
from workbench.corpora.typed import readable
from workbench.engine.model import Model, not_a_number
from workbench.models.scoring.generation import Sampling, Step, choose, continued, seeded

if TYPE_CHECKING:
    from spacy.tokens import Doc

MAX_PIECES = 20
SUMMARISE, QUESTION, CONTEXT = "summarize: ", "question: ", " context: "  # T5's prefixes
TRAINED_FOR_IT = (
    "The text is good only if the model was trained for this task, as T5 and its fine-tuned "
    "relatives were."
)

WRITERS = ("causal", "seq2seq")  # language models that write text
OnPiece = Callable[[WrittenPiece], object]


@public
def generate(
    model: Model,
    text: "str | Doc",
    max_pieces: int = MAX_PIECES,
    *,
    top: int = 5,
    sample: bool = False,
    temperature: float = 1.0,
    top_p: float = 1.0,
    seed: int = 0,
    on_piece: OnPiece | None = None,
) -> Generated:
    """Continue a text, or write one for it, piece by piece.

    Probabilities are those of the model, before temperature and top_p. Rules of generation in the
    model's own configuration apply (a forced first piece, a minimum length), but not its beams.

    Args:
        model: A causal model, an encoder-decoder, or ELMo with its softmax.
        text: The text to continue, or the input of an encoder-decoder.
        max_pieces: Maximum number of pieces; a model may end before (default 20).
        top: Number of most probable pieces to keep for each step (default 5).
        sample: Draw each piece at random (default: take the most probable one).
        temperature: With `sample`: below 1 sharpens the distribution (default 1).
        top_p: With `sample`: draw from the most probable pieces of this total (default 1: all).
        seed: Seed of the draws (default 0).
        on_piece: Function that is called with each piece as soon as it is chosen.

    Returns:
        `Generated`: `written`, and `steps` with probabilities and alternatives.

    Raises:
        WorkbenchError: The model does not write text, the text is empty, or a setting is invalid.

    Example:
        >>> model = wb.load("mini:gpt", device="cpu")
        >>> wb.generate(model, "Ben walks", max_pieces=3).written
        ' to the old'
    """
    doc = readable(text)
    require_counts(top=top, max_pieces=max_pieces)
    require_seed(seed)
    sampling = Sampling(sample, temperature, top_p, seed)
    if model.objective == "bidirectional":
        return _word_by_word(model, doc, max_pieces, top, sampling, on_piece)
    if model.objective not in WRITERS:
        raise cannot(
            model,
            "does not write text",
            "Choose a causal model or an encoder-decoder, such as mini:gpt or mini:t5. A masked "
            "model fills hidden words: wb.fill.",
            WRITERS,
        )
    notes: list[str] = []
    prediction, limit = _start(model, doc, max_pieces, notes)
    if sample:  # torch cannot draw from what is not a number
        with torch.no_grad():
            prediction.logits()
    prompt = prediction.text.ids[0].tolist() if model.objective == "causal" else []
    steps: list[WrittenPiece] = []

    def step_done(step: Step) -> None:
        if math.isnan(step.probability):
            raise not_a_number(model.name)
        piece = _named(model, step, prompt[-1:], [each.index for each in steps])
        steps.append(piece)
        if on_piece is not None:
            on_piece(piece)

    _, ended = continued(model, prediction.text, limit, top, sampling, step_done)
    if limit < max_pieces and len(steps) == limit and not ended:
        notes.append(f"{model.name} reads {model.max_pieces} pieces, and no more fit.")
    text_written = "".join(step.text for step in steps)
    return Generated(model.name, doc.text, tuple(steps), text_written, ended, tuple(notes))


@public
def summarise(
    model: Model,
    text: "str | Doc",
    max_pieces: int = 60,
    *,
    prefix: str | None = None,
    top: int = 5,
    on_piece: OnPiece | None = None,
) -> Generated:
    """Summarise a text with an encoder-decoder that was trained to do so.

    Args:
        model: An encoder-decoder, such as T5, or BART fine-tuned on summaries.
        text: The text.
        max_pieces: Maximum number of pieces of the summary (default 60).
        prefix: Text before the input (default: `summarize: ` for models with sentinels such as
            T5, nothing for others such as BART).
        top: Number of most probable pieces to keep for each step (default 5).
        on_piece: Function that is called with each piece as soon as it is chosen.

    Returns:
        `Generated`, with a note that the model must have been trained for it.

    Raises:
        WorkbenchError: The model is not an encoder-decoder, or the text is empty.

    Example:
        >>> model = wb.load("mini:t5", device="cpu")
        >>> summary = wb.summarise(model, "Ben walks to the hill.", max_pieces=3)
        >>> summary.text, len(summary.steps)
        ('summarize: Ben walks to the hill.', 3)
    """
    doc = readable(text)
    _require_writer(model, "summarise")
    if prefix is None:
        prefix = SUMMARISE if model.symbols.sentinels else ""
    result = generate(model, f"{prefix}{doc.text}", max_pieces, top=top, on_piece=on_piece)
    return _noted(result)


@public
def answer(
    model: Model,
    question: str,
    context: str,
    *,
    max_pieces: int = 24,
    top: int = 5,
    on_piece: OnPiece | None = None,
) -> Generated | Labelled:
    """Answer a question about a text.

    A model with a head for answers (`…ForQuestionAnswering`, or a run of `finetune`) extracts the
    best span of the text, or says that there is none; a long text is read in windows that overlap.
    An encoder-decoder writes the answer for `question: … context: …`, as T5 does.

    Args:
        model: A model with a head for answers, or an encoder-decoder.
        question: The question.
        context: The text that has the answer.
        max_pieces: Maximum number of written pieces (default 24).
        top: Number of best spans, or of most probable pieces for each written piece (default 5).
        on_piece: Function that is called with each written piece as soon as it is chosen.

    Returns:
        `Labelled` with `guess`, `answer` (its probability) and `spans`: the best answers with their
        scores and ranges of characters of `context`, best first. Or `Generated`.

    Raises:
        WorkbenchError: The model can do neither, or a text is empty.

    Example:
        >>> model = wb.load("mini:t5", device="cpu")
        >>> wb.answer(model, "Who walks?", "Ben walks.", max_pieces=2).text
        'question: Who walks? context: Ben walks.'
    """
    asked, about = readable(question, "question"), readable(context, "context")
    if model.task_head is not None:
        task = model.task_head.task
        if task.kind == "answers":
            return _extracted(model, asked, about, top)
        if task.kind == "text" and task.label == "answers":
            return label(model, pair_of(asked, about))
    _require_writer(model, "answer")
    prompt = f"{QUESTION}{question}{CONTEXT}{context}"
    return _noted(generate(model, prompt, max_pieces, top=top, on_piece=on_piece))


def _extracted(model: Model, question: "Doc", context: "Doc", top: int) -> Labelled:
    """The best spans of a text, and no answer."""
    require_counts(top=top)
    doc = pair_of(question, context)
    (found,) = answer_spans(model, [doc], top=top)
    if any(math.isnan(span.score) for span in found.ranked):
        raise not_a_number(model.name)
    best = found.decided()
    notes: list[str] = []
    if found.is_question_cut:
        notes.append(f"The question is too long for {model.name}: its end was not read.")
    if found.windows > 1:
        notes.append(
            f"The text is too long for {model.name}: it was read in {found.windows} parts."
        )
    return Labelled(
        model.name, doc.text, "answers", best.text or NO_ANSWER, answer=best.probability,
        spans=found.ranked[:top], notes=tuple(notes),
    )  # fmt: skip


def label(model: Model, doc: "Doc") -> Labelled:
    """What the task head of a model predicts for a Doc; the Doc of a pair has its segments."""
    found = predict_text(model, doc)
    shares = [*(share for _, share in found.classes), *(share for *_, share in found.words)]
    if found.kind == "score":
        shares.append(float(found.guess))
    if any(map(math.isnan, [*shares, found.answer or 0])):
        raise not_a_number(model.name)
    notes = (cut_note(model),) if found.cut else ()
    return Labelled(
        model.name,
        doc.text,
        found.kind,
        found.guess,
        found.classes,
        found.words,
        found.answer,
        notes,
    )


# --- checks ---------------------------------------------------------------------------------------


def require_counts(**counts: int) -> None:
    """Raise if a count is below 1."""
    for name, value in counts.items():
        if value < 1:
            raise WorkbenchError(
                f"{name} is {value}.", code="setting-invalid", remedy="Use 1 or more."
            )


def cut_note(model: Model) -> str:
    """The note on a text whose end was not read."""
    longest = f"the {model.max_pieces} pieces of {model.name}"
    return f"The text is longer than {longest}: its end was not read."


def cut_notes(prediction: Prediction, doc: "Doc") -> list[str]:
    """The note on a text of which a prediction reads a part only, or none."""
    model = prediction.model
    if model.objective == "causal" and prediction.head is None:
        if prediction.gold is not None:  # of a word: what comes before it is read
            return []
        read = int(prediction.text.word_counts[0])
        if read >= len(doc):
            return []
        return [
            f"The text is too long for the {model.max_pieces} pieces of {model.name}: only its "
            f"last {read:,} words were read."
        ]
    return [cut_note(model)] if model.encode(encode([doc])).cut else []


def unknown_note(model: Model, doc: "Doc", name: str = "") -> str:
    """How many words of the text the model does not know; "" if it knows all of them."""
    batch = encode([doc])
    pieces = model.encode(batch)
    n_read = int(pieces.kept[0]) if pieces.cut else len(doc)
    unknown = pieces.words[model.unknown_pieces(pieces) & pieces.mask & ~pieces.special]
    n_words = len(set(unknown.tolist()))
    if not n_words:
        return ""
    whole = n_words == n_read  # "does not know all words" could mean that it knows some
    known = "knows" if whole else "does not know"
    algorithm = model.segmented(batch.text_of(0), batch.words_of(0)).algorithm
    return (
        f"{name or model.name} {known} {of_all(0 if whole else n_words, n_read, 'word')} "
        f"{'that it reads ' if pieces.cut else ''}of this text: "
        + (
            "it reads their characters, but cannot predict them."
            if algorithm == "characters"
            else "its vocabulary has no pieces for such words, and it reads them all alike."
        )
    )


def _require_writer(model: Model, what: str) -> None:
    if model.objective != "seq2seq":
        raise cannot(
            model,
            f"cannot {what}: it is not an encoder-decoder with a language-model head"
            + (", and has no head for answers" if what == "answer" else ""),
            "Choose an encoder-decoder such as a T5"
            + (", or a run of finetune on an answers task." if what == "answer" else "."),
            ("seq2seq",),
        )


def _noted(result: Generated) -> Generated:
    return replace(result, notes=(*result.notes, TRAINED_FOR_IT))


# --- steps ----------------------------------------------------------------------------------------


def _start(model: Model, doc: "Doc", max_pieces: int, notes: list[str]) -> tuple[Prediction, int]:
    """The prediction of the first piece, and how many pieces fit."""
    longest = model.max_pieces
    if model.objective == "seq2seq":
        prediction = written(model, doc)
        notes += cut_notes(prediction, doc)
        return prediction, min(max_pieces, (longest or max_pieces + 1) - 1)
    if longest is None:
        return following(model, doc), max_pieces
    prediction = following(model, doc, min(max_pieces, longest // 2))
    notes += cut_notes(prediction, doc)
    return prediction, min(max_pieces, longest - int(prediction.text.mask.sum()))


def _named(model: Model, step: Step, before: list[int], so_far: list[int]) -> WrittenPiece:
    """A step with its texts; what a piece adds depends on the pieces before it."""
    names = model.choice_texts([step.piece, *(index for index, _ in step.top)])
    old = model.decode([*before, *so_far])
    new = model.decode([*before, *so_far, step.piece])
    added = new[len(old) :] if new.startswith(old) else model.decode([step.piece])
    choices = tuple(
        Choice(index, name, share)
        for (index, share), name in zip(step.top, names[1:], strict=True)
        if share > 0
    )
    return WrittenPiece(step.piece, names[0], added, step.probability, choices)


def _word_by_word(
    model: Model,
    doc: "Doc",
    max_pieces: int,
    top: int,
    sampling: Sampling,
    on_piece: OnPiece | None,
) -> Generated:
    """ELMo's continuation: the most probable next word is added to the text, and so on."""
    from spacy.tokens import Doc

    words = [token.text for token in doc]
    spaces = [*(bool(token.whitespace_) for token in doc[:-1]), True]
    steps: list[WrittenPiece] = []
    ended = False
    with seeded(model.device, sampling.seed), torch.no_grad():
        while len(steps) < max_pieces and not ended:
            so_far = Doc(doc.vocab, words=words, spaces=spaces)
            logits = following(model, so_far).logits().float().cpu()
            step = choose(logits, sampling, top)
            ended = step.piece == model.symbols.end
            names = model.choice_texts([step.piece, *(index for index, _ in step.top)])
            choices = [
                Choice(index, name, share)
                for (index, share), name in zip(step.top, names[1:], strict=True)
            ]
            added = "" if ended else f" {names[0]}"
            steps.append(
                WrittenPiece(step.piece, names[0], added, step.probability, tuple(choices))
            )
            if on_piece is not None:
                on_piece(steps[-1])
            words, spaces = [*words, names[0]], [*spaces, True]
    text = "".join(step.text for step in steps)
    return Generated(model.name, doc.text, tuple(steps), text, ended)
