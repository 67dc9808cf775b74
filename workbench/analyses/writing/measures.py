"""Scores of written texts as published: ROUGE, chrF, BLEU, and SQuAD's exact match and F1.

ROUGE is rouge-score's with stemming, chrF and BLEU are sacrebleu's. Each is counts per text and a
function of their sums, so that BLEU too is that of a corpus in every bootstrap sample. All systems
are scored on the same samples of sources, hence their differences too. Costs: 1 ms per text.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from workbench.core.arrays import Floats
from workbench.core.cluster_sample import ClusterSample
from workbench.core.metrics import Metric, answer_metrics
from workbench.core.stats import interval, interval_around, ratio, resampled
from workbench.corpora.text_pairs import TextPair

ROUGE = ("rougeL", "rouge1", "rouge2")
ORDER = 4  # of BLEU's and of novel n-grams
_WORD = re.compile(r"\w+")


def metrics(pairs: Sequence[TextPair], texts: Sequence[str]) -> dict[str, Metric]:
    """The metrics of texts for these pairs; the first one decides."""
    if pairs[0].question is not None:
        found = answer_metrics([pair.targets for pair in pairs], texts)
        return {"f1": found["f1"], "exact_match": found["exact_match"]}
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    rouge, chrf, bleu = (
        RougeScorer(list(ROUGE), use_stemmer=True),
        CHRF(),
        BLEU(effective_order=True),
    )
    means: dict[str, list[float]] = {name: [] for name in (*ROUGE, "chrF")}
    counts = []  # matches and n-grams of each order, length, length of the right text
    for pair, text in zip(pairs, texts, strict=True):
        (target,) = pair.targets
        for name, score in rouge.score(target, text).items():
            means[name].append(score.fmeasure)
        means["chrF"].append(chrf.sentence_score(text, [target]).score / 100)
        each = bleu.sentence_score(text, [target])
        counts.append([*each.counts, *each.totals, each.sys_len, each.ref_len])
    ones = np.ones(len(texts))
    found = {name: Metric(np.stack([values, ones], 1), _mean) for name, values in means.items()}
    return {**found, "BLEU": Metric(np.array(counts, dtype=np.float64), _bleu)}


def _mean(sums: Floats) -> Floats:
    return ratio(sums[..., 0], sums[..., 1], np.nan)


def _bleu(sums: Floats) -> Floats:
    """BLEU of a corpus from its counts.  # [..., 2 * ORDER + 2] -> [...]"""
    from sacrebleu.metrics.bleu import BLEU

    def one(counts: Floats) -> float:
        numbers = [int(count) for count in counts]
        score = BLEU.compute_bleu(
            numbers[:ORDER], numbers[ORDER : 2 * ORDER], sys_len=numbers[-2], ref_len=numbers[-1]
        )
        return float(score.score) / 100

    return np.apply_along_axis(one, -1, sums)


def scored(
    pairs: Sequence[TextPair], systems: Mapping[str, Sequence[str]], sample: ClusterSample
) -> tuple[pd.DataFrame, pd.DataFrame, list[float]]:
    """The tables `scores` and `gains`, and the deciding score of each text of the first system."""
    each = {name: metrics(pairs, texts) for name, texts in systems.items()}
    own = next(iter(each))
    rows, gains = [], []
    for metric, found in each[own].items():
        measure = found.measure
        counts = np.stack([sample.sums(each[name][metric].counts) for name in each])
        values = measure(counts.sum(1))  # [systems]
        draws = resampled(counts[:, None], measure, sample.seed)  # [systems, draws]
        lower, upper = interval_around(values, draws)
        n = {"n": len(pairs), "sources": sample.n_clusters}
        for place, name in enumerate(each):
            rows.append(
                {
                    "metric": metric, "system": name, "value": values[place],
                    "lower": lower[place], "upper": upper[place], **n,
                }
            )  # fmt: skip
            if place:
                low, high = interval(draws[0] - draws[place])
                gains.append(
                    {
                        "metric": metric, "system": name, "difference": values[0] - values[place],
                        "lower": float(low), "upper": float(high), **n,
                    }
                )  # fmt: skip
    first = next(iter(each[own].values()))
    return pd.DataFrame(rows), pd.DataFrame(gains), first.measure(first.counts).tolist()


# --- words that are in no source ------------------------------------------------------------------


def novelty(pairs: Sequence[TextPair], texts: Sequence[str], sample: ClusterSample) -> pd.DataFrame:
    """The table `novelty`: n-grams that are not in the source, of written and of right texts."""
    rows = []
    for n in range(1, ORDER + 1):
        counts = np.array(
            [
                [*novel(text, pair.source, n), *novel(" ".join(pair.targets[:1]), pair.source, n)]
                for pair, text in zip(pairs, texts, strict=True)
            ],
            dtype=np.float64,
        )  # [texts, 4]
        part, whole = counts[:, ::2], counts[:, 1::2]
        if not whole.sum(0).all():
            continue
        shares = part.sum(0) / whole.sum(0)
        lower, upper = sample.ratio_interval(part, whole)
        rows.append(
            {
                "n": n, "written": shares[0], "lower": lower[0], "upper": upper[0],
                "right": shares[1], "right_lower": lower[1], "right_upper": upper[1],
                "ngrams": int(whole[:, 0].sum()),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def novel(text: str, source: str, n: int) -> tuple[int, int]:
    """How many n-grams of words of a text are not in a source, and how many it has."""
    own, known = _ngrams(text, n), _ngrams(source, n)
    return sum(count for gram, count in own.items() if gram not in known), own.total()


def _ngrams(text: str, n: int) -> Counter[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return Counter(tuple(words[at : at + n]) for at in range(len(words) - n + 1))
