"""The logit lens: what a model would predict if it ended at a layer (nostalgebraist 2020).

    reading = lens(model, "Ben walks to the hill.", word="hill")
    print(reading)                    # the most probable choices at every layer
    reading.table                     # rank, probability, entropy, divergence by layer

The state of a layer, after a block, after its attention or after its MLP, is read by the model's
own final norm and head, for causal and masked models, encoder-decoders and ELMo. For the encoder of
an encoder-decoder, the decoder reads the intermediate state (Langedijk et al. 2023). Task heads are
read as in `task_lens`. Costs: a pass per batch of predictions, and the head for each of its states;
for an encoder its decoder.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.analyses.lenses.task_lens import (
    NEAR,
    Labels,
    OpenTaskLens,
    labels_of_prediction,
    open_task_lens,
    require_pairs,
)
from workbench.analyses.lenses.tuned_maps import HasMaps, maps_of
from workbench.analyses.predictions.generate import cut_note
from workbench.analyses.predictions.predict import fill, read_by
from workbench.analyses.predictions.prediction import Kind, Prediction, following, labelled
from workbench.core.display import Displayed, figure_by
from workbench.core.errors import WorkbenchError, listed
from workbench.core.head_names import at_state, state_name, state_number
from workbench.core.public import public
from workbench.corpora.encode import encode
from workbench.corpora.markers import beside_markers, has_marker
from workbench.corpora.typed import word_index
from workbench.engine.batch import NO_WORD, Batch, Pieces, sent
from workbench.engine.forward_pass import chunks
from workbench.engine.model import Direction, Model, UnsupportedError, refusal
from workbench.engine.taps import StackName
from workbench.models.huggingface import require_transformer
from workbench.models.interventions import residual_stream
from workbench.models.interventions.head_replay import (
    Change,
    Point,
    Recorded,
    ReplayHead,
    Sublayer,
    recorded_states,
    replay_head,
    replayed_logits,
)
from workbench.models.net_parts import probe
from workbench.models.output_heads.lm_losses import (
    candidates,
    hidden_with,
    logits_of,
    masked,
    one_hidden,
)

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure
    from spacy.tokens import Doc

ROWS = 32  # predictions in a batch
NUMBERS = 1 << 24  # logits at once: the head's weights are read once for the states of many layers


@dataclass(frozen=True, eq=False)
class Places:
    """Predictions of a model in one batch, as of `prediction.of_word`."""

    text: Pieces
    target: Pieces | None
    rows: Tensor  # [places], the row of the batch, ascending; on the host
    at: Tensor  # [places], the piece of the last stack that predicts; of ELMo the word
    kind: Kind
    gold: Tensor | None  # [places], the true choices, if known; on the host

    def __len__(self) -> int:
        return len(self.rows)


# --- reading states -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OpenLens:
    """A model whose layers can be read."""

    model: Model
    head: ReplayHead
    plan: residual_stream.Plan | None  # None: states after attention are not known
    note: str = ""  # why they are not
    changes: Mapping[StackName, Change] = field(default_factory=dict)  # of a tuned lens

    def read(self, places: Places) -> tuple[Tensor, Iterator[tuple[Point, Tensor]]]:
        """The model's own logits, and those of every state, the first layer first.

        # [places, choices]; [places, choices] each
        """
        if self.model.objective == "bidirectional":
            recorded = recorded_states(self.model, places.text)
            final = self._of_words(recorded.states[recorded.last][-1], places)
            return final, self._word_points(recorded, places)
        recorded, inner = self._recorded(places)
        final = self.head(recorded.states[recorded.last][-1][self._cells(places)])
        return final, self._points(recorded, inner, places, final.shape[-1])

    def _recorded(self, places: Places) -> tuple[Recorded, "residual_stream.ResidualStream | None"]:
        net = require_transformer(self.model, _WITHOUT, _REMEDY)
        if self.plan is None:
            return recorded_states(net, places.text, places.target), None
        with residual_stream.recorded(net, self.plan) as seen:
            recorded = recorded_states(net, places.text, places.target)
        return recorded, seen.stream(recorded.output)

    def _points(
        self,
        recorded: Recorded,
        inner: "residual_stream.ResidualStream | None",
        places: Places,
        choices: int,
    ) -> Iterator[tuple[Point, Tensor]]:
        cells = self._cells(places)
        most = max(1, NUMBERS // (choices * len(places)))  # points of one product
        for stack, layers in recorded.states.items():
            points = _states_of(stack, layers, inner)
            if stack != recorded.last:
                for point, states in points:
                    changed = self._changed(point, states)
                    yield point, self._through_decoder(recorded, stack, changed, places)
                continue
            read = ((point, self._changed(point, states[cells])) for point, states in points)
            while part := [*islice(read, most)]:
                logits = self.head(torch.cat([states for _, states in part]))
                each = torch.split(logits, len(places))  # [places, choices] of each point
                yield from zip((point for point, _ in part), each, strict=True)

    def _changed(self, point: Point, states: Tensor) -> Tensor:
        """The states that the head reads: of a tuned lens, mapped ones."""
        change = self.changes.get(point.stack)
        return states if change is None else change(point.layer, states)

    def _through_decoder(
        self, recorded: Recorded, stack: StackName, states: Tensor, places: Places
    ) -> Tensor:
        assert places.target is not None, "an encoder-decoder writes a target"
        mask = torch.zeros_like(places.target.mask)
        mask[self._cells(places)] = True  # one place per row, so in their order
        return replayed_logits(self.model, recorded, {stack: states}, mask)

    def _cells(self, places: Places) -> tuple[Tensor, Tensor]:
        device = self.model.device
        return sent(places.rows, device), sent(places.at, device)

    def _word_points(self, recorded: Recorded, places: Places) -> Iterator[tuple[Point, Tensor]]:
        stack = recorded.last
        for layer in range(len(recorded.states[stack])):
            point = Point(stack, layer, "mlp" if layer else "embeddings")
            states = self._changed(point, recorded.states[stack][layer])
            yield point, self._of_words(states, places)

    def _of_words(self, states: Tensor, places: Places) -> Tensor:
        """Logits of ELMo's words; both directions are multiplied for a hidden word.

        # [batch, words + 2, width] -> [places, choices]
        """
        rows, at = self._cells(places)

        def read(column: Tensor, direction: Direction) -> Tensor:
            return self.head(states[rows, column], direction).float()

        if places.kind in ("next", "previous"):
            return read(at + 1, places.kind)
        return read(at, "next").log_softmax(-1) + read(at + 2, "previous").log_softmax(-1)


def _states_of(
    stack: StackName,
    layers: Sequence[Tensor],
    inner: "residual_stream.ResidualStream | None",
) -> Iterator[tuple[Point, Tensor]]:
    """The states of a stack in their order.  # [batch, pieces, width] each"""
    yield Point(stack, 0, "embeddings"), layers[0]
    for layer, states in enumerate(layers[1:], 1):
        for step in inner.steps[stack][layer - 1] if inner is not None else ():
            if step.site is not None:
                kind: Sublayer = "cross-attention" if step.site.kind == "cross" else "attention"
                yield Point(stack, layer, kind), step.after
        yield Point(stack, layer, "mlp"), states


