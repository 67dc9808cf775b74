"""The experiments of predictions: settings and tables.

Nothing here imports torch or spaCy, so that listing experiments is fast. Costs: nothing; the code
is imported when an experiment first runs.
"""

from pydantic import Field

from workbench.core.experiment import Experiment, Table
from workbench.core.splits import SplitSettings
from workbench.basics.experiments import LM_HEAD

# --- lens -----------------------------------------------------------------------------------------

# --- tuned-lens -----------------------------------------------------------------------------------


class TunedLens(SplitSettings):
    """How many texts the maps learn from, and for how long."""

    max_train: int | None = Field(
        2000, ge=1, description="Maximum number of texts to train the maps on (default 2000)."
    )
    max_dev: int | None = Field(
        200, ge=1, description="Maximum number of dev texts, for early stopping (default 200)."
    )
    max_test: int | None = Field(
        500, ge=1, description="Maximum number of texts to score (default 500)."
    )
    steps: int = Field(
        250, ge=1, le=1_000_000, description="Maximum number of training steps (default 250)."
    )
    batch_size: int = Field(
        32, ge=1, le=100_000, description="Texts in the batch of a step (default 32)."
    )
    learning_rate: float = Field(
        1e-3, gt=0, le=1, description="Learning rate of AdamW (default 0.001)."
    )

    def in_prose(self) -> str:
        return (
            "For each layer we trained an affine map of its states, a tuned lens (Belrose et al. "
            "2023): the model's own head then predicts from the mapped states. A map is the "
            "identity at first, which is the logit lens, and learns to minimise the "
            "Kullback-Leibler divergence of its distribution from that of the last layer, for at "
            f"most {self.steps:,} steps of {self.batch_size:,} texts, with early stopping on dev. "
            "Masked models predict 15 % of the pieces, causal models all, encoder-decoders the "
            "pieces of hidden spans, ELMo each word in both directions. Layers of an encoder below "
            "a decoder are read by the whole decoder (Langedijk et al. 2023). All losses are on "
            "held-out texts, with 95 % bootstrap intervals over texts."
        )


_LENS = (
    "lens: logit (no map) or tuned. Layer 0 is the embeddings; at the last layer both lenses are "
    "the model's own prediction."
)
_LAYER = ("stack", "layer")

TUNED_LENS = Experiment(
    name="tuned-lens",
    about="What does each layer predict, read by the logit lens and by a trained affine map?",
    settings=TunedLens,
    run="workbench.attribution.tuned_lens:run",
    tables={
        "layers": Table(
            "How close each layer's prediction is to the final one, on held-out texts. loss: "
            "Kullback-Leibler divergence of the lens's distribution from the final one, mean in "
            "nats. agreement: share of predictions with the same most likely choice. accuracy, "
            "cross_entropy: share right, and mean loss in nats, for the true pieces. gain: "
            "cross-entropy of piece frequencies minus that of the lens, in nats. lower, upper and "
            f"columns with these endings: 95 % bootstrap intervals over texts. {_LENS} n: number "
            "of predictions.",
            (*_LAYER, "lens"),
        ),
        "gains": Table(
            "The logit lens against the tuned lens at each layer. measure: loss and agreement as "
            "in `layers`, bias as in `bias`. gain: how much closer to the final prediction the "
            "tuned lens is (in nats, or as a difference of agreement). lower, upper: 95 % "
            "bootstrap interval over texts. better: the interval is above 0.",
            (*_LAYER, "measure"),
        ),
        "bias": Table(
            "The bias of each lens: Kullback-Leibler divergence of the lens's mean distribution "
            "over all predictions from the final layer's mean distribution, in nats. A lens "
            "without bias has 0. lower, upper: 95 % bootstrap interval over texts (100 samples). "
            f"{_LENS}",
            (*_LAYER, "lens"),
        ),
        "baselines": Table(
            "Predictions that need no layer, on the same texts. model: its final prediction; "
            "constant: the model's mean distribution on the train split; frequencies: relative "
            "frequencies of pieces in the train split, plus one. Columns as in `layers`.",
            ("baseline",),
        ),
        "curve": Table(
            "Loss by training step, in nats. split: train (mean since the row before) or dev. "
            "Step 0 is the logit lens.",
            (*_LAYER, "split", "step"),
        ),
        "training": Table(
            "The maps. best_step: the step of the kept map, by its loss on dev (0: the logit "
            "lens). dev_logit, dev_tuned: loss on dev before training and of the kept map, in "
            "nats. converged: it no longer improved when training ended. learnt: the kept map is "
            "better than no map on dev.",
            _LAYER,
        ),
        "facts": Table(
            "Numbers of texts, predictions and steps, and what the maps belong to.", ("fact",)
        ),
    },
    needs=(LM_HEAD,),
    exact_up_to=1e9,
    figures="workbench.figures.tuned_lens:FIGURES",
    findings="workbench.attribution.findings:tuned_lens",
    papers=("belrose-2023-tuned-lens", "nostalgebraist-2020-lens", "langedijk-2023-decoderlens"),
)

# --- contributions --------------------------------------------------------------------------------

# --- attribution ----------------------------------------------------------------------------------
