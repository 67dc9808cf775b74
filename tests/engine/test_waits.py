"""A GPU that is not there: nothing is on the wrong device, and the host seldom waits for it.

Everything runs on the CPU, on `card.Card`, which counts waits and refuses what a GPU would refuse.
What transformers itself waits for (whether a batch has padding) is not counted.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from spacy.tokens import Doc
from torch import Tensor
from torch.nn import Dropout
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

import workbench as wb
from tests.benchmarks.engine import Quiet
from tests.engine.card import CUDA, Card, card
from tests.models.gated import shared
from tests.models.zoo import make
from tests.night import mostly
from workbench import WorkbenchError, encode, load, read
from workbench.analyses.heads import collect
from workbench.analyses.heads.collect import PassSettings, look
from workbench.analyses.heads.examples import Sample
from workbench.analyses.heads.gold import gold_of
from workbench.analyses.probes import batched_adam
from workbench.analyses.probes.logistic import logistic
from workbench.analyses.probes.probe_training import Probe, Schedule, data_of, train_seeds
from workbench.analyses.probes.representations import build_banks, encoded
from workbench.analyses.probes.targets import examples_of, tasks_of
from workbench.analyses.pruning.ablation import ablated, means, others
from workbench.analyses.pruning.evaluation import score_texts
from workbench.analyses.pruning.importance import gate_gradients
from workbench.analyses.transfer.backbone import Body
from workbench.engine.activation_store import word_states
from workbench.engine.forward_pass import PIECES, forward
from workbench.engine.halving import Limit, averaged, in_halves
from workbench.engine.map_statistics import Reduce, together
from workbench.engine.taps import Capture, Gate
from workbench.models.huggingface import HuggingFace
from workbench.models.scoring.eval_tasks import Plan, eval_task_of, learn

MINIS = ("mini:bert", "mini:gpt", "mini:t5", "mini:elmo")
DOCS = list(read("primer:size=30", unit="sentence").docs("train"))
BATCH = encode(DOCS, ["pos"])
FEW = PassSettings(n_bootstrap=20, n_shuffles=20)
SMALL = 150  # pieces, so that there are several batches


@cache
def _read(name: str, device: str) -> Any:
    return load(name, device, "fp32")


def loaded(name: str, device: str = "cuda") -> Any:
    """A model of its own, on the card; waits during loading do not count."""
    return deepcopy(_read(name, device))


@cache
def looked_at(name: str) -> Any:
    """What is found on the host with memory enough."""
    return look(loaded(name, "cpu"), BATCH, gold_of(DOCS), FEW, pieces=SMALL)


def drawn_others(*given: Any) -> Any:
    return others(*given, seed=0)


def waited(here: Card) -> Counter[str]:
    """What our own code waited for since the last call."""
    own = Counter({what: n for what, n in here.waits.items() if "masking_utils" not in what})
    here.waits.clear()
    return own


# --- the card itself ------------------------------------------------------------------------------


def test_the_card_sees_what_a_gpu_would() -> None:
    with card() as here:
        there = torch.ones(3).to(CUDA)
        assert there.device == CUDA and (there + 1).device == CUDA and not here.waits["item"]
        for wait in (
            lambda: there.tolist(), lambda: there[there > 0], lambda: bool(there.any()),
            lambda: there.nonzero(), lambda: there.cpu(), lambda: torch.ones(3).to(CUDA),
        ):  # fmt: skip
            here.waits.clear()
            wait()
            assert sum(here.waits.values()) == 1
        with pytest.raises(RuntimeError, match="cuda:0 and on the CPU"):
            there + torch.ones(3)
        here.waits.clear()
        there.sum().add(1).to("cpu", non_blocking=True)
        torch.ones(3).pin_memory().to(CUDA, non_blocking=True)
        assert not here.waits


# --- how often the host waits ---------------------------------------------------------------------


@pytest.mark.parametrize("name", mostly(MINIS, "mini:elmo", "mini:t5"))
def test_a_pass_waits_for_nothing(name: str) -> None:
    with card() as here:
        model, sizes = loaded(name), []
        waited(here)
        tap = Reduce(together())
        taps = [tap] if model.sites else []
        forward(
            model, BATCH, lambda t, o: sizes.append(t.pieces), taps=taps, hidden=True, pieces=SMALL
        )
        assert len(sizes) > 2
        spells = 3 if name == "mini:elmo" else 0  # words go back to the host, to be spelt
        assert sum(waited(here).values()) <= spells * len(sizes)


@pytest.mark.parametrize("name", mostly(MINIS, "mini:elmo", "mini:bert"))
def test_a_store_waits_for_nothing(name: str, tmp_path: Path) -> None:
    with card() as here:
        model = loaded(name)
        _ = model.content_hash
        waited(here)
        _, report = word_states(model, BATCH, tmp_path, pieces=SMALL)
        assert report is not None
        own = waited(here)
        spells = 3 * (2 + report.pieces // SMALL) if name == "mini:elmo" else 0
        assert sum(own.values()) <= spells, own
    stored, _ = word_states(loaded(name, "cpu"), BATCH, tmp_path / "cpu", pieces=SMALL)
    there, _ = word_states(loaded(name, "cpu"), BATCH, tmp_path, pieces=SMALL)
    for stack, store in stored.items():
        for layer in range(store.description.layers + 1):
            close = torch.testing.assert_close
            close(there[stack].layer(layer), store.layer(layer), atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("name", mostly(MINIS[:3], "mini:bert"))
def test_heads_wait_for_nothing(name: str) -> None:
    gold = gold_of(DOCS)
    with card() as here:
        model = loaded(name)
        look(model, encode(DOCS[:4]), gold_of(DOCS[:4]), FEW)  # finds out how values go on
        waited(here)
        found = look(model, BATCH, gold, FEW, pieces=SMALL)
        own = Counter({k: n for k, n in waited(here).items() if "projections.py" not in k})
        assert not own
    plain = looked_at(name)
    for site, sums in plain.hits.items():
        assert torch.equal(sums, found.hits[site].to("cpu"))
    for site, sums in plain.heads.items():
        same = torch.isclose(found.heads[site].to("cpu"), sums, atol=1e-2, rtol=1e-4)
        assert same.double().mean() > 0.995, "other batches turn a near tie now and then"


def test_a_sample_waits_once_a_site_and_text() -> None:
    gold = gold_of(DOCS)
    with card() as here:
        model = loaded("mini:bert")
        waited(here)
        sample = Sample(0.05, 4, frozenset(range(4)))
        look(model, BATCH, gold, FEW, pieces=SMALL, sample=sample)
        own = Counter({k: n for k, n in waited(here).items() if "few.py" in k})
        assert sum(own.values()) <= 5 * 4 * len(model.sites)


def _probing(home: Path) -> tuple[Any, list[Probe], Any, Any]:
    """States on the card, a probe for each layer, and what is learnt from and judged by."""
    task = tasks_of(("pos",), ("pos",))[0]
    part_of = torch.tensor([0] * 20 + [1] * 5 + [2] * 5).numpy()
    missing = torch.zeros(len(BATCH.words), dtype=torch.bool)
    examples = examples_of(task, BATCH, part_of, missing, 500, 0)
    sources = encoded(loaded("mini:bert"), BATCH, home, Quiet()).sources
    bank = build_banks(sources, CUDA, torch.arange(len(BATCH.words)))[0]
    data = data_of(examples, examples.labels, softmax=True)
    probes = [Probe((layer,), False) for layer in range(len(sources))]
    return bank, probes, *(data.take(examples.of(part)) for part in ("train", "dev"))


def test_convex_probes_wait_a_few_times_a_step_and_edge_probes_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with card() as here:
        bank, probes, learnt, dev = _probing(tmp_path)
        steps, newton = [], batched_adam._newton
        monkeypatch.setattr(batched_adam, "_newton", lambda *a: (steps.append(1), newton(*a))[1])
        waited(here)
        logistic(bank, probes, learnt, dev)
        own = waited(here)
        assert sum(own.values()) <= 3 * len(steps), own.most_common(5)
        spent = []
        for batch in (16, 64):  # four times as many steps in each epoch
            schedule = Schedule(learning_rate=3e-3, batch_size=batch, epochs=3, patience=9, steps=1)
            waited(here)
            train_seeds("edge", 32, bank, probes, {0: learnt}, dev, schedule)
            spent.append(sum(waited(here).values()))
        assert spent[0] <= spent[1] + 10, spent


@pytest.mark.parametrize("name", mostly(["mini:bert", "mini:t5"], "mini:bert"))
def test_ablation_and_learning_wait_a_few_times_a_batch(name: str) -> None:
    few = encode(DOCS[:15], ["pos"])
    with card() as here:
        model = loaded(name)
        aim = eval_task_of(model)
        questions = list(aim.questions(model, few, pieces=SMALL // 2))
        sets = [[(site.index, site.index % site.heads)] for site in model.sites]
        waited(here)
        found = ablated(model, aim, questions, sets, pieces=2 * SMALL)
        passes = len(questions) * (1 + len(sets))
        assert sum(waited(here).values()) <= 5 * passes
        gradients = gate_gradients(model, aim, questions)
        assert sum(waited(here).values()) <= 8 * len(questions)
        learn(model, aim, few, range(len(few)), Plan(3, texts=10))
        assert sum(waited(here).values()) <= 12 * 3
    plain = loaded(name, "cpu")
    assert isinstance(plain, HuggingFace)
    questions = list(aim.questions(plain, few, pieces=SMALL // 2))
    expected = ablated(plain, aim, questions, sets, pieces=2 * SMALL)
    assert abs(found.differences("loss") - expected.differences("loss")).max() < 1e-4
    own = gate_gradients(plain, aim, questions)
    assert abs(gradients.values - own.values).max() < 1e-4


@pytest.mark.parametrize("instead_of", mostly([means, drawn_others], means))
def test_what_stands_in_for_a_head_is_looked_up_once_a_pass(instead_of: Any) -> None:
    """Not once a site."""
    with card() as here:
        model = loaded("mini:bert")
        aim = eval_task_of(model)
        questions = list(aim.questions(model, BATCH, pieces=SMALL))
        instead = instead_of(model, aim, questions)
        sets = [[(site.index, 0)] for site in model.sites]
        waited(here)
        ablated(model, aim, questions, sets, instead, pieces=1)
        own = waited(here)
        assert sum(own.values()) <= 6 * len(questions) * (1 + len(sets)), own.most_common(8)


def test_what_is_compared_is_computed_in_as_many_rows() -> None:
    """A GPU's products depend on the number of rows; here they do so much that it is seen."""
    with card():
        model = loaded("mini:bert")
        aim = eval_task_of(model)
        questions = list(aim.questions(model, BATCH, pieces=SMALL))

        def depends(module: Any, args: Any, output: Tensor) -> Tensor:
            return output * (1 + 1e-3 * len(output))

        hook = model.net.base_model.encoder.layer[-1].output.register_forward_hook(depends)
        none_gone = ablated(model, aim, questions, [[], [], []], pieces=8 * SMALL)
        hook.remove()
    assert abs(none_gone.differences("loss")).max() < 1e-5