_WITHOUT = "has no language-model head, so its layers predict nothing"
_REMEDY = "Choose a model saved with such a head, for example bert-base-uncased or gpt2."


def open_lens(model: Model, sublayers: bool = True) -> OpenLens:
    """A model whose layers can be read; raises if its last layer does not give its own logits."""
    if not model.objective:
        raise refusal(model, _WITHOUT, _REMEDY)
    head = replay_head(model)
    if model.objective == "bidirectional":
        return OpenLens(model, head, None)
    net = require_transformer(model, _WITHOUT, _REMEDY)
    text = probe(net.net)
    with torch.no_grad():
        recorded = recorded_states(model, text, text)
        own = logits_of(model, text, text.mask, text).float()
        read = head(recorded.states[recorded.last][-1][text.mask])
    if float((own - read).abs().max()) > CLOSE[model.precision] * float(own.abs().max()):
        raise refusal(
            model,
            "does not predict from the output of its last block alone, so no lens reads it",
            "Choose a model whose head reads its last layer, for example bert-base-uncased.",
        )
    if not sublayers:
        return OpenLens(model, head, None)
    try:
        return OpenLens(model, head, residual_stream.plan(net, model.symbols.mask is None))
    except UnsupportedError as error:
        return OpenLens(model, head, None, str(error.what))


# the largest difference of logits, relative to the largest logit, by precision
CLOSE = {"fp64": 1e-6, "fp32": 1e-3, "fp16": 2e-2, "bf16": 1e-1}


# --- predictions of words -------------------------------------------------------------------------


