"""A restored activation is what a plain hook puts there, in every architecture."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import Olmo2Config, Olmo2ForCausalLM

import workbench as wb
from tests.analyses.predictions.known import linear
from tests.models import zoo
from tests.models.headed import made
from tests.models.test_attention import pieces
from tests.models.test_logits import HEADED
from tests.night import mostly
from tests.planted import bert, gpt2
from workbench.engine.batch import Pieces
from workbench.models.huggingface import HuggingFace
from workbench.models.interventions.patching import (
    Patch,
    PatchPoints,
    Point,
    What,
    activations,
    patch_points,
    patched,
    recorded_base,
)
from workbench.models.interventions.residual_stream import plan, residual_stream

LENGTH, TARGET = 7, 4  # pieces of the text, and of what a decoder writes
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
BY_DAY = ("bert", "xlnet hidden", "gpt-neox", "t5-3-2")
WHAT = ("states", "heads", "mlps", "attentions")
NAMES = mostly((*HEADED, "xlnet hidden"), *BY_DAY)

# By family, in the words of transformers: the blocks of each stack; in a block the output
# projections of its attentions, and the layer whose output is the MLP's.
_BERT = ("encoder.layer", ["attention.output.dense"], "output.dense")
_BART = ("layers", ["self_attn.out_proj", "encoder_attn.out_proj"], "fc2")
_T5 = (
    "block",
    ["layer.0.SelfAttention.o", "layer.1.EncDecAttention.o"],
    "layer.-1.DenseReluDense.wo",
)
PLACES: dict[str, dict[str, tuple[str, list[str], str]]] = {
    "bert": {"bert": _BERT},
    "roberta": {"roberta": _BERT},
    "electra": {"electra": _BERT},
    "deberta-v2": {"deberta": _BERT},
    "longformer": {"longformer": _BERT},
    "distilbert": {"distilbert": ("transformer.layer", ["attention.out_lin"], "ffn")},
    "modernbert": {"model": ("layers", ["attn.Wo"], "mlp.Wo")},
    "albert": {
        "albert": (
            "encoder.albert_layer_groups",
            ["albert_layers.0.attention.dense"],
            "albert_layers.0.ffn_output",
        )
    },
    "xlnet": {"transformer": ("layer", ["rel_attn"], "ff.layer_2")},
    "openai-gpt": {"transformer": ("h", ["attn.c_proj"], "mlp.c_proj")},
    "gpt2": {"transformer": ("h", ["attn.c_proj"], "mlp.c_proj")},
    "bloom": {"transformer": ("h", ["self_attention.dense"], "mlp.dense_4h_to_h")},
    "gpt_neox": {"gpt_neox": ("layers", ["attention.dense"], "mlp.dense_4h_to_h")},
    "llama": {"model": ("layers", ["self_attn.o_proj"], "mlp.down_proj")},
    "t5": {"encoder": _T5, "decoder": _T5},
    "mt5": {"encoder": _T5, "decoder": _T5},
    "bart": {"model.encoder": _BART, "model.decoder": _BART},
}


@cache
def opened(name: str) -> HuggingFace:
    name = name.split()[0]
    return made(name, HEADED[name])


def texts_of(name: str, n_texts: int = 2) -> Iterator[tuple[Pieces, Pieces | None]]:
    """Random texts, and what a decoder writes for each."""
    model = opened(name)
    text = pieces(model, 2 * n_texts, LENGTH, False)
    target = pieces(model, 2 * n_texts, TARGET, False) if model.two_sided else None
    if name.endswith("hidden"):
        unseen = torch.zeros_like(text.mask)
        unseen[:, 3] = True
        text = replace(text, unseen=unseen)
    for row in range(n_texts):
        yield text.take([row]), None if target is None else target.take([0])


def number_of(model: Any, text: Pieces, target: Pieces | None) -> Tensor:
    """A number for each row: what the logits at one piece say of two choices."""
    mask = torch.zeros_like((text if target is None else target).mask)
    mask[:, 3] = True
    logits = model.forward(text, targets=target, logits=mask, hidden=False).logits
    found: Tensor = logits[:, 7] - logits[:, 9]
    return found


def restored(points: PatchPoints, clean: Any, corrupt: Any, patches: list[Patch]) -> Tensor:
    """The number of each patch."""
    text, target = corrupt
    base = recorded_base(points, lambda: number_of(points.model, text, target))
    source = activations(points, lambda: number_of(points.model, *clean))

    def run(n_rows: int, here: object) -> Tensor:
        rows = [0] * n_rows
        written = None if target is None else target.take(rows)
        return number_of(points.model, text.take(rows), written)

    return patched(points, base, source, patches, run, LENGTH)


# --- the same by plain hooks ----------------------------------------------------------------------


def module_at(module: Any, path: str) -> Any:
    for step in path.split("."):
        module = module[int(step)] if step.lstrip("-").isdecimal() else getattr(module, step)
    return module


@contextmanager
def hooked(
    model: HuggingFace, point: Point, change: Callable[[Tensor], Tensor], streams: int
) -> Iterator[None]:
    """Change one activation of the next pass, [batch, pieces, ...], by a hook of torch."""
    places = PLACES[model.family]
    body = list(places)[[stack.name for stack in model.stacks].index(point.stack)]
    path, attentions, mlp = places[body]
    blocks = module_at(model.net, f"{body}.{path}")
    layer = point.layer - (point.what == "states" and point.layer > 0)
    block = blocks[0 if len(blocks) == 1 else layer]
    first = layer * streams if len(blocks) == 1 else 0  # a shared block is called for every layer
    wanted, calls = range(first, first + streams), 0

    def now() -> bool:
        nonlocal calls
        calls += 1
        return calls - 1 in wanted

    def changed(states: Tensor) -> Tensor:
        if model.family == "xlnet":
            return change(states.transpose(0, 1)).transpose(0, 1)
        return change(states)

    def output(module: nn.Module, args: Any, returned: Any) -> Any:
        if not now():
            return returned
        if isinstance(returned, Tensor):
            return changed(returned)
        if point.what == "states" and streams == 2:
            return changed(returned[0]), changed(returned[1]), *returned[2:]
        return changed(returned[0]), *returned[1:]

    def read(module: nn.Module, args: Any, kwargs: Any) -> Any:
        if not now():
            return args, kwargs
        if args:
            n = streams if point.what == "states" else 1
            return (*map(changed, args[:n]), *args[n:]), kwargs
        return args, {**kwargs, "hidden_states": changed(kwargs["hidden_states"])}

    module = module_at(block, mlp if point.what == "mlps" else attentions[point.kind == "cross"])
    if point.what == "states":
        module = block
    if model.family == "xlnet" and point.what in ("heads", "attentions"):

        def attended(h: Tensor, heads: Tensor) -> Tensor:
            """XLNet's own method, which has no module for its projection."""
            heads = changed(heads) if point.what == "heads" else heads
            added = torch.einsum("ibnd,hnd->ibh", heads, module.o)
            added = added if point.what == "heads" else changed(added)
            normed: Tensor = module.layer_norm(added + h)
            return normed

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "post_attention", attended)
            yield
        return
    if point.what == "heads" or (point.what == "states" and not point.layer):
        hook = module.register_forward_pre_hook(read, with_kwargs=True)
    else:
        hook = module.register_forward_hook(output)
    try:
        yield
    finally:
        hook.remove()