# --- batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", mostly(["mini:bert", "mini:gpt"], "mini:bert"))
def test_batches_on_a_gpu_are_filled(name: str) -> None:
    """512 documents at a time made a twentieth of what a batch may hold."""
    batch = encode(list(read("primer:size=200", unit="sentence").docs("train")))
    with card():
        model, sizes = loaded(name), []
        limit = 512
        forward(model, batch, lambda t, o: sizes.append(t.pieces), hidden=False, pieces=limit)
    whole = sum(sizes)
    assert len(sizes) > 4 and max(sizes) <= limit
    assert whole / (limit * len(sizes)) >= 0.8
    assert PIECES["cuda"] > 10 * PIECES["cpu"]


# --- out of memory --------------------------------------------------------------------------------


class _Cramped:
    """Memory that holds batches of so many pieces."""

    def __init__(self, most: int) -> None:
        self.most, self.failed = most, 0

    def need(self, pieces: int) -> None:
        if pieces > self.most:
            self.failed += 1
            raise torch.OutOfMemoryError("no room")


def _in_forward(model: HuggingFace, room: _Cramped) -> Callable[[], None]:
    def look_at(module: Any, args: Any, output: Any) -> None:
        states = output[0] if isinstance(output, tuple) else output
        room.need(states.shape[0] * states.shape[1])

    return model.net.encoder.layer[-1].register_forward_hook(look_at).remove


