"""What each attention head of a model does: the experiment `heads`.

One pass over the corpus measures every head (`collect`); its attention in some sentences is stored
(`examples`) and compared between heads (`clustering`). Another pass is over random blocks that
occur twice (`induction`). Costs: little more than a forward pass over the corpus; memory does not
grow with the corpus.
"""

from collections.abc import Iterator, Mapping

from workbench.analyses.heads import clustering, tables
from workbench.analyses.heads.collect import HeadSums, PassSettings, look
from workbench.analyses.heads.examples import (
    Sample,
    choose_documents,
    looks_table,
    sample_documents,
    words_table,
)
from workbench.analyses.heads.experiments import Heads
from workbench.analyses.heads.gold import Gold, gold_of
from workbench.analyses.heads.induction import repeats
from workbench.analyses.heads.roles import Rules
from workbench.core.errors import WorkbenchError
from workbench.corpora.corpus import Corpus
from workbench.corpora.encode import encode
from workbench.corpora.readers.text import READ_WITH
from workbench.corpora.splits import few_sentences_caveat
from workbench.engine.taps import Site
from workbench.experiment.definition import Caveat, Inputs, Progress, Result, unread_caveat

MIN_RELIABLE = 0.5  # share of reliable maxima below which there is a caveat


def run(inputs: Inputs, settings: Heads, progress: Progress) -> Result:
    """Compute the tables of `heads`."""
    docs = list(inputs.docs())
    if not docs:
        raise WorkbenchError(
            "the corpus or split has no sentence.",
            code="too-few-sentences",
            where=inputs.corpus.name,
            remedy="Choose a corpus or a split with at least one sentence.",
        )
    by_pieces = settings.level == "pieces"
    gold = gold_of(docs, settings.subtypes, settings.n_frequent_words)
    if by_pieces:
        gold = _without_words(gold)
    batch = encode(docs)
    pass_settings = PassSettings(
        settings.min_word_attention,
        settings.n_bootstrap,
        settings.n_shuffles,
        inputs.seed,
        by_pieces,
    )
    model = inputs.model
    examples = choose_documents(gold, settings.max_examples)
    sample = Sample(settings.min_word_attention, len(examples), frozenset(examples))
    head_sums = look(
        model,
        batch,
        gold,
        pass_settings,
        lambda now: progress(now.done, now.total, "measuring attention"),
        sample=sample if examples else None,
    )
    progress(len(docs), len(docs), "measuring induction on repeated random blocks")
    copies = repeats(model, model.encode(batch, [0]), inputs.seed)
    sums = tables.sums_of(head_sums, gold)
    rules = Rules(
        settings.positional_threshold,
        settings.rare_threshold,
        settings.baseline_margin,
        settings.relative_margin,
        settings.alpha,
    )
    relations = tables.relations(head_sums, sums, gold, rules, settings.min_count)
    results = {
        "heads": tables.heads(head_sums, sums, relations, copies, rules, settings.min_count),
        "best": tables.best(relations, settings.min_count),
        "relations": relations,
        "offsets": tables.offsets(sums),
        "cross": tables.cross(sums),
    }
    progress(len(docs), len(docs), "comparing heads")
    if examples:
        stored = sample.stored(model)
        results |= {
            "looks": looks_table(stored),
            "words": words_table({index: docs[index] for index in examples}, settings.subtypes),
            **clustering.clusters(stored),
        }
        for other in inputs.models[1:]:
            theirs = sample_documents(
                other,
                encode(docs[index] for index in examples),
                settings.min_word_attention,
                examples,
            )
            results["kin"] = clustering.kin(stored, theirs, other.name)
    reliable = tables.reliable(sums)
    caveats = _caveats(inputs, gold, head_sums, copies, settings, reliable)
    return Result(results, caveats=tuple(caveats))


def _without_words(gold: Gold) -> Gold:
    """The gold for the level of pieces: nothing that is annotated on words."""
    no_arcs = gold.arcs[0][:0] if gold.arcs else None
    return Gold(
        (),
        tuple(no_arcs for _ in gold.arcs),  # type: ignore[misc]
        tuple(ranks[:0] for ranks in gold.ranks),
        tuple(sentences[:0] for sentences in gold.sentences),
        tuple(() for _ in gold.anaphors),
        gold.frequent,
    )


def _caveats(
    inputs: Inputs,
    gold: Gold,
    head_sums: HeadSums,
    copies: Mapping[Site, object],
    settings: Heads,
    reliable: float,
) -> Iterator[Caveat]:
    report = head_sums.report
    if reliable < MIN_RELIABLE:
        yield Caveat(
            f"For {100 * (1 - reliable):.0f} % of words, over all heads, the maximum is not "
            f"reliable (attention on words < {settings.min_word_attention:g}, or a tie). They "
            "count as misses for offsets, roles and accuracy_confident."
        )
    yield from map(Caveat, few_sentences_caveat(report.documents))
    yield from unread_caveat(report.cut)
    if report.unaligned:
        yield Caveat(
            f"Words without a piece of their own are left out ({report.unaligned:,}): they share "
            "the piece of another word, or the tokenizer drops them."
        )
    if len({site.stack for site in head_sums.sites}) > 1:
        yield Caveat(
            "The decoder reads the same text as the encoder, shifted by one piece. The position of "
            "a word is where the decoder reads it, not where it predicts it."
        )
    if gold.has_arcs and (by := _predicted_by(inputs.corpus)):
        yield Caveat(f"The trees are predictions of {by}, not gold.", ("relations", "best"))
    if settings.level == "pieces":
        yield Caveat("At the level of pieces there are no relations, rare words or coreference.")
    elif not gold.has_arcs:
        yield Caveat(
            "The corpus has no dependencies, so no head can be syntactic.",
            ("relations", "best", "heads"),
        )
    if settings.level == "words" and not gold.has_coreference:
        yield Caveat(
            "These sentences have no coreference, so no head can have that role.", ("heads",)
        )
    unknown = [site.name for site in head_sums.sites if site not in head_sums.normed]
    if unknown:
        yield Caveat(
            f"The values of {len(unknown)} of {len(head_sums.sites)} attention sites are not "
            "known; their special_mass_normed is 0.",
            ("heads",),
        )
    if windows := sorted({site.window for site in head_sums.sites if site.window}):
        yield Caveat(
            f"Heads see at most {' or '.join(map(str, windows))} pieces to each side. Arcs, "
            "earlier mentions and offsets beyond that do not count, for heads, baselines and nulls."
        )
    if not copies:
        yield Caveat(
            "Random blocks that occur twice do not fit this model: induction and duplicate are 0.",
            ("heads",),
        )


def _predicted_by(corpus: Corpus) -> str:
    """The pipeline that annotated a corpus of raw text; "" if the trees are gold."""
    before, after = READ_WITH.split("{}")
    for note in corpus.notes:
        if note.startswith(before):
            return "the spaCy pipeline " + note.removeprefix(before).removesuffix(after)
    return ""