def by_hook(model: HuggingFace, clean: Any, corrupt: Any, patch: Patch, streams: int) -> float:
    """The number of one patch, of two passes with a hook each."""
    stored: list[Tensor] = []

    def store(states: Tensor) -> Tensor:
        stored.append(states.clone())
        return states

    def put(states: Tensor) -> Tensor:
        new, given = states.clone(), stored.pop(0)
        own = new if patch.head is None else by_head(new)[..., patch.head, :]
        given = given if patch.head is None else by_head(given)[..., patch.head, :]
        for at, source in zip(patch.positions, patch.sources, strict=True):
            own[:, at] = given[:, source]
        return new

    with torch.no_grad():
        with hooked(model, patch.point, store, streams):
            number_of(model, *clean)
        with hooked(model, patch.point, put, streams):
            return float(number_of(model, *corrupt)[0])


def by_head(states: Tensor) -> Tensor:
    return states.view(*states.shape[:2], 4, -1) if states.ndim == 3 else states


def chosen(points: PatchPoints) -> list[Patch]:
    """A patch at each point: one piece, several, or one head."""
    found = []
    for n, point in enumerate(points.points):
        long = TARGET if point.stack == "decoder" and len(points.model.stacks) > 1 else LENGTH
        positions = (n % long,) if n % 3 else tuple(range(long))
        sources = ((n + 1) % long,) if n % 3 == 1 else positions  # also another piece
        head = n % 4 if points.what == "heads" else None
        found.append(Patch(point, positions, sources, head))
    return found