def test_what_is_made_of_a_batch_is_halved_too(tmp_path: Path) -> None:
    """Sums are the same where memory runs out behind the model, and what failed is let go."""
    model, room = loaded("mini:bert", "cpu"), _Cramped(120)
    expected: dict[int, Tensor] = {}
    found: dict[int, Tensor] = {}

    def into(kept: dict[int, Tensor], need: Callable[[int], None]) -> Any:
        def use(text: Any, output: Any) -> None:
            need(text.pieces)
            for row, place in enumerate(text.order.tolist()):
                kept[place] = output.hidden["encoder"][-1][row, : int(text.mask[row].sum())]

        return use

    forward(model, BATCH, into(expected, lambda pieces: None), pieces=1_000)
    report = forward(model, BATCH, into(found, room.need), pieces=1_000)
    assert room.failed and report.documents == len(BATCH) == len(found)
    assert report.halvings <= 5, "what did not fit is not tried again"
    for place, states in expected.items():
        torch.testing.assert_close(found[place], states, atol=1e-5, rtol=1e-5)


def test_a_question_an_ablation_and_a_gradient_are_halved() -> None:
    model = loaded("mini:bert", "cpu")
    assert isinstance(model, HuggingFace)
    aim = eval_task_of(model)
    questions = list(aim.questions(model, BATCH, pieces=1_000))
    sets = [[(0, 0)], [(3, 1)]]
    expected = (
        score_texts(model, aim, questions).nats.sum(),
        ablated(model, aim, questions, sets).values("loss"),
        abs(gate_gradients(model, aim, questions).values).sum(),
    )
    room, body = _Cramped(300), model.net.base_model

    def narrow(module: Any, args: Any, output: Any) -> None:
        room.need(output[0].shape[0] * output[0].shape[1])

    hook = body.register_forward_hook(narrow)
    found = (
        score_texts(model, aim, questions).nats.sum(),
        ablated(model, aim, questions, sets, pieces=1).values("loss"),
        abs(gate_gradients(model, aim, questions).values).sum(),
    )
    hook.remove()
    assert room.failed
    for one, other in zip(expected, found, strict=True):
        assert one == pytest.approx(other, rel=1e-4)


