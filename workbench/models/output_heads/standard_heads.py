"""The task heads that transformers has for an architecture: `...ForSequenceClassification` and kin.

    tuned = with_standard_head(model, task, seed=0)   # the same body, a random head, its labels

Such a model saves and opens like any other, in plain transformers too. The language-model head that
it replaces is kept beside it (`LanguageHead`), so that the loss on pieces can still be measured by
name. Costs: a copy of the body's weights.
"""

import copy
from collections.abc import Callable
from typing import Any, cast

import torch
import transformers
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from workbench.core.errors import WorkbenchError
from workbench.engine.task import METRICS, Labelling, Task
from workbench.models import added_modules, head_removal
from workbench.models.output_heads.lm_heads import partly_random, placed
from workbench.models.output_heads.task_heads import Scale, StandardHead
from workbench.models.tokenization import pad_id
from workbench.models.transformer import LanguageHead, T, Transformer

CLASSIFIER, TAGGER, ANSWERER = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
)
ENDINGS = (CLASSIFIER, TAGGER, ANSWERER, f"{ANSWERER}Simple")  # XLNet's
HEADS = (  # of the classes that are opened with their head; of others, the body
    "ForMaskedLM", "ForPreTraining", "ForCausalLM", "LMHeadModel", "ForConditionalGeneration",
    *ENDINGS,
)  # fmt: skip
_CLASSES: dict[str, Any] = {
    "class": AutoModelForSequenceClassification,
    "score": AutoModelForSequenceClassification,
    "tags": AutoModelForTokenClassification,
    "entities": AutoModelForTokenClassification,
    "answers": AutoModelForQuestionAnswering,
}
# in the name of a metric, of tasks whose folder does not name them
_NAMES: dict[str, str] = {
    "class": "its classes",
    "score": "its score",
    "tags": "its tags",
    "entities": "its entities",
    "answers": "its answers",
}


def standard_head(net: PreTrainedModel) -> StandardHead | None:
    """The task head of a net, by its class and config; None without one, or with a random one."""
    name, config = type(net).__name__, cast(Any, net.config)
    if not name.endswith(ENDINGS) or partly_random(net):
        return None
    if name.endswith(ANSWERER) and hasattr(config, "start_n_top"):
        return None  # XLNet's and XLM's give the best ends by beam search, not logits
    names = tuple(str(config.id2label[index]) for index in sorted(config.id2label))
    kind: Labelling
    if name.endswith(CLASSIFIER):
        kind = "score" if config.problem_type == "regression" or len(names) == 1 else "class"
    elif name.endswith(TAGGER):
        is_bio = "O" in names and all(n == "O" or n[:2] in ("B-", "I-") for n in names)
        kind = "entities" if is_bio and len(names) > 1 else "tags"
    else:
        kind = "answers"
    names = () if kind in ("score", "answers") else names
    task_name = str(getattr(config, "finetuning_task", None) or _NAMES[kind])
    pairs = True if kind == "answers" else None if kind in ("class", "score") else False
    return StandardHead(Task(task_name, kind, "", names, pairs, METRICS[kind][0]))


def lacks_standard_head(model: Any, task: Task) -> str:
    """Why transformers has no head for this task of this architecture; "" if it has one."""
    if not hasattr(model, "net"):
        return "it is no model of transformers"
    if model.two_sided:
        return "it is an encoder-decoder, whose task heads read its decoder too"
    if type(model.net.config) not in _CLASSES[task.kind]._model_mapping:
        return f"transformers has no {_class_name(task)} for the family {model.family}"
    if model.family == "longformer" and task.per_text:
        return "its heads for texts use global attention, and analyses read local attention"
    if task.kind == "answers":
        start = model.tokenizer("a")["input_ids"][0]
        if start not in model.tokenizer.all_special_ids:
            return "its texts begin without a special piece, where no answer would be"
    return ""


def _class_name(task: Task) -> str:
    return str(_CLASSES[task.kind].__name__).removeprefix("AutoModel")


