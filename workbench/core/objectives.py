"""The objectives of a model by its facts: which one is measured, and which others it has.

`facts["objectives"]` are the descriptions of all that a model predicts (`engine.task.as_data`),
what it was made for first; `--objective NAME` chooses another. Costs: nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.errors import WorkbenchError, did_you_mean

LANGUAGE_MODEL = "language-model"  # names the objective of any language-model head
PREDICTED: Mapping[str, str] = {  # by a language model
    "causal": "next pieces",
    "masked": "masked pieces",
    "seq2seq": "pieces of hidden spans",
    "bidirectional": "next and previous words",
}
LANGUAGE_MODELS: Mapping[str, str] = {  # the end of a class's name: the kind of language model
    "ForMaskedLM": "masked",
    "ForPreTraining": "masked",
    "ForCausalLM": "causal",
    "LMHeadModel": "causal",
    "ForConditionalGeneration": "seq2seq",
}
SHOWN = 8  # labels
Data = Mapping[str, Any]  # a description


def name_of(objective: Data) -> str:
    """The name by which an objective is chosen."""
    return LANGUAGE_MODEL if objective["kind"] in PREDICTED else str(objective["name"])


def described(objective: Data) -> str:
    """An objective in a few words: `sst2 (the class of a text: negative, positive)`."""
    if objective["kind"] in PREDICTED:
        return f"{PREDICTED[objective['kind']]} (language model)"
    inputs, names = inputs_of(objective["pairs"]), list(objective["names"])
    what = {
        "class": f"the class of {inputs}",
        "score": f"a score of {inputs}",
        "tags": "a tag of each word",
        "entities": "the entities of a text",
        "answers": f"the answer in {inputs}",
        "text": f"the label of {inputs}, as text",
    }[objective["kind"]]
    labels = f": {', '.join(names[:SHOWN])}{', …' if len(names) > SHOWN else ''}"
    return f"{objective['name']} ({what}{labels if names else ''})"


def inputs_of(pairs: bool | None) -> str:
    """What a model reads that takes pairs of texts, single ones, or (None) either."""
    if pairs is None:
        return "a text or a pair of texts"
    return "a pair of texts" if pairs else "a text"


def index_of(name: str, objectives: Sequence[Data], model: str) -> int:
    """The index of an objective: by its task, `task`, `language-model`, or the kind of either."""
    for index, each in enumerate(objectives):
        kind_of_it = LANGUAGE_MODEL if each["kind"] in PREDICTED else "task"
        if name in (each["name"], each["kind"], kind_of_it):
            return index
    known = [name_of(each) for each in objectives]
    if not known:
        raise WorkbenchError(
            f"there is no objective {name!r}: {model} has no head with trained weights.",
            code="objective-unknown",
            where=model,
            remedy="Choose a model with a language-model head, or fine-tune this one: finetune.",
        )
    raise WorkbenchError(
        f"{model} does not predict {name!r}.",
        code="objective-unknown",
        where=model,
        remedy=f"{did_you_mean(name, known)} By default, {known[0]} is measured.",
    )


def facts_for(facts: Data, objective: Data) -> dict[str, Any]:
    """The facts of the model as it is used for one of its objectives."""
    is_language_model = objective["kind"] in PREDICTED
    return {
        **facts,
        "predicts": objective,
        "objectives": [objective, *(o for o in facts["objectives"] if o != objective)],
        "objective": objective["kind"] if is_language_model else "",
        "classes": list(objective["names"]) if objective["kind"] == "class" else [],
        "task": "" if is_language_model else objective["kind"],
    }