def test_a_step_of_learning_is_halved_and_learns_the_same() -> None:
    """Memory runs out in the backward pass; gradients of the parts add up to that of the whole."""

    def learnt(room: _Cramped | None) -> tuple[list[float], Tensor]:
        model = loaded("mini:bert", "cpu")
        assert isinstance(model, HuggingFace)
        layer = model.net.base_model.encoder.layer[0].output.dense

        def narrow(grad: Tensor) -> None:
            assert room is not None
            room.need(grad.shape[0] * grad.shape[1])

        def watch(module: Any, args: Any, output: Tensor) -> None:
            if room is not None and output.requires_grad:
                output.register_hook(narrow)

        layer.register_forward_hook(watch)
        plan = Plan(2, rate=1e-3, texts=20)
        curves = learn(model, eval_task_of(model), BATCH, range(len(BATCH)), plan)
        return curves.losses, layer.weight.detach()

    room = _Cramped(150)
    losses, weights = learnt(None)
    other, apart = learnt(room)
    assert room.failed
    assert other == pytest.approx(losses, rel=1e-4)
    torch.testing.assert_close(apart, weights, atol=2e-4, rtol=1e-3)


def test_what_failed_is_let_go_before_its_halves_are_tried() -> None:
    """Else both would have to fit."""
    import weakref

    alive: list[weakref.ref[Tensor]] = []

    def run(text: Any) -> int:
        assert not [each for each in alive if each() is not None]
        made = torch.ones(text.pieces)
        alive.append(weakref.ref(made))
        if len(text) > 2:
            raise torch.OutOfMemoryError("no room")
        return len(text)

    text = loaded("mini:bert", "cpu").encode(BATCH, range(8))
    limit = Limit()
    parts = list(in_halves(run, text, limit))
    assert [place for part, _ in parts for place in part.order.tolist()] == text.order.tolist()
    assert max(found for _, found in parts) == 2
    assert limit.halvings == 2 and limit.pieces < text.pieces
    with pytest.raises(WorkbenchError, match="does not fit into memory"):
        list(in_halves(lambda t: (_ for _ in ()).throw(torch.OutOfMemoryError()), text, Limit()))