def places_of(model: Model, batch: Batch, words: Sequence[tuple[int, int]]) -> Iterator[Places]:
    """The predictions of words (document, word) from their contexts, some at a time, in order.

    They are those of `prediction.of_word`: the word's first piece, all of its pieces hidden.
    """
    for part in chunks(words, ROWS):
        documents = sorted({document for document, _ in part})
        text = model.encode(batch, documents)
        rows = torch.tensor([documents.index(document) for document, _ in part])
        first = torch.tensor(
            [
                int((text.words[row] == word).nonzero()[0, 0])
                for row, (_, word) in zip(rows.tolist(), part, strict=True)
            ]
        )
        gold, device = text.ids[rows, first], model.device
        alone = torch.arange(len(part))
        if model.objective == "bidirectional":
            known = [batch.text_of(d)[slice(*batch.words_of(d)[word])] for d, word in part]
            unknown = model.symbols.unknown
            rows_of = [model.vocabulary.get(word, unknown) for word in known]
            yield Places(text.to(device), None, rows, first, "hidden", torch.tensor(rows_of))
        elif model.objective == "causal":
            yield Places(text.to(device), None, rows, first - 1, "next", gold)
        else:
            place = torch.stack([rows, first], 1)
            if model.objective == "masked":
                hidden = hidden_with(text, place, "within-word")
                seen = masked(text.take(rows), hidden, model.symbols.mask)
                yield Places(seen.to(device), None, alone, first, "hidden", gold)
            else:
                source, target, index = one_hidden(text, place, model.symbols, "within-word")
                read = source.to(device), target.to(device)
                yield Places(*read, alone, index, "written", gold)


def predictable(model: Model, batch: Batch) -> list[tuple[int, int]]:
    """The words (document, word) whose first piece is known and has a context."""
    words: list[tuple[int, int]] = []
    for documents in chunks(range(len(batch)), 256):
        text = model.encode(batch, documents)
        owned = candidates(text) & (text.words != NO_WORD)
        begins = owned.clone()
        begins[:, 1:] &= text.words[:, 1:] != text.words[:, :-1]
        begins &= ~model.unknown_pieces(text)
        if model.objective == "causal":
            begins[:, 0] = False
        rows, columns = begins.nonzero(as_tuple=True)
        found = zip(rows.tolist(), text.words[rows, columns].tolist(), strict=True)
        # a word with an alien piece inside it begins twice
        words += dict.fromkeys((documents[row], word) for row, word in found)
    return words


# --- measures -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Final:
    """What the model predicts in the end, computed once for all states of a batch."""

    logits: Tensor  # [places, choices]
    log_p: Tensor  # [places, choices]
    p: Tensor  # [places, choices]
    choice: Tensor  # [places]

    @classmethod
    def of(cls, logits: Tensor) -> "Final":
        log_p = logits.log_softmax(-1)
        return cls(logits, log_p, log_p.exp(), logits.argmax(-1))


def measured(logits: Tensor, final: Final, gold: Tensor | None) -> dict[str, Tensor]:
    """What a state predicts, next to what the model predicts in the end.  # [places] each

    agrees: the top choice is the model's. p_final, rank_final: of the model's choice. kl: from the
    final distribution to this one, in nats. entropy: in nats. correct, p_gold, rank_gold, nats: of
    the true choice.  # [places, choices], [places]
    """
    log_p, top = logits.log_softmax(-1), logits.argmax(-1)

    def of(choice: Tensor) -> tuple[Tensor, Tensor]:
        chosen = log_p.gather(1, choice[:, None])  # [places, 1]
        return chosen[:, 0], 1 + (log_p > chosen).sum(-1)

    p_final, rank_final = of(final.choice)
    values = {
        "agrees": top == final.choice,
        "p_final": p_final.exp(),
        "rank_final": rank_final,
        "kl": (final.p * (final.log_p - log_p)).sum(-1).clamp_min(0),
        "entropy": -(log_p.exp() * log_p).sum(-1),
    }
    if gold is not None:
        true = sent(gold, log_p.device)
        p_gold, rank_gold = of(true)
        values |= {
            "correct": top == true,
            "p_gold": p_gold.exp(),
            "rank_gold": rank_gold,
            "nats": -p_gold,
        }
    return values


