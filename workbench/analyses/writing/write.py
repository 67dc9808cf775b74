"""Texts that a model writes for sources, or answers that it finds in passages, next to nulls.

What a model writes without having read its source is in the nulls: a copy of it, its first
sentences, the most frequent right text, the model's text for another source, and answers to another
question or from another passage. Costs: one writing of each text for each decoding (beams times as
much), two more of each answer to a question, for encoder-decoders a pass that shows
cross-attention, and the attribution of the words of some texts (origins.py).
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from workbench.analyses.writing.coverage import coverage
from workbench.analyses.writing.experiments import EXTRA, TextToText
from workbench.analyses.writing.measures import novel, novelty, scored
from workbench.analyses.writing.origins import Source, origin_tables
from workbench.core.cluster_sample import ClusterSample
from workbench.core.errors import WorkbenchError, require_extra
from workbench.core.metrics import answer_scores
from workbench.core.stats import wilson_interval
from workbench.corpora.answer_spans import AnswerSpans, answer_spans
from workbench.corpora.corpus import Corpus
from workbench.corpora.counterfactuals import alone
from workbench.corpora.encode import doc_of, encode
from workbench.corpora.text_pairs import TextPair, text_pairs
from workbench.corpora.text_prediction import pair_of
from workbench.engine.batch import Pieces
from workbench.engine.model import Model
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.scoring.generation import Sampling, written_texts

FIRST = 5000  # texts of train that are read for the most frequent one
SHOWN = 200  # characters of a text in a table
MARK = "\0"  # stands for the source in a prompt
COPY, LEAD, FREQUENT, OTHERS = "copy", "lead-3", "most frequent", "another's"
OTHER_QUESTION, OTHER_PASSAGE = "other question", "other passage"
SPANS = "spans"
_FIELD = re.compile(r"\{(source|passage|question|task)\}")


def suits(facts: Mapping[str, Any], corpus: Corpus, settings: TextToText) -> None:
    """Raise if a package, or a text of a pair, or a question is missing."""
    require_extra("text", EXTRA, "text-to-text", str(facts["name"]))
    asks = text_pairs(corpus.docs(limit=1))[0].question is not None
    if facts["task"] and not asks:
        raise WorkbenchError(
            f"{facts['name']} was made for {facts['predicts']['name']}, and this corpus has no "
            "questions.",
            code="no-pairs",
            where=corpus.name,
            remedy="Choose primer/questions or a file of SQuAD, or a model that writes.",
        )
    fields = set(_FIELD.findall(settings.prompt))
    if settings.prompt and not fields & {"source", "passage"}:
        raise WorkbenchError(
            "the prompt has no {source}, so that all texts would be the same.",
            code="setting-invalid",
            where=settings.prompt,
            remedy="Write {source} where the text belongs; of questions {passage} and {question}.",
        )


def run(inputs: Inputs, settings: TextToText, progress: Progress) -> Result:
    """Compute the tables of `text-to-text`."""
    model, corpus = inputs.model, inputs.corpus
    pairs = text_pairs(corpus.docs(inputs.split, inputs.limit))
    index = {source: n for n, source in enumerate(dict.fromkeys(p.source for p in pairs))}
    sample = ClusterSample.of(np.array([index[pair.source] for pair in pairs]), inputs.seed)
    tables: dict[str, pd.DataFrame] = {}
    if model.task_head is not None and model.task_head.task.kind == "answers":
        systems, threshold, caveats = _found(inputs, pairs, progress)
    else:
        writer = Writer(model, settings, inputs.seed, progress)
        systems, rows, caveats = _written(writer, pairs)
        threshold = None
        tables["novelty"] = novelty(pairs, next(iter(systems.values())), sample)
        if any(site.kind == "cross" for site in model.sites):
            tables["coverage"] = coverage(model, writer.read(pairs), rows, sample, progress)
        if settings.attributed:
            sources = writer.sources(pairs, settings.attributed)
            tables |= origin_tables(model, sources, rows, sample, inputs.seed, progress)
    systems |= _nulls(pairs, _frequent(inputs, pairs))
    scores, gains, each = scored(pairs, systems, sample)
    texts = next(iter(systems.values()))
    tables = {"scores": scores, "gains": gains, **tables, "items": _items(pairs, texts, each)}
    if not all(pair.targets for pair in pairs):
        tables["answerable"] = _answerable(pairs, texts, each, threshold)
    kept = {name: table for name, table in tables.items() if len(table)}
    return Result(kept, caveats=tuple(Caveat(text) for text in caveats))


# --- what a model writes --------------------------------------------------------------------------


@dataclass(frozen=True)
class Writer:
    """A model that writes, with the form of what it reads."""

    model: Model
    settings: TextToText
    seed: int
    progress: Progress

    def prompt(self, pair: TextPair, words: int | None = None) -> str:
        """What the model reads for a pair, with so many words of its source (default: all)."""
        source = pair.source if words is None else " ".join(pair.source.split()[:words])
        values = {"source": source, "passage": source, "question": pair.question or "",
                  "task": pair.task}  # fmt: skip
        return _FIELD.sub(lambda found: values[found[1]], self.settings.prompt or self.form(pair))

    def form(self, pair: TextPair) -> str:
        """The default prompt: T5's, or that of GPT-2's paper for decoders."""
        if self.model.objective == "causal":
            return "{passage}\nQ: {question}\nA:" if pair.question else "{source}\nTL;DR:"
        if pair.question is not None:
            return "question: {question} context: {passage}"
        return "{task}: {source}" if pair.task else "{source}"

    def shortened(self, pairs: Sequence[TextPair]) -> list[str]:
        """What the model reads, without the last words of sources that do not fit."""
        tokenizer: Any = self.model.tokenizer  # type: ignore[attr-defined]
        room = self.model.max_pieces or np.inf
        if self.model.objective == "causal":
            room -= self.max_pieces
        texts = [self.prompt(pair) for pair in pairs]

        def size(text: str) -> int:
            return len(tokenizer(text, verbose=False)["input_ids"])

        for n, pair in enumerate(pairs):
            if size(texts[n]) > room:
                words = range(1, len(pair.source.split()) + 1)
                fits = bisect_right(words, room, key=lambda count: size(self.prompt(pair, count)))
                texts[n] = self.prompt(pair, fits)
        return texts

    @property
    def max_pieces(self) -> int:
        """Of a written text; of a decoder at most half of what it reads."""
        longest, most = self.model.max_pieces, self.settings.max_pieces
        if longest is None:
            return most
        return min(most, longest // 2 if self.model.objective == "causal" else longest - 1)

    def read(self, pairs: Sequence[TextPair]) -> Pieces:
        """The pieces that the model reads; after fine-tuning on answers, two texts as there."""
        if self.model.task_head is not None:
            return self.model.encode(encode([pair.doc for pair in pairs]))
        return self.model.encode(encode([doc_of(text) for text in self.shortened(pairs)]))

    def sources(self, pairs: Sequence[TextPair], number: int) -> dict[int, Source]:
        """What the model reads for some of the pairs, and the source's words in it."""
        random = np.random.default_rng([self.seed, len(pairs)])
        chosen = np.sort(random.choice(len(pairs), min(number, len(pairs)), replace=False)).tolist()
        own = [pairs[n] for n in chosen]
        if self.model.task_head is not None:
            docs = [pair.doc for pair in own]
            spans = [doc.spans["segments"][1] for doc in docs]
            ranges = [(span.start_char, span.end_char) for span in spans]
        else:
            docs, ranges = [doc_of(text) for text in self.shortened(own)], []
            for pair, doc in zip(own, docs, strict=True):
                before, _, after = self.prompt(pair._replace(source=MARK)).partition(MARK)
                ranges.append((len(before), len(doc.text) - len(after)))
        read, found = self.read(own), {}
        for row, (n, doc, (first, last)) in enumerate(zip(chosen, docs, ranges, strict=True)):
            text = read.take([row]).narrowed()
            in_source = {t.i: f"{t.i}:{t.lower_}" for t in doc if first <= t.idx < last}
            found[n] = Source(text, [in_source.get(word, "") for word in text.words[0].tolist()])
        return found

    def rows(self, pairs: Sequence[TextPair], decoding: str, activity: str) -> list[list[int]]:
        """The pieces that the model writes."""
        given = self.settings
        return written_texts(
            self.model, self.read(pairs), self.max_pieces,
            given.beams if decoding == "beams" else 1,
            Sampling(True, given.temperature, given.top_p, self.seed)
            if decoding == "sampling" else Sampling(),
            lambda done: self.progress(done, len(pairs), activity),
        )  # fmt: skip

    def texts(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Pieces as texts; a decoder's text ends with its line."""
        tokenizer: Any = self.model.tokenizer  # type: ignore[attr-defined]
        texts = [text.strip() for text in tokenizer.batch_decode(rows, skip_special_tokens=True)]
        is_causal = self.model.objective == "causal"
        return [text.partition("\n")[0].strip() for text in texts] if is_causal else texts


def _written(
    writer: Writer, pairs: Sequence[TextPair]
) -> tuple[dict[str, list[str]], list[list[int]], list[str]]:
    """Texts by decoding and with another question or passage; the pieces of the first; caveats."""
    names: tuple[str, ...] = writer.settings.decoding
    rows = {name: writer.rows(pairs, name, f"writing: {name}") for name in names}
    systems = {name: writer.texts(each) for name, each in rows.items()}
    own = systems[names[0]]
    systems[OTHERS] = [own[n] for n in _others(pairs, lambda pair: pair.source)]
    for name, other in _exchanged(pairs).items():
        systems[name] = writer.texts(writer.rows(other, names[0], f"writing: {name}"))
    if writer.model.task_head is not None:
        caveats = ["The model reads two texts, as when it was fine-tuned; there is no prompt."]
        n_cut = len({row for row, _, _ in writer.read(pairs).cut})
    else:
        read = writer.shortened(pairs)
        caveats = [f"The model reads, for example: {read[0][:SHOWN]!r}."]
        n_cut = sum(text != writer.prompt(pair) for pair, text in zip(pairs, read, strict=True))
    if n_cut:
        caveats.append(
            f"{n_cut:,} of {len(pairs):,} sources are too long for the model; it did not read "
            "their last words."
        )
    if writer.max_pieces < writer.settings.max_pieces:
        caveats.append(f"Texts have at most {writer.max_pieces} pieces, which is all that fits.")
    return systems, rows[names[0]], caveats


def _exchanged(pairs: Sequence[TextPair]) -> dict[str, list[TextPair]]:
    """Questions with another passage, and passages with another question."""
    if pairs[0].question is None:
        return {}
    other_passage = _others(pairs, lambda pair: pair.source)
    other_question = _others(pairs, lambda pair: pair.question)
    return {
        OTHER_QUESTION: [
            _pair_of(pairs[n], pair) for pair, n in zip(pairs, other_question, strict=True)
        ],
        OTHER_PASSAGE: [
            _pair_of(pair, pairs[n]) for pair, n in zip(pairs, other_passage, strict=True)
        ],
    }


def _pair_of(asks: TextPair, tells: TextPair) -> TextPair:
    """The question of one pair with the passage of another one."""
    question, passage = asks.doc.spans["segments"][0], tells.doc.spans["segments"][1]
    return tells._replace(doc=pair_of(alone(question), alone(passage)), question=asks.question)


def _others(pairs: Sequence[TextPair], key: Callable[[TextPair], object]) -> list[int]:
    """The next pair that differs, for each pair; itself if there is none."""
    keys, n = [key(pair) for pair in pairs], len(pairs)
    following = ((other % n for other in range(at + 1, at + n)) for at in range(n))
    return [
        next((other for other in places if keys[other] != keys[at]), at)
        for at, places in enumerate(following)
    ]


# --- answers that a model finds -------------------------------------------------------------------


def _found(
    inputs: Inputs, pairs: Sequence[TextPair], progress: Progress
) -> tuple[dict[str, list[str]], float | None, list[str]]:
    """Answers, also to another question; the threshold of no answer, and caveats."""
    model = inputs.model
    find = partial(_answers, model, progress=progress)
    found = find(pairs, activity="answering")
    threshold, caveats = None, []
    if all(pair.targets for pair in pairs):
        caveats.append("Each question has an answer, and the model must give one (SQuAD 1.1).")
    elif "dev" in inputs.corpus.splits and inputs.split not in ("dev", None):
        dev = text_pairs(inputs.corpus.docs("dev", inputs.limit))
        threshold = best_threshold(dev, find(dev, activity="answering: dev"))
    else:
        threshold = 0.0
        caveats.append("Without a dev split, there is no answer if its score is the highest one.")
    n_windows = sum(each.windows > 1 for each in found)
    if n_windows:
        caveats.append(
            f"{n_windows:,} of {len(pairs):,} passages are too long for the model; they are read "
            "in windows that overlap by half."
        )
    others = find(_exchanged(pairs)[OTHER_QUESTION], activity=f"answering: {OTHER_QUESTION}")
    systems = {
        SPANS: [each.decided(threshold).text for each in found],
        OTHER_QUESTION: [each.decided(threshold).text for each in others],
    }
    return systems, threshold, caveats


def _answers(
    model: Model, pairs: Sequence[TextPair], *, progress: Progress, activity: str
) -> list[AnswerSpans]:
    return answer_spans(
        model, [pair.doc for pair in pairs], top=1,
        on_done=lambda done: progress(done, len(pairs), activity),
    )  # fmt: skip


def best_threshold(pairs: Sequence[TextPair], found: Sequence[AnswerSpans]) -> float:
    """The threshold of no answer with the highest F1."""
    margins = np.array([each.margin for each in found])
    order = margins.argsort(kind="stable")
    gained = [
        answer_scores(pair.targets, each.decided(None).text)[1] - answer_scores(pair.targets, "")[1]
        for pair, each in zip(pairs, found, strict=True)
    ]
    totals = np.concatenate([[0.0], np.cumsum(np.array(gained)[order])])
    n_answered = int(totals.argmax())  # those with the lowest margins
    ends = np.concatenate([[margins.min() - 2], margins[order], [margins.max() + 2]])
    return float((ends[n_answered] + ends[n_answered + 1]) / 2)


# --- nulls, and tables of items -------------------------------------------------------------------


def _frequent(inputs: Inputs, pairs: Sequence[TextPair]) -> str:
    """The most frequent right text of train; without train, of the texts themselves."""
    if "train" in inputs.corpus.splits and inputs.split != "train":
        pairs = text_pairs(inputs.corpus.docs("train", FIRST))
    return Counter((*pair.targets, "")[0] for pair in pairs).most_common(1)[0][0]


def _nulls(pairs: Sequence[TextPair], frequent: str) -> dict[str, list[str]]:
    """Texts of the nulls that need no model."""
    found = {COPY: [pair.source for pair in pairs]}
    if (lead := [pair.lead for pair in pairs]) != found[COPY]:
        found[LEAD] = lead
    return {**found, FREQUENT: [frequent] * len(pairs)}


def _items(
    pairs: Sequence[TextPair], texts: Sequence[str], scores: Sequence[float]
) -> pd.DataFrame:
    rows = []
    for n, (pair, text, score) in enumerate(zip(pairs, texts, scores, strict=True)):
        new, all_words = novel(text, pair.source, 1)
        rows.append(
            {
                "item": n, "task": pair.task, "question": pair.question or "",
                "source": pair.source[:SHOWN], "right": " | ".join(pair.targets)[:SHOWN],
                "written": text[:SHOWN], "score": score, "novel_words": new, "words": all_words,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _answerable(
    pairs: Sequence[TextPair],
    texts: Sequence[str],
    scores: Sequence[float],
    threshold: float | None,
) -> pd.DataFrame:
    """Questions with and without an answer."""
    rows = []
    has = np.array([bool(pair.targets) for pair in pairs])
    answered = np.array([bool(text) for text in texts])
    for name, chosen in (("with an answer", has), ("without an answer", ~has)):
        if n := int(chosen.sum()):
            lower, upper = wilson_interval(int(answered[chosen].sum()), n)
            rows.append(
                {
                    "questions": name, "answered": answered[chosen].mean(), "lower": lower,
                    "upper": upper, "f1": np.array(scores)[chosen].mean(),
                    "threshold": np.nan if threshold is None else threshold, "n": n,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)