@pytest.mark.parametrize(
    ("name", "what"),
    mostly(
        product((*HEADED, "xlnet hidden"), WHAT),
        *(("bert", what) for what in WHAT),
        ("xlnet hidden", "heads"),
        ("gpt-neox", "mlps"),
        ("t5-3-2", "heads"),
        ("t5-3-2", "attentions"),
    ),
)
def test_a_restored_activation_is_that_of_a_plain_hook(name: str, what: What) -> None:
    model, streams = opened(name), 2 if "hidden" in name else 1
    clean, corrupt = texts_of(name)
    points = patch_points(model, what, predicting=streams == 2)
    assert {point.stack for point in points.points} == {stack.name for stack in model.stacks}
    patches = chosen(points)
    with torch.no_grad():
        plain = float(number_of(model, *corrupt)[0])
    found = restored(points, clean, corrupt, patches)
    expected = [by_hook(model, clean, corrupt, patch, streams) for patch in patches]
    torch.testing.assert_close(found.tolist(), expected, **CLOSE)
    assert any(abs(value - plain) > 1e-4 for value in expected), "no patch changes anything"
    assert not any(
        {"forward", "post_attention"} & vars(each).keys() for each in model.net.modules()
    )


def every_position(model: HuggingFace, point: Point) -> Patch:
    long = TARGET if point.stack == "decoder" and model.two_sided else LENGTH
    return Patch(point, tuple(range(long)), tuple(range(long)))


@pytest.mark.parametrize("name", NAMES)
def test_everything_restored_is_the_clean_text_and_nothing_the_corrupt_one(name: str) -> None:
    model = opened(name)
    clean, corrupt = texts_of(name)
    with torch.no_grad():
        first, last = (float(number_of(model, *each)[0]) for each in (clean, corrupt))
    points = patch_points(model, "states", "hidden" in name)
    stack = model.stacks[-1]
    whole = [every_position(model, p) for p in points.points if p.stack == stack.name]
    # what a decoder writes is the same; so its embeddings alone do not restore the text
    whole = whole[-1:] if model.two_sided else whole
    if model.two_sided:
        encoder = model.stacks[0]
        whole += [
            every_position(model, Point("states", encoder.name, n))
            for n in range(encoder.layers + 1)
        ]
    found = restored(points, clean, corrupt, whole)
    torch.testing.assert_close(found, torch.full((len(whole),), first).double(), **CLOSE)
    for patch, expected in ((whole[0], first), (Patch(points.points[0], (), ()), last)):
        assert restored(points, clean, corrupt, [patch]).item() == expected  # to the bit
    assert abs(first - last) > 1e-3


@pytest.mark.parametrize("build", [bert.build, gpt2.build])
def test_modules_are_found_where_most_outputs_are_zero(build: Any) -> None:
    """Most heads and every MLP of a planted model write nothing for the small test input."""
    planted = build()
    model = HuggingFace(planted.model, planted.tokenizer, "planted")
    for what in ("attentions", "mlps"):
        points = patch_points(model, what)
        names = {module: name for name, module in model.net.named_modules()}
        for (_, layer, module, _), source in points.made.items():
            own = names[module]
            assert f".{layer}." in own and source.point.layer == layer
            assert ("attention" in own or ".attn" in own) == (what == "attentions"), own


def test_a_patched_head_is_the_linear_part_of_its_output() -> None:
    """Head h of a layer adds (clean - corrupt) W_O to the residual stream, and nothing else."""
    model = wb.load("mini:gpt", device="cpu")
    assert isinstance(model, HuggingFace)
    text = model.encode(wb.encode(wb.read("primer").docs("test", 12)))
    lengths = text.mask.sum(1).tolist()
    one, other = next(
        (a, b) for a in range(12) for b in range(a) if lengths[a] == lengths[b] >= 4
    )  # two texts of one length
    clean, corrupt = (text.take([row]).narrowed() for row in (one, other))
    points = patch_points(model, "heads")
    source = activations(points, lambda: model.forward(clean, hidden=False))
    own = activations(points, lambda: model.forward(corrupt, hidden=False))
    point, head = points.points[0], 2
    site = model.sites[0]
    weights = model.output_weights()[site][head]  # [width of a head, width]
    expected = (source[point, 0] - own[point, 0])[0, :, head] @ weights  # [pieces, width]
    every = tuple(range(clean.ids.shape[1]))
    states: list[Tensor] = []
    where = plan(model)

    def run(n_rows: int, here: object) -> Tensor:
        stream = residual_stream(model, corrupt.take([0] * n_rows), where=where)
        states.append(stream.steps["decoder"][0][0].added[0])
        return torch.zeros(n_rows)

    base = recorded_base(points, lambda: model.forward(corrupt, hidden=False))
    with torch.no_grad():
        before = residual_stream(model, corrupt, where=where).steps["decoder"][0][0].added[0]
    patched(points, base, source, [Patch(point, every, every, head)], run, len(every))
    torch.testing.assert_close(states[0] - before, expected, atol=1e-4, rtol=1e-4)
    assert float(expected.abs().max()) > 0.1


