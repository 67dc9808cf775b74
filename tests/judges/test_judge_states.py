"""A judge of `Read` and `Write`: hooks of torch on transformers' own modules, named by hand.

Each site of six families is a module, whether its input or its output, and a range of its numbers.
A hook there stores or changes the states of a pass of the plain net; ELMo's two directions are read
layer by layer. Imports nothing of what it judges but the two taps.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

import workbench as wb
from tests.models.headed import made
from tests.models.test_attention import inputs, pieces
from tests.night import mostly
from workbench import WorkbenchError
from workbench.engine.batch import Pieces
from workbench.models.huggingface import HuggingFace

CLOSE = {"atol": 1e-5, "rtol": 1e-5}
W, D = 32, 8  # width of the models, and of a head
FAMILIES = {
    "bert": "BertForMaskedLM",
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "gpt-neox": "GPTNeoXForCausalLM",
    "t5": "T5ForConditionalGeneration",
    "bart": "BartForConditionalGeneration",
}
Where = tuple[str, str, slice | None]  # a module, its input or output, and which of its numbers


def head(n: int, start: int = 0) -> slice:
    return slice(start + n * D, start + (n + 1) * D)


def woven(part: int) -> list[int]:
    """Of GPT-NeoX: queries, keys and values of each head in turn."""
    return [h * 3 * D + part * D + n for h in range(4) for n in range(D)]


def _bert() -> dict[str, Any]:
    one, two = (f"bert.encoder.layer.{n}" for n in (0, 1))
    return {
        "embeddings": (one, "in", None),
        "block 1": (one, "out", None),
        "block 2": (two, "out", None),
        "block 1 attention": (f"{one}.attention.output.dense", "out", None),
        "block 2 mlp": (f"{two}.output.dense", "out", None),
        "block 1 queries": (f"{one}.attention.self.query", "out", None),
        "block 2 keys": (f"{two}.attention.self.key", "out", None),
        "block 1 values": (f"{one}.attention.self.value", "out", None),
        "head 1.3": (f"{one}.attention.output.dense", "in", head(2)),
        "head 2.4 values": (f"{two}.attention.self.value", "out", head(3)),
    }


def _gpt2() -> dict[str, Any]:
    one, two = (f"transformer.h.{n}" for n in (0, 1))
    return {
        "embeddings": (one, "in", None),
        "block 1": (one, "out", None),
        "block 2": (two, "out", None),
        "block 1 attention": (f"{one}.attn.c_proj", "out", None),
        "block 2 mlp": (f"{two}.mlp", "out", None),
        "block 1 queries": (f"{one}.attn.c_attn", "out", slice(0, W)),
        "block 2 keys": (f"{two}.attn.c_attn", "out", slice(W, 2 * W)),
        "block 2 values": (f"{two}.attn.c_attn", "out", slice(2 * W, 3 * W)),
        "head 2.1": (f"{two}.attn.c_proj", "in", head(0)),
        "head 1.2 keys": (f"{one}.attn.c_attn", "out", head(1, W)),
    }


def _llama() -> dict[str, Any]:
    one, two = (f"model.layers.{n}" for n in (0, 1))
    return {
        "embeddings": (one, "in", None),
        "block 1": (one, "out", None),
        "block 2": (two, "out", None),
        "block 2 attention": (f"{two}.self_attn.o_proj", "out", None),
        "block 1 mlp": (f"{one}.mlp", "out", None),
        "block 1 queries": (f"{one}.self_attn.q_proj", "out", None),
        "block 1 keys": (f"{one}.self_attn.k_proj", "out", None),
        "block 2 values": (f"{two}.self_attn.v_proj", "out", None),
        "head 1.4": (f"{one}.self_attn.o_proj", "in", head(3)),
        "head 1.4 values": (f"{one}.self_attn.v_proj", "out", head(1)),  # two heads share it
    }


def _neox() -> dict[str, Any]:
    one, two = (f"gpt_neox.layers.{n}" for n in (0, 1))
    return {
        "embeddings": (one, "in", None),
        "block 2": (two, "out", None),
        "block 1 attention": (f"{one}.attention.dense", "out", None),
        "block 2 mlp": (f"{two}.mlp.dense_4h_to_h", "out", None),
        "block 1 queries": (f"{one}.attention.query_key_value", "out", woven(0)),
        "block 2 values": (f"{two}.attention.query_key_value", "out", woven(2)),
        "head 2.2": (f"{two}.attention.dense", "in", head(1)),
    }


def _t5() -> dict[str, Any]:
    one, two = (f"encoder.block.{n}" for n in (0, 1))
    last = "decoder.block.1"
    return {
        "embeddings": (one, "in", None),
        "block 1": (one, "out", None),
        "block 2 attention": (f"{two}.layer.0.SelfAttention.o", "out", None),
        "block 1 mlp": (f"{one}.layer.1.DenseReluDense.wo", "out", None),
        "block 1 queries": (f"{one}.layer.0.SelfAttention.q", "out", None),
        "head 2.3": (f"{two}.layer.0.SelfAttention.o", "in", head(2)),
        "decoder embeddings": ("decoder.block.0", "in", None),
        "decoder block 2": (last, "out", None),
        "decoder block 2 attention": (f"{last}.layer.0.SelfAttention.o", "out", None),
        "block 2 cross-attention": (f"{last}.layer.1.EncDecAttention.o", "out", None),
        "decoder block 2 cross-attention keys": (f"{last}.layer.1.EncDecAttention.k", "out", None),
        "cross-attention head 2.4": (f"{last}.layer.1.EncDecAttention.o", "in", head(3)),
        "decoder block 2 mlp": (f"{last}.layer.2.DenseReluDense.wo", "out", None),
    }


def _bart() -> dict[str, Any]:
    one, last = "model.encoder.layers.0", "model.decoder.layers.2"
    return {
        "embeddings": (one, "in", None),
        "encoder block 1": (one, "out", None),
        "block 1 attention": (f"{one}.self_attn.out_proj", "out", None),
        "block 1 mlp": (f"{one}.fc2", "out", None),
        "block 1 values": (f"{one}.self_attn.v_proj", "out", None),
        "decoder block 3": (last, "out", None),
        "decoder head 3.1": (f"{last}.self_attn.out_proj", "in", head(0)),
        "decoder block 3 cross-attention": (f"{last}.encoder_attn.out_proj", "out", None),
        "cross-attention head 3.2 values": (f"{last}.encoder_attn.v_proj", "out", head(1)),
        "decoder block 3 mlp": (f"{last}.fc2", "out", None),
    }


SITES = {
    "bert": _bert(), "gpt2": _gpt2(), "llama": _llama(),
    "gpt-neox": _neox(), "t5": _t5(), "bart": _bart(),
}  # fmt: skip
BY_DAY = ("bert", "llama", "t5")
ALL = mostly(SITES, *BY_DAY)
CASES = [(family, name) for family, sites in SITES.items() for name in sites]
CASES_BY_DAY = [
    *(case for case in CASES if case[0] == "bert"),
    ("t5", "decoder embeddings"),
    ("t5", "decoder block 2 cross-attention keys"),
    ("t5", "cross-attention head 2.4"),
    ("llama", "head 1.4 values"),
]

AT_EACH_SITE = pytest.mark.parametrize(("family", "name"), mostly(CASES, *CASES_BY_DAY))


@cache
def opened(family: str) -> HuggingFace:
    return made(family, FAMILIES[family])


@cache
def read(family: str) -> tuple[Pieces, Pieces]:
    """Two texts of 7 and 5 pieces, and what a decoder writes."""
    text, target = (pieces(opened(family), 2, n, False) for n in (7, 4))
    text.mask[1, 5:] = False
    words = torch.tensor([[-1, 0, 0, 1, 2, 3, -1], [-1, 0, 1, 1, -1, -1, -1]])
    return replace(text, order=torch.tensor([0, 1]), words=words), target


@contextmanager
def hooked(net: Any, where: Where, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Some numbers of a module go through a function, [batch, pieces, numbers]."""
    name, side, part = where
    module = net.get_submodule(name)

    def changed(states: Tensor) -> Tensor:
        if part is None:
            return change(states)
        new = states.clone()
        new[..., part] = change(states[..., part])
        return new

    def before(_: Any, args: Any, kwargs: Any) -> Any:
        if args:
            return (changed(args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": changed(kwargs["hidden_states"])}

    def after(_: Any, __: Any, out: Any) -> Any:
        return (changed(out[0]), *out[1:]) if isinstance(out, tuple) else changed(out)

    if side == "in":
        hook = module.register_forward_pre_hook(before, with_kwargs=True)
    else:
        hook = module.register_forward_hook(after)
    try:
        yield
    finally:
        hook.remove()


@torch.no_grad()
def judged(family: str, name: str, change: Callable[[Tensor], Tensor]) -> Tensor:
    """The logits of the plain net at its pieces, with the states of a site changed by a hook."""
    net = opened(family).net
    with hooked(net, SITES[family][name], change):
        return real(family, net(**inputs(opened(family), *read(family))).logits)


@torch.no_grad()
def ours(family: str, *taps: Any) -> Tensor:
    text, target = read(family)
    logits = opened(family).forward(text, targets=target, taps=taps, logits=True).logits
    assert logits is not None
    return logits


def real(family: str, logits: Tensor) -> Tensor:
    return logits if opened(family).two_sided else logits[read(family)[0].mask]


def agrees(family: str, expected: Tensor, *taps: Any) -> None:
    torch.testing.assert_close(real(family, ours(family, *taps)), expected, **CLOSE)


@AT_EACH_SITE
def test_what_is_read_is_what_a_hook_stores(family: str, name: str) -> None:
    stored: list[Tensor] = []

    def store(states: Tensor) -> Tensor:
        stored.append(states.clone())
        return states

    tap = wb.Read(name)
    agrees(family, judged(family, name, store), tap)
    is_written = "decoder" in name or "cross" in name
    is_written = is_written and not name.endswith(("cross-attention keys", "values"))
    lengths = [4, 4] if is_written else [7, 5]
    for row, length in enumerate(lengths):
        torch.testing.assert_close(tap[name][row].flatten(1), stored[0][row, :length], **CLOSE)


@AT_EACH_SITE
def test_what_is_written_is_what_a_hook_changes(family: str, name: str) -> None:
    def at_third(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        return lambda at: torch.cat([at[:, :2], change(at[:, 2:3]), at[:, 3:]], 1)

    bent = judged(family, name, at_third(lambda at: 3 * at.tanh()))
    agrees(family, bent, wb.Write(name, lambda at: 3 * at.tanh(), positions=[2]))
    linear = judged(family, name, at_third(lambda at: 2 * at + 1))
    agrees(family, linear, wb.Write(name, times=2.0, plus=1.0, positions=2))
    agrees(family, judged(family, name, torch.zeros_like), wb.Write(name, 0))
    untouched = judged(family, name, lambda at: at)
    assert (untouched - bent).abs().max() > 1e-4
    agrees(family, untouched)  # nothing is left behind


@pytest.mark.parametrize("family", ALL)
def test_words_and_positions_choose_pieces_of_each_text(family: str) -> None:
    every = wb.Read("block 1")
    taps = {
        "word 1": wb.Read("block 1", words=1),
        "words": wb.Read("block 1", words=[0, 2]),
        "last": wb.Read("block 1", positions=-1),
        "from": wb.Read("block 1", positions=slice(2, -1)),
        "both": wb.Read("block 1", words=1, positions=slice(3, None)),
    }
    ours(family, every, *taps.values())
    one, two = every["block 1"]
    expected = {
        "word 1": (one[3:4], two[2:4]), "words": (one[[1, 2, 4]], two[1:2]),
        "last": (one[6:], two[4:]), "from": (one[2:6], two[2:4]), "both": (one[3:4], two[3:4]),
    }  # fmt: skip
    for name, (first, last) in expected.items():
        found = taps[name]["block 1"]
        assert torch.equal(found[0], first) and torch.equal(found[1], last), name


@pytest.mark.parametrize("family", ALL)
def test_taps_act_in_their_order(family: str) -> None:
    name = "block 1"
    before, after = wb.Read(name), wb.Read(name)
    ours(family, before, wb.Write(name, plus=1.0), wb.Write(name, times=2.0), after)
    torch.testing.assert_close(2 * (before[name][0] + 1), after[name][0], **CLOSE)


@pytest.mark.parametrize("family", ALL)
def test_states_of_another_text_are_written(family: str) -> None:
    """The last block of one text, in another of its length: its logits."""
    model, (text, target) = opened(family), read(family)
    name = f"{model.stacks[-1].name} block {model.stacks[-1].layers}"
    seen = wb.Read(name)
    with torch.no_grad():
        first = model.forward(text.take([0]), targets=target.take([0]), taps=[seen], logits=True)
        other = replace(text.take([0]), ids=text.ids[:1].flip(1))
        tap = wb.Write(name, seen[name][0])
        found = model.forward(other, targets=target.take([0]), taps=[tap], logits=True)
        twice = model.forward(
            replace(text.take([0, 0]), ids=text.ids[:1].flip(1).repeat(2, 1)),
            targets=target.take([0, 0]), taps=[tap], logits=True,
        )  # fmt: skip
    assert first.logits is not None and found.logits is not None and twice.logits is not None
    torch.testing.assert_close(found.logits, first.logits, **CLOSE)
    torch.testing.assert_close(twice.logits[1:], first.logits, **CLOSE)


# --- left as it was -------------------------------------------------------------------------------


def traces(net: Any) -> Any:
    """All hooks and replaced methods of a net, its mode, and its weights."""
    hooks = [
        (name, [*m._forward_hooks], [*m._forward_pre_hooks], [*m._backward_hooks],
         "forward" in vars(m), "post_attention" in vars(m), m.training)
        for name, m in net.named_modules()
    ]  # fmt: skip
    return hooks, [(n, p._version, p.requires_grad) for n, p in net.named_parameters()]


@pytest.mark.parametrize("family", mostly(SITES, "t5"))
def test_nothing_is_left_behind_after_an_error(family: str) -> None:
    model = opened(family)
    before = ours(family)  # transformers adds hooks of its own at first
    left = traces(model.net)

    def fails(states: Tensor) -> Tensor:
        raise KeyboardInterrupt

    for name in SITES[family]:
        with pytest.raises(KeyboardInterrupt):
            ours(family, wb.Write(name, fails))
        assert traces(model.net) == left, name
    seen = wb.Read("block 1")
    with pytest.raises(KeyboardInterrupt):
        ours(family, seen, wb.Write("block 2", fails))
    assert not seen.states  # of half a pass nothing is stored
    with pytest.raises(WorkbenchError, match="head"):
        ours(family, wb.Write("head 1.9", 0))
    wb.Write("block 1", 0).into(model)
    assert traces(model.net) == left
    assert torch.equal(ours(family), before)


def test_errors_say_which_sites_there_are() -> None:
    model = opened("bert")
    for name in ("layer two", "block 0", "block 3", "head 1.5", "decoder block 1", "resid_post 3",
                 "block 1 cross-attention"):  # fmt: skip
        with pytest.raises(WorkbenchError) as caught:
            model.forward(read("bert")[0], taps=[wb.Read(name)])
        assert caught.value.code in ("layer-missing", "head-missing") and caught.value.remedy
    for name, here in (
        ("blocks.1.hook_resid_post", "block 2"),
        ("blocks.0.hook_resid_pre", "embeddings"),
        ("blocks.0.attn.hook_z", "block 1 heads"),
        ("blocks.1.attn.hook_pattern", "wb.Capture"),
    ):
        with pytest.raises(WorkbenchError) as caught:
            ours("bert", wb.Read(name))
        assert here in caught.value.remedy
    with pytest.raises(WorkbenchError, match="shape"):
        ours("bert", wb.Write("block 1", torch.zeros(5)))
    with pytest.raises(WorkbenchError, match="zero"):
        ours("bert", wb.Write("block 1", "zero"))  # type: ignore[arg-type]
    with pytest.raises(WorkbenchError, match="None"):
        ours("bert", wb.Write("block 1", lambda states: None))  # type: ignore[arg-type, return-value]
    ours("bert", absent := wb.Read("block 1", positions=99))
    with pytest.raises(WorkbenchError, match="positions=99"):
        absent["block 1"]
    beyond = wb.Write("block 1", 0, positions=99)
    with pytest.raises(WorkbenchError, match="positions=99"), beyond.on(model):
        model.forward(read("bert")[0])
    with pytest.raises(WorkbenchError, match="nothing"):
        wb.Write("block 1")
    with pytest.raises(WorkbenchError, match="block 2"):
        wb.Read("block 1")["block 2"]


# --- an edited model ------------------------------------------------------------------------------


@pytest.mark.parametrize("family", mostly(SITES, "bert"))
def test_an_edited_model_is_the_model_with_the_tap(family: str) -> None:
    model = opened(family)
    for name in SITES[family]:
        tap = wb.Write(name, times=0.5, plus=0.1)
        twin = tap.into(model)
        text, target = read(family)
        with torch.no_grad():
            found = twin.forward(text, targets=target, logits=True)
            again = twin.copy().forward(text, targets=target, logits=True)
        expected = ours(family, tap)
        assert found.logits is not None and again.logits is not None
        assert torch.equal(found.logits, expected) and torch.equal(again.logits, expected)
    weights = [*twin.named_weights().values()]  # type: ignore[possibly-undefined]
    assert all(a is b for a, b in zip(weights, model.named_weights().values(), strict=True))


def test_an_edit_of_an_edit_makes_both_changes() -> None:
    model, first, second = opened("gpt2"), wb.Write("block 1", plus=1.0), wb.Write("head 2.1", 0)
    both = second.into(first.into(model))
    with torch.no_grad():
        found = both.forward(read("gpt2")[0], logits=True).logits
    assert torch.equal(found, ours("gpt2", first, second))  # type: ignore[arg-type]
    assert "block 1" in both.name and "head 2.1" in both.name


def test_the_fingerprint_is_of_the_base_and_of_the_change() -> None:
    model, vector = opened("bert"), torch.ones(W)
    hashes = [
        tap.into(model).content_hash
        for tap in (
            wb.Write("block 1", plus=vector), wb.Write("block 1", plus=vector.clone()),
            wb.Write("block 2", plus=vector), wb.Write("block 1", plus=2 * vector),
            wb.Write("block 1", vector), wb.Write("block 1", plus=vector, positions=1),
            wb.Write("block 1", lambda x: x), wb.Write("block 1", lambda x: x),
        )
    ]  # fmt: skip
    assert hashes[0] == hashes[1]
    assert len({model.content_hash, *hashes}) == len(hashes)


def test_an_edited_model_is_not_saved(tmp_path: Any) -> None:
    with pytest.raises(WorkbenchError, match="saved"):
        wb.Write("block 1", 0).into(opened("bert")).save(tmp_path / "m")


# --- while text is written ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "positions"),
    mostly(
        [
            (family, positions)
            for family in ("gpt2", "llama", "t5", "bart")
            for positions in (None, 2, slice(5, None))
        ],
        ("gpt2", 2),
        ("gpt2", slice(5, None)),
        ("t5", None),
    ),
)
def test_writing_step_by_step_is_what_hooks_do_without_a_cache(family: str, positions: Any) -> None:
    """Greedy, piece by piece: a pass over all pieces for each, with a hook."""
    from workbench.models.scoring.generation import continued

    model = opened(family)
    name = "decoder block 2"
    text = read(family)[0].take([0])
    vector = torch.linspace(-2, 2, W)

    def change(states: Tensor) -> Tensor:
        at = torch.zeros(states.shape[1], dtype=torch.bool)
        if not isinstance(positions, int) or states.shape[1] > positions:
            at[slice(None) if positions is None else positions] = True
        return states + vector * at[:, None]

    path = {"t5": "decoder.block.1", "bart": "model.decoder.layers.1",
            "gpt2": "transformer.h.1", "llama": "model.layers.1"}[family]  # fmt: skip
    net, steps = model.net, 6
    start = getattr(net.config, "decoder_start_token_id", None)
    ids = torch.tensor([[start]]) if model.two_sided else text.ids
    first = ids.shape[1]
    with torch.no_grad(), hooked(net, (path, "out", None), change):
        for _ in range(steps):
            given = {"decoder_input_ids": ids} if model.two_sided else {}
            source = text.ids if model.two_sided else ids
            logits = net(input_ids=source, **given, use_cache=False).logits[0, -1]
            ids = torch.cat([ids, logits.argmax()[None, None]], 1)
    tap = wb.Write(name, plus=vector, positions=positions)
    seen = wb.Read(name)
    expected = ids[0, first:].tolist()
    for written in (
        continued(tap.into(model), text, steps)[0],
        _continued_on(model, text, steps, [tap, seen]),
    ):
        found = [step.piece for step in written]
        assert found == expected[: len(found)] and found
    assert len(seen[name][0]) >= first + len(found) - 1  # every piece that was read


def _continued_on(model: Any, text: Pieces, steps: int, taps: list[Any]) -> Any:
    from workbench.models.scoring.generation import continued

    with taps[0].on(model), taps[1].on(model):
        return continued(model, text, steps)[0]


# --- ELMo -----------------------------------------------------------------------------------------


@torch.no_grad()
def test_elmo_reads_changed_states_in_the_layer_above() -> None:
    model = wb.load("mini:elmo", device="cpu")
    text = model.encode(wb.encode(wb.read("primer").docs("test", 3)))
    elmo = model.elmo  # type: ignore[attr-defined]
    layers, lengths = elmo.with_boundaries(model.sentences(text))  # type: ignore[attr-defined]
    width = layers[0].shape[-1] // 2
    for layer in range(3):
        changed = layers[layer].clone()
        for row, length in enumerate(lengths.tolist()):
            changed[row, 2] += 1 if length > 3 else 0
        expected = [*layers[:layer], changed]
        for above in range(layer + 1, 3):  # one sentence and one direction at a time
            rows = torch.zeros_like(changed)
            for row, length in enumerate(lengths.tolist()):
                own = expected[above - 1][row, :length]
                ahead = elmo.read(own[:, :width], [1] * length, 0, above - 1)[0]
                back = elmo.read(own.flip(0)[:, width:], [1] * length, 1, above - 1)[0].flip(0)
                rows[row, :length] = torch.cat([ahead, back], 1)
            expected.append(rows)
        name = f"block {layer}" if layer else "embeddings"
        tap, seen = wb.Write(name, plus=1.0, positions=1), wb.Read(name)
        found = model.forward(text, taps=[tap, seen]).hidden["encoder"]
        twin = tap.into(model)
        for own, states in zip(
            (found, twin.forward(text).hidden["encoder"]), (expected,) * 2, strict=True
        ):
            for n, state in enumerate(states):
                for row, length in enumerate(lengths.tolist()):
                    torch.testing.assert_close(
                        own[n][row, : length - 2], state[row, 1 : length - 1], **CLOSE
                    )
        assert [len(each) for each in seen[name]] == [length - 2 for length in lengths.tolist()]
        assert twin.content_hash != model.content_hash
        assert torch.equal(model.forward(text).hidden["encoder"][2], model.states(text)[2])
    assert wb.predict(twin, "Ben walks")


def test_experiments_and_explanations_run_on_an_edited_model(
    tmp_path: Any, undrawn: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path))
    model = wb.load("mini:bert", device="cpu")
    twin = wb.Write("head 1.4", 0).into(model)
    runs = [wb.run("profile", model=each, corpus="primer:size=40") for each in (model, twin)]
    assert runs[0].name != runs[1].name
    assert not runs[0].tables["losses"].equals(runs[1].tables["losses"])
    text, target = "Ben [MASK] to the hill.", "walks"
    scores = [wb.attribute(each, text, target).table["score"].tolist() for each in (model, twin)]
    assert scores[0] != scores[1]
    assert wb.lens(twin, text) and wb.attention(twin, text)
    assert wb.generate(
        wb.Write("block 4", 0).into(wb.load("mini:gpt", device="cpu")), "Ben"
    ).written


# --- XLNet: pieces before texts, and a second stream where pieces are hidden ----------------------


@pytest.mark.parametrize("is_hidden", mostly([False, True], True))
@torch.no_grad()
def test_xlnet_in_a_pass_with_one_stream_and_with_two(is_hidden: bool) -> None:
    model = made("xlnet", "XLNetLMHeadModel")
    text = replace(pieces(model, 2, 7, False), order=torch.tensor([0, 1]))
    if is_hidden:
        text = replace(text, unseen=torch.arange(7).expand(2, 7) == 3)
    block = model.net.transformer.layer[0]
    stored: list[Tensor] = []
    hook = block.ff.layer_2.register_forward_hook(lambda _, __, out: stored.append(out.clone()))
    plain = model.forward(text, logits=True).logits
    hook.remove()
    seen = wb.Read("block 1 mlp")
    model.forward(text, taps=[seen])
    own = stored[-1].transpose(0, 1)  # the second stream is read first
    assert len(stored) == 1 + is_hidden
    torch.testing.assert_close(torch.stack(seen["block 1 mlp"]), own, **CLOSE)
    hook = block.ff.layer_2.register_forward_hook(lambda _, __, out: out * 0)
    expected = model.forward(text, logits=True).logits
    hook.remove()
    zero = wb.Write("block 1 mlp", 0)
    found = model.forward(text, taps=[zero], logits=True).logits
    assert found is not None and plain is not None and expected is not None
    torch.testing.assert_close(found, expected, **CLOSE)
    assert (found - plain).abs().max() > 1e-3
    first, second = wb.Write("head 1.2", times=0.5), wb.Write("head 1.2", plus=1.0)
    both = model.forward(text, taps=[first, second], logits=True).logits
    with second.on(model), first.on(model):
        nested = model.forward(text, logits=True).logits
    twice = second.into(first.into(model)).forward(text, logits=True).logits
    assert torch.equal(nested, both) and torch.equal(twice, both)  # type: ignore[arg-type]
    assert torch.equal(model.forward(text, logits=True).logits, plain)  # type: ignore[arg-type]