# --- places ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["the text", "a Gate", "the mask of logits"])
def test_what_is_on_another_device_is_refused_by_name(what: str) -> None:
    with card():
        model = loaded("mini:bert")
        text = model.encode(BATCH, range(4))
        there = text.to(CUDA)
        given: dict[str, Any] = {"taps": (), "logits": False}
        if what == "a Gate":
            given["taps"] = [Gate(torch.ones(len(model.sites), 4))]
        if what == "the mask of logits":
            given["logits"] = text.mask
        with pytest.raises(WorkbenchError, match=f"{what} is on cpu, but the model is on cuda:0"):
            model.forward(text if what == "the text" else there, **given)


FAMILIES = ("bert", "roberta", "distilbert", "albert", "electra", "gpt2", "llama", "modernbert",
            "t5", "bart", "xlnet", "openai-gpt", "bloom", "deberta-v2", "gpt-neox")  # fmt: skip


@pytest.mark.parametrize("name", mostly(FAMILIES, "bert", "xlnet", "bloom"))
def test_every_family_keeps_to_its_device(name: str, tmp_path: Path) -> None:
    """With taps and gates; a tensor made on the host in between is an error, as on a GPU."""
    place, plain = make(name, tmp_path), shared(name)
    expected, maps = _answers(plain, plain.encode(BATCH, range(6)))
    with card():
        model = loaded(str(place))
        found, there = _answers(model, model.encode(BATCH, range(6)).to(CUDA))
        for one, other in zip([*expected, *maps], [*found, *there], strict=True):
            torch.testing.assert_close(other.to("cpu"), one, atol=1e-4, rtol=1e-4)


def _answers(model: Any, text: Any) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    most = max(site.heads for site in model.sites)
    drawn = torch.Generator().manual_seed(0)
    gates = torch.rand(len(model.sites), most, generator=drawn).to(model.device)
    capture = Capture()
    with torch.no_grad():
        output = model.forward(text, taps=[capture, Gate(gates)])
    real = {name: read.mask for name, read in output.texts.items()}
    states = [
        layer * real[stack][..., None]
        for stack, layers in output.hidden.items()
        for layer in layers
    ]
    return states, [torch.cat(each) for each in capture.maps.values()]


@pytest.mark.slow  # by day `test_a_step_of_learning_is_halved_and_learns_the_same`
def test_a_fine_tuning_is_halved_and_learns_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: None
) -> None:
    """A step's texts, and texts that are guessed, are computed in parts where there is no room."""
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    corpus, read, room = wb.read("primer/sentiment:size=24"), Body.states, _Cramped(150)

    def losses() -> list[float]:
        model = loaded("mini:bert", "cpu")
        with torch.random.fork_rng():
            run = wb.run(
                "finetune", model=model, corpus=corpus, task="sentiment", method="fine-tuned",
                max_epochs=1, learning_rates=(1e-3,), seeds=(0,), head="plain",
            )  # fmt: skip
        found: list[float] = run.tables["learning"]["loss"].tolist()
        run.path.rename(tmp_path / f"kept-{room.failed}")
        return found

    def narrow(body: Body, text: Any) -> Any:
        room.need(text.pieces)
        return read(body, text)

    monkeypatch.setattr(Dropout, "forward", lambda self, values: values)  # drawn by rows
    expected = losses()
    monkeypatch.setattr(Body, "states", narrow)
    assert losses() == pytest.approx(expected, rel=1e-3)
    assert room.failed


