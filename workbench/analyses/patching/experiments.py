"""The experiment `patching`: settings and tables.

Nothing here imports torch or spaCy, so that listing experiments is fast. Costs: nothing; the code
is imported when an experiment first runs.
"""

from typing import Literal

from pydantic import Field

from workbench.experiment.definition import HEAD, LM_HEAD, Demo, Experiment, Need, Settings, Table
from workbench.experiment.measured import OBJECTIVE

EXCHANGES = Need(
    "a language-model head, for its pairs exchange a predicted word",
    LM_HEAD.met,
    "wb.patch, and patching of one text in the app, compare the classes of two texts.",
)

Restored = Literal["states", "heads", "mlps"]


class PatchingOverCorpus(Settings):
    """Which pairs are read, and what is restored in them."""

    restore: tuple[Restored, ...] = Field(
        ("states", "heads", "mlps"),
        min_length=1,
        description="Activations to restore (default: states, heads, mlps).",
    )
    phenomena: tuple[str, ...] = Field(
        (), description="Phenomena whose pairs are used (default: all)."
    )
    max_pairs: int = Field(
        200, ge=1, le=100_000, description="Maximum number of pairs, drawn at random (default 200)."
    )
    random_pairs: int = Field(
        2,
        ge=1,
        le=100,
        description="Unrelated texts whose activations are restored in each pair, as a null "
        "(default 2).",
    )

    def in_prose(self) -> str:
        names = {
            "states": "the states of each layer, by place",
            "heads": "the output of each attention head",
            "mlps": "the output of each MLP",
        }
        what = [names[each] for each in self.restore]
        listed = " and ".join([", ".join(what[:-1]), what[-1]] if len(what) > 1 else what)
        null = (
            "an unrelated text"
            if self.random_pairs == 1
            else f"{self.random_pairs} unrelated texts"
        )
        return (
            f"For at most {self.max_pairs:,} counterfactual pairs, drawn at random, we restored "
            f"activations of the clean text in a pass over the corrupt text (activation patching; "
            f"Vig et al. 2020, Meng et al. 2022): {listed}. The effect is the difference of the "
            "logits of the two texts' words above that of the corrupt text, as a share of the "
            "difference between both texts (Zhang and Nanda 2024), over the pairs that the model "
            f"distinguishes. The null restores the activations of {null} of the same alignment; "
            "p-values are those of sign flips over distinct exchanges of words, corrected for all "
            "cells of a table (Westfall and Young). Intervals are bootstrapped over exchanges."
        )


_OF_EFFECT = (
    "effect: restored share of the difference between both texts (0: none, 1: all), over the n "
    "pairs that the model distinguishes; lower, upper: its 95 % bootstrap interval over exchanges "
    "of words. random: the same for unrelated texts of the same alignment. nats: mean effect above "
    "that of unrelated texts, over all n_tested pairs with such texts. p: of sign flips over "
    "exchanges (two-sided, corrected for the rows of the table). restores: p < 0.05, nats above 0, "
    "and the interval of the effect above 0."
)

PATCHING = Experiment(
    name="patching",
    about="Which states, heads and MLPs carry what decides between two words?",
    subject="Predictions",
    settings=PatchingOverCorpus,
    run="workbench.analyses.patching.patching_corpus:run",
    tables={
        "pairs": Table(
            "What the model predicts for the pairs of each phenomenon, and for all. clean_prefers: "
            "share of pairs whose clean text makes its word more probable than the other; "
            "corrupt_prefers: whose corrupt text makes the other more probable. clean, corrupt: "
            "mean logit of the clean text's word minus that of the corrupt text's word. "
            "difference: the first minus the second, with its 95 % bootstrap interval over "
            "exchanges of words. p: of sign flips over exchanges (one-sided; Holm over phenomena). "
            "significant: p < 0.05. n: pairs; distinguished: of these, with a difference above 0.1 "
            "nats; with_random: with an unrelated text of the same alignment; exchanges: distinct "
            "exchanges of words; left_out: further pairs that could not be used.",
            ("phenomenon",),
        ),
        "states": Table(
            "Effects of restored states. layer 0: before the first block. place: changed (the "
            "exchanged words), between (words between these and the predicted word), previous (the "
            "last word before it), predicted (the piece that predicts; in an encoder below a "
            "decoder, the mark of the hidden word), special (special pieces), other. All pieces of "
            f"a place are restored together. {_OF_EFFECT}",
            ("stack", "layer", "place"),
        ),
        "heads": Table(
            f"Effects of restored outputs of attention heads, at all pieces. {_OF_EFFECT}", HEAD
        ),
        "mlps": Table(
            "Effects of restored outputs of MLPs, at all pieces. layer: the block, from 0. "
            f"{_OF_EFFECT}",
            ("stack", "layer"),
        ),
        "objective": OBJECTIVE,
    },
    version=2,
    needs=(EXCHANGES,),
    measures=True,
    split="held-out",
    exact_up_to=1e9,
    figures="workbench.analyses.patching.figures.patching_corpus:FIGURES",
    findings="workbench.analyses.patching.findings:patching",
    papers=(
        "vig-2020-mediation", "meng-2022-rome", "wang-2023-ioi", "zhang-2024-patching",
    ),
    title="Activation patching of",
    demo=Demo(
        "Where GPT has what decides between two words: activation patching",
        models=("mini:gpt",), corpora=("primer/counterfactuals",), settings={"max_pairs": 40},
        order=25,
    ),
)  # fmt: skip
