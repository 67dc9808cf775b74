"""Which words of a text speak for a prediction: `wb.attribute`.

    wb.attribute(model, "Ben [MASK] to the hill.")
    wb.attribute(model, "The dogs ___ here.", "are", against="is")

One call finds the prediction and the target (`explained`) and attributes it (`methods`), by default
as the page does: by the method that `agreement` chooses for this prediction. Costs: as the method;
the choice, some hundred passes over the text.
"""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from workbench.analyses.attribution.agreement import most_faithful
from workbench.analyses.attribution.faithfulness import Faithfulness, faithfulness
from workbench.analyses.attribution.methods import (
    SAMPLES,
    Attribution,
    Method,
    OnProgress,
    attribute_prediction,
)
from workbench.analyses.predictions.explained import prediction_of, target_of
from workbench.analyses.predictions.target import Baseline, By, Measure, Segments
from workbench.analyses.predictions.waiting import counted
from workbench.core.public import public
from workbench.engine.model import Model

if TYPE_CHECKING:
    from spacy.tokens import Doc


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Attribution):
    """An attribution that knows how it was made, so that it can be checked.

    Example:
        >>> found = wb.attribute(wb.load("mini:bert", device="cpu"), "Ben [MASK] to the hill.")
        >>> list(found.table.columns)
        ['stack', 'unit', 'word', 'score', 'fixed']
        >>> found.faithfulness.n_units
        5
    """

    by: By = "word"
    segments: Segments | None = None

    @cached_property
    def faithfulness(self) -> Faithfulness:
        """Whether the prediction depends on the units with the highest scores.

        Units are removed, as on the page. Costs: some hundred passes over the text.
        """
        return faithfulness(
            self.prediction,
            self.target,
            self,
            absence="removed",
            by=self.by,
            segments=self.segments,
        )


@public
def attribute(
    model: Model,
    text: "str | Doc",
    target: str | int | None = None,
    method: Method | Literal["most-faithful"] = "most-faithful",
    by: By = "word",
    *,
    against: str | int | None = None,
    word: str | int | None = None,
    second: "str | Doc | None" = None,
    position: int | str | None = None,
    segments: Segments | None = None,
    baseline: Baseline | None = None,
    measure: Measure | None = None,
    max_steps: int | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Explanation:
    """Give every word of a text a score: how much it speaks for a prediction of the model.

    The prediction is that of `wb.predict`: a hidden word (`[MASK]`, `<mask>`, `___`, or `word`), a
    label of a task head or a classifier, the next piece of a causal model or ELMo, or a piece that
    an encoder-decoder writes.

    Args:
        model: A `Model` that predicts.
        text: A text, or a Doc.
        target: The choice to explain: a word, a class, or its index (default: the most probable).
        method: `most-faithful` (default): as on the page, leave-one-out, or a faithful method that
            names the same word first. Or one of `leave-one-out`, `leave-two-out`,
            `integrated-gradients`, `gradient-x-input`, `layer-integrated-gradients`,
            `layer-conductance`, `head-conductance`, `deeplift`, `occlusion`, `shapley`,
            `attention-rollout`, `attention-norms`, and the baselines `attention` and `random`.
        by: The units that get scores: `piece`, `word` or `segment`.
        against: A second choice: why `target` rather than `against`.
        word: A word of the text to hide and predict, or its index. For a head that tags words: the
            word whose tag is explained.
        second: The second text of a pair, for tasks of two texts.
        position: Which of several predictions: the number of the hidden word or of the written
            piece, from 1 (default 1); `start` or `end` of an answer (default `start`).
        segments: With `by="segment"`: parts of the text, or their ranges of characters (default:
            the two texts of a pair, else paragraphs between blank lines, else sentences).
        baseline: What stands for an absent unit in methods that replace its vector, such as
            integrated gradients: `mask`, `mean`, `zero` or `pad` (default: the mask piece, else
            the mean of the embeddings). Leave-one-out and leave-two-out put the mask piece there;
            in a model without one, no other piece attends to it, and positions stay (a last word
            before a next piece is deleted); of a text for ELMo it is deleted.
        measure: `probability` (default), `log-probability` or `logit` of the target. A score of a
            regression has no probability: its `logit` (default) is the score itself.
        max_steps: Maximum number of steps of integrated gradients, or the number of steps of the
            layer methods (defaults 4,096 and 64).
        samples: Number of random orders of the units for `shapley` (default 25). If all orders are
            not more than this, all are used.
        seed: Seed of `shapley` and `random`.
        on_progress: Function that is called with the number of computed variants of the text
            (default: a bar after two seconds).

    Returns:
        An attribution: `scores` of `units`, a `table`, the convergence `delta`, `layer_table` of
        the layer methods, and its `faithfulness`, which is computed when it is first read;
        `figure()` draws the scores.

    Raises:
        WorkbenchError: The model predicts nothing for this text, the target is not one piece of
            its vocabulary, or the method does not fit the model.

    Example:
        >>> model = wb.load("mini:bert", device="cpu")
        >>> found = wb.attribute(model, "Ben [MASK] to the hill.", "walks")
        >>> found.label, found.table.query("not fixed")["unit"].tolist()
        ("'walks'", ['Ben', 'to', 'the', 'hill', '.'])
    """
    prediction, notes = prediction_of(model, text, word=word, second=second, position=position)
    if measure is None:
        measure = "logit" if prediction.kind == "score" else "probability"
    explained = target_of(prediction, target, against, measure)
    options: dict[str, Any] = {"by": by, "segments": segments, "baseline": baseline}
    with counted(on_progress, "explaining") as options["on_progress"]:
        if method == "most-faithful":
            found = most_faithful(prediction, explained, **options)
        else:
            found = attribute_prediction(
                prediction,
                explained,
                method,
                max_steps=max_steps,
                samples=samples,
                seed=seed,
                **options,
            )
    own = {field.name: getattr(found, field.name) for field in fields(found)}
    own["notes"] = (*notes, *found.notes)
    return Explanation(**own, by=by, segments=segments)
