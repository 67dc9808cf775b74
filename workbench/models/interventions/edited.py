"""Edited models: parts turned off, scaled or set to their means in every pass, by one short text.

    model.edited("3.7=0,4.mlp=0.5")           or wb.load("mini:bert@edit:3.7=0,4.mlp=0.5")

`edit_terms` has the text, `states.Write` makes the changes: outputs of heads before the output
projection, what attentions and MLPs add to the residual stream, neurons before the last projection
of the MLP, and directions that are added to the states after a layer. Weights are shared with the
model that is edited. A model that is written to a folder, or whose heads are removed, has the edit
in its weights (`NamedEdit.in_weights`). Costs: a few passes over four pieces; for the first mean, a
pass over each text up to the layer of the part, which also has the means of all heads up to there.
"""

import copy
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from workbench.engine.batch import Pieces, of_texts
from workbench.engine.forward_pass import PIECES, batches_of
from workbench.engine.halving import Limit
from workbench.engine.model import Model, refusal
from workbench.engine.taps import PassEndedError
from workbench.engine.task import Task
from workbench.models.edit_terms import (
    Term,
    changed_hash,
    digest_of,
    direction_of,
    mean_texts,
    require_parts,
    terms_of,
)
from workbench.models.head_removal import Part, parts
from workbench.models.huggingface import HuggingFace
from workbench.models.interventions.patching import patch_points
from workbench.models.interventions.states import (
    At,
    EditedNet,
    Place,
    Read,
    Write,
    edited_net,
    opened,
    place_of,
)
from workbench.models.references import with_edit
from workbench.models.word_models import WordModel


class NamedEdit(EditedNet):
    """A transformers model with an edit that has a name, and so a reference."""

    unedited: HuggingFace
    own: tuple[Write, ...]  # of the edit
    texts: tuple[str, ...] = ()  # of its means; (): the default
    viewed: nn.Module  # the net whose weights it shares

    @property
    def content_hash(self) -> str:
        """Hash of the content of the model that was edited, and of the edit."""
        known = vars(self).get("content_hash")  # of half-precision files, that in fp32
        plain: Model = self.unedited
        if self.task_head is not plain.task_head:
            plain = plain.with_task_head(self.task_head)
        return known or changed_hash(plain.content_hash, digest_of(self.edit, self.texts))

    def encode(self, batch: Any, documents: Sequence[int] | None = None) -> Pieces:
        """Documents of a batch in pieces; a net in memory may have got other weights since."""
        pieces = self.unedited.encode(batch, documents)
        if self.unedited.net is not self.viewed:
            again = edited(self.unedited, self.edit, self.texts)
            vars(self).update(vars(again) | {"name": self.name})
        return pieces

    def copy(self, in_fp32: bool = False) -> "NamedEdit":
        return _named(self.unedited.copy(in_fp32), self.own, self.edit, self.texts)

    def reinitialised(self, seed: int) -> Model:  # type: ignore[override]
        return edited(self.unedited.reinitialised(seed), self.edit, self.texts)

    def for_objective(self, task: Task) -> Model:
        return edited(self.unedited.for_objective(task), self.edit, self.texts)

    def in_weights(self) -> HuggingFace:  # type: ignore[override]
        return _in_weights(self)


def edited(model: Model, edit: str, texts: Sequence[str] = ()) -> Model:
    """The model with an edit; see `Model.edited`."""
    if isinstance(model, NamedEdit) and edit:
        return edited(model.unedited, f"{model.edit},{edit}", tuple(texts) or model.texts)
    terms = terms_of(edit)
    if not terms:
        return model
    stacks = [asdict(stack) for stack in model.stacks]
    require_parts(terms, model.name, model.family, stacks, model.width)
    edit, texts = ",".join(map(str, terms)), tuple(texts)
    factors = [each for each in terms if not each.run]
    writes = tuple(Write(each.site, times=each.value) for each in factors if each.value is not None)
    sites = [each.site for each in terms if each.value is None]
    if sites:
        means = _means(model, sites, texts or mean_texts())
        writes += tuple(Write(site, means[site]) for site in sites)
    writes += tuple(  # last, as they are added to states that were scaled
        Write(each.site, plus=each.value * torch.from_numpy(direction_of(each)))
        for each in terms
        if each.run and each.value is not None
    )
    if isinstance(model, HuggingFace):
        return _named(model, writes, edit, texts)
    if not isinstance(model, WordModel):
        what = "is a model of your own, whose parts are not known"
        raise refusal(model, what, "Choose a model of transformers, or an ELMo.")
    twin = model.changed(
        lambda own: opened(own, [copy.copy(each) for each in writes]),
        f"{model.changes}{digest_of(edit)}",
        with_edit(model.name, edit),
    )
    twin.edit = ",".join(filter(None, [model.edit, edit]))
    return twin


def _named(
    model: HuggingFace, writes: tuple[Write, ...], edit: str, texts: tuple[str, ...]
) -> NamedEdit:
    base = model.base if isinstance(model, EditedNet) else model
    before = model.writes if isinstance(model, EditedNet) else ()
    name = with_edit(model.name, edit) + (" (means of own texts)" if texts else "")
    twin = edited_net(base, (*before, *writes), name, NamedEdit)
    twin.own, twin.edit, twin.texts = writes, edit, texts
    twin.unedited, twin.viewed = model, model.net
    return twin


_HEAD = re.compile(r"(?P<before>.*?)(?P<cross>cross-attention )?head (?P<layer>\d+)\.(?P<head>\d+)")
_MEANS: dict[tuple[object, ...], dict[str, Tensor]] = {}  # by model and texts, then by site
MODELS = 16  # whose means are remembered


