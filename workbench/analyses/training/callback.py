"""An experiment on a model while it trains: a run at each of some steps, and a curve of them.

    heads = wb.callback("heads", corpus="primer", every="log")
    Trainer(..., callbacks=[heads]).train()             # or heads(net, step) in a loop of one's own
    heads.table, heads.figure()

The training goes on as if nothing had happened: the net is looked at through a view
(`models/live_net`), and a run leaves all random generators as they were. Costs: the experiment,
each time; nothing in between.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from workbench.core.display import figure_by
from workbench.core.errors import WorkbenchError
from workbench.core.findings import NUMBERS
from workbench.core.public import public, require_choice
from workbench.models.loading import load
from workbench.runs.api import run
from workbench.runs.run import Run
from workbench.runs.subruns import numbers_of_runs

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure
    from torch import nn
    from transformers import PreTrainedTokenizerBase

Moment = Literal["log", "evaluate", "save", "epoch"]


@public
def callback(
    experiment: Any,
    *,
    every: "Moment | int" = "log",
    tokenizer: "PreTrainedTokenizerBase | None" = None,
    name: str = "",
    **arguments: Any,
) -> "TrainingCallback":
    """Run an experiment on a net while it trains, without disturbing the training.

    Args:
        experiment: An experiment of one model, or its name, as in `wb.run`.
        every: `log`, `evaluate`, `save` or `epoch`, when the Trainer does that; or a number of
            steps. The net is looked at before the first step and after the last one, too.
        tokenizer: The net's tokenizer (default: that of the Trainer, or of the net's files).
        name: The name of the model in tables (default: its family).
        **arguments: The other arguments of `wb.run`, such as `corpus` and settings.

    Returns:
        A callback for the Trainer of transformers; in a loop of one's own, call it with the net
        and the step. It has the `runs` by step, their numbers in a `table`, and a `figure()`.

    Raises:
        WorkbenchError: `every` is not valid; at the first step, the request is not. A run that
            fails at a later step does not end the training: it is a warning, and in `failed`.

    Example:
        >>> watch = wb.callback("profile", corpus="primer:size=20", every=10)
        >>> from transformers import AutoModelForMaskedLM
        >>> net = AutoModelForMaskedLM.from_pretrained(
        ...     wb.export_model("mini:bert", "watched-folder").folder
        ... )
        >>> for step in range(11):
        ...     watch(net, step)  # after the optimizer's step
        >>> sorted(watch.runs)
        [0, 10]
    """
    if isinstance(every, str):
        require_choice("every", every, Moment)
    elif every < 1:
        raise WorkbenchError(
            f"every is {every}, which is no number of steps.",
            code="setting-invalid",
            remedy="Use 1 or more; or log, evaluate, save or epoch.",
        )
    return TrainingCallback(experiment, every, tokenizer, name, arguments)


class TrainingCallback(TrainerCallback):  # type: ignore[misc]  # of an untyped base
    """The runs of one experiment on a net that trains, by step.

    Example:
        >>> wb.callback("heads", corpus="primer", every=100)
        <TrainingCallback heads: no runs yet>
    """

    def __init__(
        self,
        experiment: Any,
        every: "Moment | int",
        tokenizer: "PreTrainedTokenizerBase | None",
        name: str,
        arguments: Mapping[str, Any],
    ) -> None:
        self.experiment, self.every, self.tokenizer = experiment, every, tokenizer
        self.name, self.arguments = name, dict(arguments)
        self.runs: dict[int, Run] = {}
        self.failed: dict[int, WorkbenchError] = {}

    def __call__(self, net: "nn.Module", step: int) -> None:
        """Run the experiment on the net, if it is due after this number of steps."""
        if isinstance(self.every, str) or step % self.every == 0:
            self._look(net, step, self.tokenizer)

    @property
    def table(self) -> "pd.DataFrame":
        """The numbers of the findings by step, with interval, null and verdict."""
        by_step = {str(step): [run] for step, run in sorted(self.runs.items())}
        numbers = numbers_of_runs(by_step).rename(columns={"group": "step"})
        return numbers.astype({"step": int})

    def figure(self) -> "Figure":
        """Draw the numbers of the findings by step.

        Returns:
            A Plotly figure, a panel for each measure.

        Raises:
            WorkbenchError: No run has a number yet.
        """
        if not len(table := self.table):
            raise WorkbenchError(
                "there is no curve yet.",
                code="no-runs",
                where=repr(self),
                remedy="Train for some steps first; the experiment must have findings.",
            )
        return figure_by("workbench.drawing.sweep:by_step", {NUMBERS: table})

    def __repr__(self) -> str:
        """The experiment, and how often it was run."""
        name = getattr(self.experiment, "name", self.experiment)
        done = f"{len(self.runs)} runs, the last at step {max(self.runs)}" if self.runs else ""
        return f"<TrainingCallback {name}: {done or 'no runs yet'}>"

    def _look(self, net: "nn.Module", step: int, tokenizer: Any) -> None:
        if step in self.runs:
            return
        try:
            model = load(net, tokenizer, name=self.name)
            arguments = {"progress": _unseen, **self.arguments}
            self.runs[step] = run(self.experiment, model=model, **arguments)
        except WorkbenchError as error:
            if not self.runs:
                raise  # the request is wrong: better now than at the end
            self.failed[step] = error
            logging.getLogger(__name__).warning("step %d: %s", step, error)

    # --- called by the Trainer, in one of its processes ----------------------------------------

    def _due(self, state: TrainerState, what: Mapping[str, Any]) -> None:
        if state.is_world_process_zero:
            tokenizer = self.tokenizer or what.get("processing_class")
            self._look(what["model"], state.global_step, tokenizer)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **what: Any
    ) -> None:
        self._due(state, what)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **what: Any
    ) -> None:
        if isinstance(self.every, int) and state.global_step % self.every == 0:
            self._due(state, what)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **what: Any
    ) -> None:
        if self.every == "log":
            self._due(state, what)

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **what: Any
    ) -> None:
        if self.every == "evaluate":
            self._due(state, what)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **what: Any
    ) -> None:
        if self.every == "save":
            self._due(state, what)

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **what: Any
    ) -> None:
        if self.every == "epoch":
            self._due(state, what)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **what: Any
    ) -> None:
        self._due(state, what)


def _unseen(event: Mapping[str, Any]) -> None:
    """Show nothing: the Trainer has a bar of its own."""