def test_norms_on_outputs_leave_states_and_heads() -> None:
    """In OLMo 2 attention and MLP outputs pass a norm before they are added."""
    sizes: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    net = Olmo2ForCausalLM(Olmo2Config(vocab_size=64, intermediate_size=64, **sizes)).eval()
    model = HuggingFace(net, zoo.words_of("llama"), "olmo")
    assert len(patch_points(model, "states").points) == 3
    assert len(patch_points(model, "heads").points) == 2
    for what in ("mlps", "attentions"):
        with pytest.raises(wb.WorkbenchError, match="residual stream"):
            patch_points(model, what)


def test_points_that_a_model_lacks_are_refused(tmp_path: Path) -> None:
    elmo = wb.load("mini:elmo", device="cpu")
    with pytest.raises(wb.WorkbenchError, match="recurrent"):
        patch_points(elmo, "heads")
    with pytest.raises(wb.WorkbenchError, match="layers"):
        patch_points(linear(tmp_path).model, "states")
    with pytest.raises(wb.WorkbenchError, match="neurons"):
        patch_points(elmo, "neurons")  # type: ignore[arg-type]


# --- ELMo -----------------------------------------------------------------------------------------


def test_states_of_elmo_are_read_by_the_layer_above() -> None:
    """By hand: the LSTMs of each layer, one after the other, over states with some exchanged."""
    model = wb.load("mini:elmo", device="cpu")
    docs = list(wb.read("primer").docs("test", 12))
    one, other = next(
        (a, b) for a in docs for b in docs if a.text != b.text and len(a) == len(b) >= 5
    )
    clean, corrupt = (model.encode(wb.encode([doc])) for doc in (one, other))
    points = patch_points(model, "states")
    n_words = len(one)

    def run(n_rows: int, here: object) -> Tensor:
        last = model.states_with_ends(corrupt.take([0] * n_rows))[-1]
        return model.logits_of_states(last[:, 3], "next")[:, 5]  # after the third word

    patches = [Patch(point, (at,), (at,)) for point in points.points for at in (-1, 0, 2, n_words)]
    whole = tuple(range(-1, n_words + 1))
    patches += [Patch(point, whole, whole) for point in points.points]
    patches += [Patch(points.points[1], (), ())]
    base = recorded_base(points, lambda: model.states_with_ends(corrupt))
    source = activations(points, lambda: model.states_with_ends(clean))
    found = patched(points, base, source, patches, run, n_words + 2)
    elmo: Any = model.elmo  # type: ignore[attr-defined]
    expected = [_elmo_by_hand(model, elmo, clean, corrupt, patch) for patch in patches]
    torch.testing.assert_close(found.tolist(), expected, **CLOSE)
    torch.testing.assert_close(found[-4:-1].tolist(), [run_of(model, clean)] * 3, **CLOSE)
    torch.testing.assert_close(found[-1].item(), run_of(model, corrupt), **CLOSE)


def run_of(model: Any, text: Pieces) -> float:
    with torch.no_grad():
        last = model.states_with_ends(text)[-1]
        return float(model.logits_of_states(last[:, 3], "next")[0, 5])


@torch.no_grad()
def _elmo_by_hand(model: Any, elmo: Any, clean: Pieces, corrupt: Pieces, patch: Patch) -> float:
    layers = [model.states_with_ends(text)[patch.point.layer][0] for text in (clean, corrupt)]
    states = layers[1].clone()
    for at, source in zip(patch.positions, patch.sources, strict=True):
        states[at + 1] = layers[0][source + 1]
    forward = states[:, : states.shape[1] // 2]  # the direction that predicts the next word
    for layer in range(patch.point.layer, elmo.options.layers):
        forward = _lstm(elmo, layer, forward)
    return float(model.logits_of_states(torch.cat([forward, forward], 1)[3], "next")[5])


def _lstm(elmo: Any, layer: int, rows: Tensor) -> Tensor:
    """One LSTM layer of the forward direction, word by word, from its definition."""
    weights = {
        name.split("/")[-1]: value
        for name, value in elmo.weights.items()
        if name.startswith(f"RNN_0/RNN/MultiRNNCell/Cell{layer}/")
    }
    options = elmo.options
    hidden, cell = torch.zeros(options.width), torch.zeros(options.cells)
    found = []
    for row in rows:
        gates = torch.cat([row, hidden]) @ weights["W_0"] + weights["B"]
        i, j, f, o = gates.chunk(4)
        cell = torch.sigmoid(f + 1) * cell + torch.sigmoid(i) * torch.tanh(j)
        if options.cell_clip:
            cell = cell.clamp(-options.cell_clip, options.cell_clip)
        hidden = torch.sigmoid(o) * torch.tanh(cell)
        if "W_P_0" in weights:
            hidden = hidden @ weights["W_P_0"]
            if options.projection_clip:
                hidden = hidden.clamp(-options.projection_clip, options.projection_clip)
        found.append(hidden + row if options.skip and layer else hidden)
    return torch.stack(found)