def with_standard_head(model: T, task: Task, seed: int) -> T:
    """The model's body under a random head of transformers for the task, by the seed."""
    if task.kind == "class" and len(task.names) < 2:
        raise WorkbenchError(
            f"a classifier needs two classes or more, but there is "
            f"{'one class' if task.names else 'no class'}.",
            code="setting-invalid",
            where=", ".join(task.names),
            remedy="Choose a label with two classes or more.",
        )
    if why := lacks_standard_head(model, task):
        raise WorkbenchError(
            f"{model.name} ({model.family}) cannot get a standard task head: {why}.",
            code="model-unsupported",
            where=model.name,
            remedy="Set head to plain, or choose an encoder such as mini:bert.",
        )
    config: Any = copy.deepcopy(model.net.config)
    names = task.names or {"score": ("score",), "answers": ("start", "end")}[task.kind]
    config.id2label = dict(enumerate(names))
    config.label2id = {name: index for index, name in enumerate(names)}
    config.finetuning_task = task.name
    config.problem_type = {
        "class": "single_label_classification",
        "score": "regression",
    }.get(task.kind)
    if config.pad_token_id is None:  # a decoder needs it to find a text's last piece
        config.pad_token_id = pad_id(model.tokenizer)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        kind = _CLASSES[task.kind]
        tuned = _same_body(model, lambda: kind.from_config(config, trust_remote_code=False))
    tuned.task_head = StandardHead(task)
    tuned.language_head = language_head(model)
    return tuned


def last_layer(model: Transformer) -> torch.nn.Linear:
    """The last linear layer of the head of a net, whose outputs are its logits."""
    body = set(model.net.base_model.modules())
    layers = [m for m in model.net.modules() if isinstance(m, torch.nn.Linear) and m not in body]
    return layers[-1]


def has_bias(model: Transformer) -> bool:
    """Whether the head can shift its outputs: those of decoders cannot."""
    return last_layer(model).bias is not None


@torch.no_grad()
def finish(model: Any) -> None:
    """End the training of a model under a standard head, in place.

    A net that predicts standardised scores then predicts those of its corpus.
    """
    head = model.task_head
    head.own_weights = ()
    if head.task.kind != "score" or head.scale == Scale():
        return
    last, scale = last_layer(model), head.scale
    assert last.bias is not None or not scale.mean, "a head without bias cannot shift its scores"
    last.weight.mul_(scale.spread)
    if last.bias is not None:
        last.bias.mul_(scale.spread).add_(scale.mean)
    model.task_head = StandardHead(head.task)


def _same_body(model: T, build: Callable[[], PreTrainedModel]) -> T:
    """A new net around a copy of the model's body, with its removed heads and added modules."""
    net: Any = build()
    net.train(False)
    made = type(model)(net, model.tokenizer, model.name)
    if model.n_removed_heads:
        made = head_removal.cut(made, model.kept)
        made.kept, made.whole = model.kept, model.whole
    if model.added is not None:
        added = added_modules.add(made, model.added.kind, model.added.size, 0)
        added.modules.load_state_dict(model.added.modules.state_dict())
    body: Any = made.net.base_model
    body.load_state_dict(model.net.base_model.state_dict(), strict=False)
    placed(made.net, model.device, model.net.dtype)
    return made


# --- the language-model head that a standard head replaces ----------------------------------------


def with_language_head(model: T, head: LanguageHead) -> T:
    """The language model: this head over the model's body."""
    config: Any = copy.deepcopy(model.net.config)
    config.architectures = [head.class_name]
    made = _same_body(model, lambda: getattr(transformers, head.class_name)(config))
    made.net.load_state_dict(head.weights, strict=False)
    made.net.tie_weights()
    return made


def language_head(model: Transformer) -> LanguageHead | None:
    """The language-model head of a model, apart from its body; None without one."""
    if not model.language_model:
        return model.language_head
    net: Any = model.net
    body = {weights.data_ptr() for weights in net.base_model.state_dict().values()}
    prefix = f"{net.base_model_prefix}."
    weights = {
        name: value.detach().clone()
        for name, value in net.state_dict().items()
        if not name.startswith(prefix) and value.data_ptr() not in body
    }
    task = next(each for each in model.objectives if each.is_language_model)
    return LanguageHead(type(net).__name__, task, weights)