def test_an_ablation_asks_about_fewer_heads_at_once_where_all_do_not_fit() -> None:
    """Fewer texts alone do not help: as many more sets would stand beside each other."""
    model = loaded("mini:bert", "cpu")
    assert isinstance(model, HuggingFace)
    aim, total = eval_task_of(model), 0
    questions = list(aim.questions(model, BATCH, pieces=80))[:1]
    sets = [[(site.index, head)] for site in model.sites for head in range(site.heads)]
    expected = ablated(model, aim, questions, sets).values("loss")
    room, done = _Cramped(40), list[int]()

    def narrow(module: Any, args: Any, output: Any) -> None:
        states = output[0] if isinstance(output, tuple) else output
        room.need(states.shape[0] * states.shape[1])

    hook = model.net.base_model.encoder.layer[-1].register_forward_hook(narrow)
    found = ablated(model, aim, questions, sets, on_progress=done.append, pieces=80).values("loss")
    hook.remove()
    total = len(sets) * sum(map(len, questions))
    assert room.failed and found == pytest.approx(expected, rel=1e-4)
    assert done[-1] == max(done) == total


def test_a_part_without_predictions_has_no_weight() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    parts = [(torch.tensor(float(loss)), torch.tensor(number), [torch.full((2,), float(loss))])
             for loss, number in ((0, 0), (0, 0), (4, 1), (0, 0), (1, 2))]  # fmt: skip
    assert float(averaged(parts, [weight])) == pytest.approx(2.0)
    assert weight.grad is not None and weight.grad.tolist() == pytest.approx([2.0, 2.0])


def test_no_two_weights_share_a_gradient() -> None:
    """Clipping would scale it twice."""
    one, other = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    gradients = torch.autograd.grad((one + other).square().sum(), [one, other])
    averaged([(torch.zeros(()), 1, gradients)], [one, other])
    assert one.grad is not None and other.grad is not None
    assert one.grad.data_ptr() != other.grad.data_ptr()
    assert torch.equal(one.grad, other.grad)


def test_memory_that_runs_out_when_heads_are_counted_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their hits are counted when a pass is over, for all sites at once."""
    model, gold = loaded("mini:bert", "cpu"), gold_of(DOCS)
    expected = looked_at("mini:bert")
    hits, room = collect.shuffled_hits, _Cramped(4)

    def cramped(looks: Tensor, mask: Any) -> Tensor:
        room.need(len(looks))
        return hits(looks, mask)

    monkeypatch.setattr(collect, "shuffled_hits", cramped)
    found = look(model, BATCH, gold, FEW, pieces=SMALL)
    assert room.failed
    for site, sums in expected.hits.items():
        assert torch.equal(found.hits[site], sums)
    for site, sums in expected.heads.items():
        same = torch.isclose(found.heads[site], sums, atol=1e-2, rtol=1e-4)
        assert same.double().mean() > 0.995


@pytest.mark.parametrize("name", mostly(MINIS, "mini:gpt", "mini:elmo"))
def test_texts_without_a_word_are_no_fault(name: str, tmp_path: Path) -> None:
    nothing = encode([Doc(DOCS[0].vocab, words=[]) for _ in range(2)])
    model = loaded(name, "cpu")
    stores, _ = word_states(model, nothing, tmp_path)
    assert all(store.description.rows == 0 for store in stores.values())
    if name == "mini:gpt":
        aim = eval_task_of(model)
        with pytest.raises(WorkbenchError, match="too-few-sentences"):
            others(model, aim, list(aim.questions(model, nothing)), 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("instead_of", mostly([means, drawn_others], drawn_others))
def test_what_stands_in_for_a_head_goes_to_its_card(instead_of: Any, tmp_path: Path) -> None:
    place = make("bert", tmp_path)
    found = []
    for where in ("cpu", "cuda:0,cuda:1"):
        with card(2):
            torch.manual_seed(0)
            net = BertForMaskedLM(BertConfig.from_pretrained(place))
            net.save_pretrained(tmp_path / "headed")
            AutoTokenizer.from_pretrained(place).save_pretrained(tmp_path / "headed")
            model = load(str(tmp_path / "headed"), where, "fp32")
            assert isinstance(model, HuggingFace)
            aim = eval_task_of(model)
            questions = list(aim.questions(model, BATCH, range(12)))
            instead = instead_of(model, aim, questions)
            sets = [[(site.index, 0)] for site in model.sites]
            found.append(ablated(model, aim, questions, sets, instead).differences("loss"))
    assert abs(found[0] - found[1]).max() < 1e-4
