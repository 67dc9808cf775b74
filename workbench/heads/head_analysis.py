"""What every attention head of a model does: the experiment `heads`.

One pass in which every head answers every question (`collect`), and what it does with a few
sentences is kept and shown (`examples`) and compared (`clustering`); and one over random blocks
that come twice (`induction`). Costs little more than a forward pass over the corpus; memory does
not grow with it.
"""

from collections.abc import Iterator, Mapping

from workbench.core.errors import WorkbenchError
from workbench.core.experiment import Caveat, Inputs, Progress, Result, few_sentences
from workbench.corpora.corpus import Corpus
from workbench.corpora.encode import encode
from workbench.corpora.text import READ_WITH
from workbench.engine.taps import Site
from workbench.heads import clustering, tables
from workbench.heads.collect import Answers, Asking, look
from workbench.heads.examples import Sample, chosen, few, looks, words
from workbench.heads.experiments import Heads
from workbench.heads.gold import Gold, gold_of
from workbench.heads.induction import repeats
from workbench.heads.roles import Rules

MOST = 0.5  # of all maxima are to be reliable, else a caveat says so


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
    gold = gold_of(docs, settings.subtypes, settings.n_frequent_words)
    if by_pieces:
        gold = _without_words(gold)
    batch = encode(docs)
    asking = Asking(
        settings.min_word_attention,
        settings.n_bootstrap,
        settings.n_shuffles,
        inputs.seed,
        by_pieces,
    )
    model = inputs.model
    some = chosen(gold, settings.max_examples)
    sample = Sample(settings.min_word_attention, len(some), frozenset(some))
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
        settings.positional_threshold,
        settings.rare_threshold,
        settings.baseline_margin,
        settings.relative_margin,
        settings.alpha,
    )
    followed = tables.relations(answers, sums, gold, rules, settings.min_count)
    found = {
        "heads": tables.heads(answers, sums, followed, copies, rules, settings.min_count),
        "best": tables.best(followed, settings.min_count),
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
            theirs = few(
                other, encode(docs[place] for place in some), settings.min_word_attention, some
            )
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
            f"reliable (attention on words < {settings.min_word_attention:g}, or a tie). They "
            "count as misses for offsets, roles and accuracy_confident."
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
