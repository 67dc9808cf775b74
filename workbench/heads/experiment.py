"""What every attention head of a model does: the experiment `heads`.

One pass in which every head answers every question (`looking`), and what it does with a few
sentences is kept (`few`), shown (`shown`) and compared (`kin`); and one over random blocks that
come twice (`blocks`). Costs little more than a forward pass over the corpus; memory does not grow
with it.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field, model_validator

from workbench.core.errors import WorkbenchError
from workbench.core.experiment import (
    HEADS,
    Caveat,
    Experiment,
    Inputs,
    Progress,
    Result,
    Settings,
    Table,
    few_sentences,
)
from workbench.corpora.corpus import Corpus
from workbench.corpora.encode import encode
from workbench.corpora.text import READ_WITH
from workbench.engine.taps import Site
from workbench.heads import clustering, tables
from workbench.heads.collect import Answers, Asking, look
from workbench.heads.examples import Sample, chosen, few, looks, words
from workbench.heads.gold import Gold, gold_of
from workbench.heads.induction import repeats
from workbench.heads.roles import Rules

HEAD = tables.HEAD
ENDS = ("", "_lower", "_upper")
MOST = 0.5  # of all maxima are to be reliable, else a caveat says so


class Heads(Settings):
    """What is asked, and when a head is called what."""

    level: Literal["words", "pieces"] = Field(
        "words",
        description="Words: summed over the pieces looked at, averaged over those that look. "
        "Pieces: each by itself; then there are no relations, no rare words and no coreference.",
    )
    subtypes: bool = Field(False, description="Tell nsubj:pass from nsubj; else main types alone.")
    positional: float = Field(
        0.9, gt=0, le=1, description="Share of words that look at one offset, for that role."
    )
    margin: float = Field(
        0.1, ge=0, le=1, description="By how much a relation's best fixed offset is to be beaten."
    )
    relative: bool = Field(
        False, description="The margin is a share of the baseline, not percentage points."
    )
    alpha: float = Field(
        0.01, gt=0, lt=1, description="Significance, corrected over all heads and relations."
    )
    residual: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Attention on words below which their maximum is not reliable: it does not "
        "count for roles, offsets and accuracy_confident (default 0.05).",
    )
    least: int = Field(
        10,
        ge=1,
        le=1_000_000_000,
        description="Words, arcs or mentions that a role must rest on.",
    )
    frequent: int = Field(
        500,
        ge=0,
        le=1_000_000_000,
        description="So many words of the corpus are frequent; all others are rare.",
    )
    rare: float = Field(
        0.5, gt=0, le=1, description="Share of words that look at the rarest, for that role."
    )
    shuffles: int = Field(200, ge=10, le=5000, description="Shuffled trees behind a p-value.")
    draws: int = Field(200, ge=20, le=5000, description="Drawings behind an interval.")
    examples: int = Field(
        40,
        ge=0,
        le=500,
        description="Sentences shown word by word, and by which heads are compared (default 40; of "
        "long documents as many as have 4,000 words).",
    )

    @model_validator(mode="after")
    def _enough(self) -> "Heads":
        if 1 / (self.shuffles + 1) >= self.alpha:
            raise ValueError(
                f"{self.shuffles} shuffles cannot show a significance of {self.alpha}; "
                f"give {int(1 / self.alpha) + 1} or more"
            )
        return self


TABLES = {
    "heads": Table(
        "Every head. role: what it does best; roles: all it does. confidence: mean largest weight, "
        "separators left out; entropy: over its greatest; distance: mean, in words. offset_share: "
        "of words that have one there; its p-value against words chosen at random. reliable: words "
        "whose maximum is reliable. relation_accuracy: accuracy of the best relation, next to the "
        "best simple rule (relation_baseline). rare_share: words that look at the rarest one, next "
        "to shuffles (rare_null) and the word of most pieces (rare_longest). Masses are means over "
        "words, normed: weighted by the length of written values; `_even`: what uniform attention "
        "gives. induction and duplicate: on random blocks that come twice. `_lower` and `_upper`: "
        "the middle 95 % of bootstrap samples of documents.",
        HEAD,
        (
            "offset",
            "relation_baseline",
            *(f"offset_share{end}" for end in ENDS),
            *(f"relation_accuracy{end}" for end in ENDS),
        ),
    ),
    "relations": Table(
        "accuracy: arcs whose word has its argmax over the other words on its partner, as Clark et "
        "al. (2019) count: no minimum of attention, each dependent once in both directions; a tie "
        "is a miss. accuracy_confident: the argmax counts only where it is reliable (words get the "
        "residual attention, no tie); reliable: the share of those. accuracy_any_dependent: each "
        "head word once, any of its dependents a hit. Baselines, counted like accuracy: the best "
        "fixed offset; the first word; the word of most pieces (baseline_longest), where uniform "
        "attention has its maximum. difference: accuracy_confident less the best of them. "
        "p_value_baseline: sign test over sentences against every rule; p_value: against shuffled "
        "trees (null_mean); both corrected over heads, relations and directions. syntactic: "
        "accuracy_confident beats all of them by the margin, the difference's interval is above 0, "
        "and both p-values are below alpha.",
        (*HEAD, "relation", "direction"),
        ("baseline_offset",),
    ),
    "best": Table(
        "Of each relation and direction the head of the highest accuracy, whatever its role; "
        "gain: above the best baseline. Columns as in `relations`.",
        ("relation", "direction"),
        ("stack", "kind", "layer", "head", "baseline_offset"),
    ),
    "offsets": Table(
        "Words that look at the word so far to the right (left: negative), of those that have one.",
        (*HEAD, "offset"),
    ),
    "cross": Table(
        "How a decoder's heads go along what the encoder read. order: correlation of a word's "
        "place with where it looks; same, first, last: words that look at the word of the same "
        "place, the first, the last; special: that give special pieces more than words.",
        ("stack", "layer", "head"),
    ),
    "clusters": Table(
        "Heads by how alike they look (average linkage of root Jensen-Shannon divergences in "
        "bits), their place on a map, and the nearest other head.",
        HEAD,
        ("cluster", "x", "y", "nearest_layer", "nearest_head"),
    ),
    "dendrogram": Table(
        "The order in which heads join; a number below that of heads is a row of `clusters`, "
        "others are earlier rows of this table.",
        ("left", "right"),
    ),
    "kin": Table(
        "Of each head the nearest one in the other model.", HEAD, ("kin_layer", "kin_head")
    ),
    "looks": Table(
        "Which other word each word looks at, in some sentences; -1: no reliable maximum.",
        (*HEAD, "sentence", "word"),
        ("looks_at",),
    ),
    "words": Table(
        "The words of those sentences, with their gold.",
        ("sentence", "word"),
        ("start", "governor"),
    ),
}


def run(inputs: Inputs, settings: Heads, progress: Progress) -> Result:
    """Ask every head everything, once."""
    docs = list(inputs.docs())
    if not docs:
        raise WorkbenchError(
            "there is no sentence to look at.",
            where=inputs.corpus.name,
            remedy="Name a corpus or a split that has some.",
        )
    by_pieces = settings.level == "pieces"
    gold = gold_of(docs, settings.subtypes, settings.frequent)
    if by_pieces:
        gold = _without_words(gold)
    batch = encode(docs)
    asking = Asking(settings.residual, settings.draws, settings.shuffles, inputs.seed, by_pieces)
    model = inputs.model
    some = chosen(gold, settings.examples)
    sample = Sample(settings.residual, len(some), frozenset(some))
    answers = look(
        model,
        batch,
        gold,
        asking,
        lambda now: progress(now.done, now.total, "sentences"),
        sample=sample if some else None,
    )
    progress(len(docs), len(docs), "blocks that come twice")
    copies = repeats(model, model.encode(batch, [0]), inputs.seed)
    sums = tables.sums_of(answers, gold)
    rules = Rules(
        settings.positional, settings.rare, settings.margin, settings.relative, settings.alpha
    )
    followed = tables.relations(answers, sums, gold, rules, settings.least)
    found = {
        "heads": tables.heads(answers, sums, followed, copies, rules, settings.least),
        "best": tables.best(followed, settings.least),
        "relations": followed,
        "offsets": tables.offsets(sums),
        "cross": tables.cross(sums),
    }
    progress(len(docs), len(docs), "comparing heads")
    if some:
        own = sample.found(model)
        found |= {
            "looks": looks(own),
            "words": words({place: docs[place] for place in some}, settings.subtypes),
            **clustering.clusters(own),
        }
        for other in inputs.models[1:]:
            theirs = few(other, encode(docs[place] for place in some), settings.residual, some)
            found["kin"] = clustering.kin(own, theirs, other.name)
    reliable = tables.reliable(sums)
    caveats = _caveats(inputs, gold, answers, copies, settings, reliable)
    return Result(found, caveats=tuple(caveats))


def _without_words(gold: Gold) -> Gold:
    """What is asked of pieces: nothing that is known of words."""
    nothing = gold.arcs[0][:0] if gold.arcs else None
    return Gold(
        (),
        tuple(nothing for _ in gold.arcs),  # type: ignore[misc]
        tuple(ranks[:0] for ranks in gold.ranks),
        tuple(sentences[:0] for sentences in gold.sentences),
        tuple(() for _ in gold.questions),
        gold.frequent,
    )


def _caveats(
    inputs: Inputs,
    gold: Gold,
    answers: Answers,
    copies: Mapping[Site, object],
    settings: Heads,
    reliable: float,
) -> Iterator[Caveat]:
    report = answers.report
    if reliable < MOST:
        yield Caveat(
            f"For {100 * (1 - reliable):.0f} % of words, of all heads together, the maximum is not "
            f"reliable (attention on words < {settings.residual:g}, or a tie). They count as "
            "misses for offsets, roles and accuracy_confident."
        )
    yield from map(Caveat, few_sentences(report.documents))
    if report.cut:
        yield Caveat(f"{report.cut:,} words beyond the model's length were not read.")
    if report.unaligned:
        yield Caveat(
            f"The tokenizer made nothing of {report.unaligned:,} words; they are left out."
        )
    if len({site.stack for site in answers.sites}) > 1:
        yield Caveat(
            "The decoder was given the same text as the encoder, a piece behind: a word's place "
            "is where it is read, not where it is written."
        )
    if gold.has_arcs and (by := _predicted_by(inputs.corpus)):
        yield Caveat(f"The trees were predicted, by {by}: they are no gold.", ("relations", "best"))
    if settings.level == "pieces":
        yield Caveat("By pieces there are no relations, no rare words and no coreference.")
    elif not gold.has_arcs:
        yield Caveat(
            "The corpus has no dependencies: no head can be called syntactic.",
            ("relations", "best", "heads"),
        )
    if settings.level == "words" and not gold.has_questions:
        yield Caveat("The corpus has no coreference: no head can be called by it.", ("heads",))
    unknown = [site.name for site in answers.sites if site not in answers.normed]
    if unknown:
        yield Caveat(
            f"What {len(unknown)} of {len(answers.sites)} attention sites write is not known: "
            "their special_mass_normed is 0.",
            ("heads",),
        )
    if not copies:
        yield Caveat(
            "No blocks that come twice fit this model: induction and duplicate are 0.", ("heads",)
        )


def _predicted_by(corpus: Corpus) -> str:
    """The pipeline that a corpus of raw text was read with; "" where trees are its own."""
    before, after = READ_WITH.split("{}")
    for note in corpus.notes:
        if note.startswith(before):
            return "the spaCy pipeline " + note.removeprefix(before).removesuffix(after)
    return ""


EXPERIMENT = Experiment(
    name="heads",
    version=2,
    about="What every attention head does: positional, syntactic, rare-token and other roles, "
    "with baselines, nulls and intervals.",
    settings=Heads,
    run=run,
    exact_up_to=1e9,
    tables=TABLES,
    needs=(HEADS,),
    models=(1, 2),
    split="held-out",
    figures="workbench.figures.heads:FIGURES",
)