class _ReadUpTo(Read):
    """Store states, and end each pass after the last of its sites."""

    def through(self, name: str, place: Place, states: Tensor, at: At) -> Tensor:
        super().through(name, place, states, at)
        if len(self._pending) == len(self.names) * len(at.documents):
            raise PassEndedError
        return states

    def close(self, whole: bool) -> None:
        super().close(True)  # what was read is whole, though the pass is not


@torch.no_grad()
def _means(model: Model, sites: Sequence[str], texts: Sequence[str]) -> dict[str, Tensor]:
    """The mean of the states at each site over all pieces of some texts.  # [...] each"""
    while len(_MEANS) > MODELS:
        del _MEANS[next(iter(_MEANS))]
    key = (model.content_hash, model.precision, str(model.device), *texts)
    known = _MEANS.setdefault(key, {})
    wholes = {site: _whole(site) for site in sites}
    if missing := [site for site in sites if wholes[site] not in known]:
        read = _ReadUpTo([*dict.fromkeys(each for site in missing for each in _up_to(model, site))])
        pieces = Limit(PIECES.get(model.device.type, PIECES["cpu"]))
        is_filled = model.device.type == "cuda"
        for text in batches_of(model, of_texts(texts), pieces, is_filled):
            with suppress(PassEndedError):
                model.forward(text.to(model.device), taps=[read], hidden=False)
        known |= {site: torch.cat(read[site]).double().mean(0).float() for site in read.names}
    heads = {site: _HEAD.fullmatch(site) for site in sites}
    return {
        site: known[wholes[site]][int(head["head"]) - 1] if head else known[site]
        for site, head in heads.items()
    }


def _whole(site: str) -> str:
    """The site of all heads of the layer of a head; any other site as it is."""
    return _HEAD.sub(r"\g<before>block \g<layer> \g<cross>heads", site)


def _up_to(model: Model, site: str) -> list[str]:
    """This site, or for a head, all heads of its layer and of those below it."""
    if (head := _HEAD.fullmatch(site)) is None:
        return [site]
    first = model.stacks[0].name
    stack = "decoder" if head["cross"] else head["before"].strip() or first
    layers = {
        each.layer + 1
        for each in model.sites
        if each.stack == stack and (each.kind == "cross") == bool(head["cross"])
    }
    cross = head["cross"] or ""
    wanted = range(1, int(head["layer"]) + 1)
    return [f"{head['before']}block {n} {cross}heads" for n in wanted if n in layers]


# --- an edit in the weights -----------------------------------------------------------------------


@torch.no_grad()
def _in_weights(model: NamedEdit) -> HuggingFace:
    """A plain model that computes the same, up to rounding: projections are scaled.

    What a projection reads (heads, neurons) or returns (attentions, MLPs) is scaled in its weights,
    and a mean is added to its bias.
    """
    if isinstance(model.unedited, EditedNet):
        raise _not_in_weights(model, "it is changed in other ways too")
    plain = model.unedited.copy()
    plain.take_heads(model)
    terms = terms_of(model.edit)
    if any(term.run for term in terms):
        raise _not_in_weights(model, "a direction is added to its states")
    modules = parts(plain)
    means = {write.site: write.to for write in model.own}
    for term in sorted(terms, key=lambda term: not term.number):  # heads first
        projection, others, total = _projection(plain, modules, term)
        index = term.number - 1 if term.number else slice(None)
        if sum(each is projection for each in others) > 1:
            raise _not_in_weights(model, f"layers share the weights of {term.place}")
        if isinstance(projection, nn.Parameter):  # of XLNet: [width, heads, width of a head]
            weight, bias = projection.movedim(1, 0), None
        else:
            held: Any = projection
            weight = held.weight if isinstance(held, Conv1D) else held.weight.T  # [in, width]
            weight, bias = weight.unflatten(0, (total, -1)), held.bias
        mean = means[term.site]
        if term.value is not None:
            weight[index].mul_(term.value)
            if not term.number and bias is not None:
                bias.mul_(term.value)
        elif bias is None or not isinstance(mean, Tensor):
            raise _not_in_weights(model, f"the projection of {term.place} has no bias for a mean")
        else:
            if term.number:
                bias.add_(mean.to(weight) @ weight[index])
            else:
                bias.copy_(mean)
            weight[index].zero_()
    plain.name = model.name
    return plain


def _projection(
    model: HuggingFace, modules: Sequence[Part], term: Term
) -> tuple[nn.Module | nn.Parameter, list[nn.Module | nn.Parameter], int]:
    """The projection of a part, those of all layers, and in how many parts it reads its input."""
    stack = term.stack or model.stacks[-1 if term.part.startswith("cross") else 0].name
    if term.part in ("mlp", "neuron"):
        points = patch_points(model, "neurons")
        name = f"{term.stack} neuron {term.layer}.{term.number or 1}".strip()
        point = place_of(model, name, lambda *_: points).point
        own: nn.Module = points.projected[point.stack, point.layer][0][0]
        every = [reads for each in points.projected.values() for reads, _ in each]
        return own, [*every], points.heads[point]
    is_cross = term.part.startswith("cross")
    site = next(
        each
        for each in model.sites
        if (each.stack, each.layer, each.kind == "cross") == (stack, term.layer - 1, is_cross)
    )
    return modules[site.index].output, [part.output for part in modules], site.heads


def _not_in_weights(model: Model, why: str) -> Exception:
    return refusal(
        model,
        f"cannot have its edit in its weights, as a saved or smaller model needs: {why}",
        "Use the edited model as it is, by its reference, or edit other parts.",
    )