def measured_scores(scores: Tensor, final: Tensor) -> dict[str, Tensor]:
    """The score of a state, next to the model's; it agrees within 0.1 of the gold scores' spread.

    A score is no distribution, so it has no probability, rank, divergence or entropy.
    # [places, 1] twice, standardised -> [places] each
    """
    missing = torch.full_like(scores[:, 0], torch.nan)
    names = ("p_final", "rank_final", "kl", "entropy")
    agrees = (scores - final)[:, 0].abs() <= NEAR
    return {"agrees": agrees, **dict.fromkeys(names, missing)}


def final_layers(agrees: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The first layer from which the top choice stays the model's.  # [layers, places] -> [places]

    The last layer's choice is the model's, so there always is one.
    """
    changes = ~agrees[::-1]  # from the last layer down
    stable = np.where(changes.any(0), changes.argmax(0), len(agrees))
    return (len(agrees) - stable).astype(np.int64)


# --- one text -------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class LensReading(Displayed):
    """What each layer of a model predicts for some words of a text.

    `table` has a row for each place and state, `choices` the most probable choices of each, and
    `final` the layer from which the prediction of a place no longer changes. For a task head that
    predicts a score, `choices` has the score, and `table` has it in the column `score`.

    Example:
        >>> reading = wb.lens(wb.load("mini:gpt", device="cpu"), "Ben walks to the hill.", word=4)
        >>> reading.final[["stack", "layer"]].values.tolist()
        [['decoder', 2]]
    """

    model: str
    text: str
    table: "pd.DataFrame"
    choices: "pd.DataFrame"
    final: "pd.DataFrame"
    notes: tuple[str, ...] = ()

    @property
    def tables(self) -> "dict[str, pd.DataFrame]":
        """The three tables by name, as the figures of `figures.lens` read them."""
        return {"table": self.table, "choices": self.choices, "final": self.final}

    def figure(self) -> "Figure":
        """Draw the top choice of each layer for each word, as a heat map of its probability.

        Returns:
            A Plotly figure. For one word the columns are its most probable choices.

        Example:
            >>> reading = wb.lens(wb.load("mini:gpt", device="cpu"), "Ben walks to the hill.")
            >>> reading.figure().data[0].type
            'heatmap'
        """
        return figure_by("workbench.analyses.lenses.figures.lens:grid", self.tables)

    def __repr__(self) -> str:
        """The top choice of every layer: in one column per place, or with the next choices."""
        places = self.final["place"].unique()
        shown = f"{self.model}: {self.text if len(self.text) <= 100 else f'{self.text[:100]} …'}"
        lines = [*self._grid()] if len(places) > 1 else [*self._rows()]
        return "\n".join([shown, *_aligned(lines), *(f"  Note: {note}" for note in self.notes)])

    def _rows(self) -> Iterator[tuple[str, ...]]:
        keys = ["stack", "layer", "sublayer"]
        top = dict(list(self.choices.groupby(keys, sort=False)))
        yield ("", "entropy", "rank of the final choice", "most probable")
        for row in self.table.to_dict("records"):
            best = top[row["stack"], row["layer"], row["sublayer"]]
            names = [
                listed([choice]) + ("" if np.isnan(share) else f" {100 * share:.0f} %")
                for choice, share in zip(best["choice"], best["probability"], strict=True)
            ]
            is_score = np.isnan(row["entropy"])
            yield (
                _state(row["stack"], row["layer"], row["sublayer"]),
                "" if is_score else f"{row['entropy']:.2f}",
                "" if is_score else f"{row['rank_final']:,}",
                ", ".join(names),
            )
        for row in self.final.to_dict("records"):
            of_all = f" of {row['layers']}" if row["layer"] else ""
            yield (f"final from {at_state(row['layer'])}{of_all} ({row['stack']})",)

    def _grid(self) -> Iterator[tuple[str, ...]]:
        top = self.choices[self.choices["rank"] == 1]
        yield ("", *self.final.drop_duplicates("place")["word"])
        for key, row in top.groupby(["stack", "layer", "sublayer"], sort=False):
            yield (_state(*key), *(listed([choice]) for choice in row["choice"]))
        for stack, row in self.final.groupby("stack", sort=False):
            yield (f"{stack!s}: final from layer", *map(state_number, row["layer"]))


@public
@torch.no_grad()
def lens(
    model: Model,
    text: "str | Doc | Prediction",
    *,
    word: str | int | None = None,
    second: "str | Doc | None" = None,
    sublayers: bool = True,
    top: int = 5,
    tuned: HasMaps | None = None,
) -> LensReading:
    """Read every layer of a model with its own head: the logit lens, or a tuned lens.

    A task head reads a mix of all layers: it is given what they would be if all blocks after a
    layer did nothing.

    Args:
        model: A model with a language-model head, an ELMo with its softmax, a run of finetune, or a
            text classifier.
        text: A text, or one `Prediction` of it.
        word: The word to predict from its context, or its index. Models that see both sides read
            the text with this word hidden. By default, the hidden words of the text (`[MASK]`,
            `<mask>` or `___`), else every word and, of a causal model, what follows the text. Of a
            head that tags words: the word whose tag is read (default: all).
        second: The second text of a pair, for tasks of two texts.
        sublayers: Also read the states after each attention; not of a task head.
        top: Number of choices to list.
        tuned: A run of `tuned-lens` on this model, whose maps change the states before the head
            reads them (default: none). There are maps of whole layers only, so the states after
            attention are left out.

    Returns:
        A `LensReading`: print it to see the choices by layer. Its `table` has the measures of every
        state, `choices` the most probable choices, `final` the layer from which a prediction no
        longer changes; `figure()` draws the choices.

    Raises:
        WorkbenchError: The model has no such head, or the word cannot be predicted.

    Example:
        >>> model = wb.load("mini:bert", device="cpu")
        >>> reading = wb.lens(model, "Ben walks to the hill.", word=1)
        >>> reading.table.query("sublayer != 'attention'")["layer"].tolist()
        [0, 1, 2, 3, 4]
    """
    if top < 1:
        raise WorkbenchError(f"top is {top}.", code="setting-invalid", remedy="Use 1 or more.")
    if model.task_head is not None:
        if tuned is not None:
            raise refusal(model, "has a task head, which no tuned lens reads", "Leave out tuned.")
        return _of_task_head(model, text, word, second, top)
    opened = open_lens(model, sublayers and tuned is None)
    if tuned is not None:
        opened = replace(opened, changes=maps_of(tuned, model))
    notes = [f"States after attention are left out: {opened.note}"] if opened.note else []
    if isinstance(text, Prediction):
        doc, batches, words = text.doc, [_of_prediction(text)], [str(text.kind)]
    else:
        doc = read_by(model, text, second)
        if word is None and has_marker(doc.text):
            places = fill(model, doc, top=1, max_pieces=1).places
            doc, batches = places[0].prediction.doc, [_of_prediction(p.prediction) for p in places]
            words = ["hidden" if len(places) == 1 else place.name for place in places]
        else:
            doc = beside_markers(model, doc)
            batches, words = _of_text(model, doc, None if word is None else word_index(doc, word))
        if model.encode(encode([doc])).cut:
            notes.append(cut_note(model))
    return _tabulated(model, doc.text, opened, batches, words, top, notes)


def _of_task_head(
    model: Model,
    text: "str | Doc | Prediction",
    word: str | int | None,
    second: "str | Doc | None",
    top: int,
) -> LensReading:
    """What every layer says by the task head: a class, a score, tags, or the ends of an answer."""
    opened = open_task_lens(model)
    if isinstance(text, Prediction):
        doc, found = text.doc, [text]
    else:
        doc = read_by(model, text, second)
        require_pairs(opened, [doc])
        found = labelled(model, doc)
    if word is not None:
        index = word_index(doc, word)
        found = [each for each in found if each.kind == "tag" and each.position == index]
        if not found:
            raise WorkbenchError(
                f"word {index} ({doc[index].text!r}) has no tag: the head does not tag words, or "
                "the word was cut off.",
                code="word-unknown",
                where=model.name,
                remedy="Leave out word.",
            )
    kinds = dict.fromkeys(each.kind for each in found)
    groups = [[each for each in found if each.kind == kind] for kind in kinds]
    words = [
        doc[each.position].text if each.kind == "tag" else str(each.kind)
        for group in groups
        for each in group
    ]
    batches = [labels_of_prediction(group) for group in groups if group]
    notes = ["States after attention are left out: a task head reads whole layers."]
    if model.encode(encode([doc])).cut:
        notes.append(cut_note(model))
    return _tabulated(model, doc.text, opened, batches, words, top, notes, found)


def _of_prediction(prediction: Prediction) -> Places:
    gold = None if prediction.gold is None else torch.tensor([prediction.gold])
    at = torch.tensor([prediction.position])
    row = torch.zeros(1, dtype=torch.int64)
    return Places(prediction.text, prediction.target, row, at, prediction.kind, gold)


def _of_text(model: Model, doc: "Doc", word: int | None) -> tuple[list[Places], list[str]]:
    """The places of a text, and their names."""
    batch = encode([doc])
    possible = [index for _, index in predictable(model, batch)]
    if word is not None and word not in possible:
        raise WorkbenchError(
            f"word {word} ({doc[word].text!r}) cannot be predicted: it is unknown to the model, "
            "was cut off, or has nothing before it.",
            code="word-unknown",
            where=model.name,
            remedy=f"Choose one of {', '.join(map(str, possible[:20]))}."
            if possible
            else "Use a longer text, or words that the model knows.",
        )
    chosen = possible if word is None else [word]
    batches = list(places_of(model, batch, [(0, index) for index in chosen]))
    names = [doc[index].text for index in chosen]
    if word is None and model.objective == "causal":
        batches.append(_of_prediction(following(model, doc)))
        names.append("(next)")
    if not names:
        raise WorkbenchError(
            "no word of the text can be predicted.",
            code="text-empty",
            where=model.name,
            remedy="Type a few words that the model knows.",
        )
    return batches, names


def _tabulated(
    model: Model,
    text: str,
    opened: OpenLens | OpenTaskLens,
    batches: Iterable[Places] | Iterable[Labels],
    words: Sequence[str],
    top: int,
    notes: Sequence[str],
    labels: Sequence[Prediction] = (),
) -> LensReading:
    """The tables; `labels` are the predictions of a task head, in the order of the places."""
    import pandas as pd

    rows, choices, finals = [], [], []
    place = 0
    for places in batches:
        logits, points = opened.read(places)  # type: ignore[arg-type]
        final, is_score = Final.of(logits), places.kind == "score"
        agrees: dict[StackName, list[NDArray[np.bool_]]] = {}
        names = [{"place": place + n, "word": words[place + n]} for n in range(len(places))]
        for point, logits in points:
            found = (
                measured_scores(logits, final.logits)
                if is_score
                else measured(logits, final, places.gold)
            )
            values = {name: each.tolist() for name, each in found.items()}
            if is_score:
                assert isinstance(opened, OpenTaskLens), "a head predicts the score"
                values["score"] = opened.scores(logits)
            best = logits.topk(min(top, logits.shape[-1]))  # [places, top]
            shares = (best.values - logits.logsumexp(-1, keepdim=True)).exp()
            for n, name in enumerate(names):
                key = {**name, **point._asdict()}
                rows.append({**key, **{each: value[n] for each, value in values.items()}})
                if is_score:
                    choices.append(
                        {**key, "rank": 1, "choice": f"{values['score'][n]:.3g}",
                         "probability": np.nan}
                    )  # fmt: skip
                    continue
                indices = best.indices[n].tolist()
                names_of = (
                    labels[place + n].names(indices) if labels else model.choice_texts(indices)
                )
                for rank, choice in enumerate(names_of):
                    share = float(shares[n, rank])
                    choices.append(
                        {**key, "rank": rank + 1, "choice": choice, "probability": share}
                    )
            if point.ends_layer:
                agrees.setdefault(point.stack, []).append(np.array(values["agrees"], dtype=bool))
        for stack, each in agrees.items():
            layers = final_layers(np.stack(each))
            finals += [
                {**name, "stack": stack, "layer": int(layers[n]), "layers": len(each) - 1}
                for n, name in enumerate(names)
            ]
        place += len(places)
    table, listing, settled = (  # the places of one batch are read together
        pd.DataFrame(each).sort_values("place", kind="stable", ignore_index=True)
        for each in (rows, choices, finals)
    )
    return LensReading(model.name, text, table, listing, settled, tuple(notes))


def _state(stack: object, layer: object, sublayer: object) -> str:
    """A state as it is printed: `encoder layer 3 attention`."""
    after = "" if sublayer == "embeddings" else f" {sublayer}"
    return f"{stack} {state_name(layer)}{after}"


def _aligned(lines: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows of cells as lines, with columns of one width; a row with one cell is not aligned."""
    wide = [line for line in lines if len(line) > 1]
    columns = max((len(line) for line in wide), default=0)
    sizes = [max(len(line[n]) for line in wide if len(line) > n) for n in range(columns)]
    return [
        "  "
        + "  ".join(
            cell if len(line) == 1 else cell.ljust(size)
            for cell, size in zip(line, sizes or [0], strict=False)
        ).rstrip()
        for line in lines
    ]
