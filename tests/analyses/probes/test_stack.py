"""Training side by side: gold is found, chance stays chance, and the best epoch comes back."""

import itertools
from collections.abc import Callable

import pytest
import torch

from tests.night import mostly
from workbench.analyses.probes import probe_training
from workbench.analyses.probes.probe_training import Data, Probe, Schedule, evaluate_probes, train
from workbench.analyses.probes.representations import Bank

WIDTH = 16
QUICK = Schedule(learning_rate=1e-2, batch_size=64, epochs=30)


def _scores(trained: probe_training.Trained, bank: Bank, data: Data) -> list[float]:
    control = torch.tensor([int(probe.control) for probe in trained.probes])
    return evaluate_probes(trained.shape, trained.parameters, trained.reads, control, bank, data)[
        0
    ].tolist()


@pytest.mark.parametrize("kind", mostly(["edge", "linear", "mlp"], "edge"))
def test_gold_written_into_one_layer_is_found_there_and_only_there(
    kind: str, bank: Callable[..., Bank], data: Callable[..., Data]
) -> None:
    torch.manual_seed(0)
    classes = torch.randint(0, 4, (900,))
    noise, told = torch.randn(2, 900, WIDTH)
    told[torch.arange(900), classes] += 30
    made = bank(noise, told)
    whole = data(classes, 4)
    learnt, dev, test = (whole.take(torch.arange(*part)) for part in
                         ((0, 500), (500, 700), (700, 900)))  # fmt: skip
    probes = [Probe((0,)), Probe((1,)), Probe((0, 1))]
    trained = train(kind, 32, made, probes, learnt, dev, QUICK, 0)  # type: ignore[arg-type]
    chance, gold, mixed = _scores(trained, made, test)
    assert gold == 1.0
    assert mixed > 0.99
    assert chance < 0.35


def test_labels_drawn_by_instance_give_the_majority_rate(
    bank: Callable[..., Bank], data: Callable[..., Data]
) -> None:
    torch.manual_seed(1)
    classes = (torch.rand(3000) < 0.3).long()  # 70 % are of class 0
    made = bank(torch.randn(3000, WIDTH))
    whole = data(classes, 2)
    parts = [whole.take(torch.arange(*part)) for part in ((0, 1500), (1500, 2000), (2000, 3000))]
    trained = train("linear", 0, made, [Probe((0,))], parts[0], parts[1], QUICK, 0)
    majority = float((classes[2000:] == 0).float().mean())
    assert abs(_scores(trained, made, parts[2])[0] - majority) < 0.03


def test_the_best_epoch_comes_back_by_value(
    bank: Callable[..., Bank], data: Callable[..., Data], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(2)
    made = bank(torch.randn(100, WIDTH))
    whole = data(torch.randint(0, 3, (100,)), 3)
    seen: list[dict[str, torch.Tensor]] = []
    told = iter([0.2, 0.9, 0.5, 0.4, 0.3, 0.1])

    def judged(shape, own, reads, control, bank_, data_):  # type: ignore[no-untyped-def]
        seen.append({name: value.clone() for name, value in own.items()})
        return torch.tensor([next(told)], dtype=torch.double), torch.tensor([1.0])

    monkeypatch.setattr(probe_training, "evaluate_probes", judged)
    schedule = Schedule(learning_rate=1e-2, batch_size=16, epochs=6, patience=10)
    trained = train("mlp", 8, made, [Probe((0,))], whole, whole, schedule, 0)
    assert trained.epochs.tolist() == [1]
    for name, value in trained.parameters.items():
        assert torch.equal(value, seen[1][name])
    assert not torch.equal(seen[1]["out"], seen[5]["out"]), "it went on changing after"


def test_a_probe_does_not_depend_on_the_other_probes_of_its_stack(
    bank: Callable[..., Bank], data: Callable[..., Data]
) -> None:
    """Batches, dropout and first weights depend on the seed alone."""
    torch.manual_seed(3)
    classes = torch.randint(0, 3, (300,))
    tables = torch.randn(3, 300, WIDTH)
    tables[:, torch.arange(300), classes] += 2
    made, whole = bank(*tables), data(classes, 3)
    learnt, dev = whole.take(torch.arange(200)), whole.take(torch.arange(200, 300))
    schedule = Schedule(learning_rate=1e-2, batch_size=32, epochs=5)
    alone = train("edge", 8, made, [Probe((1,))], learnt, dev, schedule, 7)
    some = [Probe((0,)), Probe((1,)), Probe((0, 1, 2)), Probe((2,), control=True)]
    beside = train("edge", 8, made, some, learnt, dev, schedule, 7)
    place = beside.probes.index(Probe((1,)))
    assert beside.epochs[place] == alone.epochs[0]
    for name, value in alone.parameters.items():
        assert torch.allclose(value[0], beside.parameters[name][place], atol=1e-4)
    again = train("edge", 8, made, some, learnt, dev, schedule, 7)
    assert all(
        torch.equal(again.parameters[name], beside.parameters[name]) for name in again.parameters
    )
    other = train("edge", 8, made, [Probe((1,))], learnt, dev, schedule, 8)
    assert not torch.equal(other.parameters["out"], alone.parameters["out"])


def test_what_has_stopped_is_taken_out(
    bank: Callable[..., Bank], data: Callable[..., Data], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(4)
    classes = torch.randint(0, 2, (200,))
    easy, slow = torch.randn(2, 200, WIDTH)
    easy[:, 0] = 20 * (classes * 2 - 1)
    slow[:, 0] += 0.3 * (classes * 2 - 1)  # learnt by and by
    made, whole = bank(easy, slow), data(classes, 2)
    sizes = []
    update = probe_training._training_step

    def counted(shape, now, *rest):  # type: ignore[no-untyped-def]
        sizes.append(len(now.rows))
        assert all(len(value) == len(now.rows) for value in now.parameters.values())
        update(shape, now, *rest)

    monkeypatch.setattr(probe_training, "_training_step", counted)
    schedule = Schedule(learning_rate=1e-2, batch_size=32, epochs=40, patience=2)
    train("linear", 0, made, [Probe((0,)), Probe((1,))], whole, whole, schedule, 0)
    assert sizes[0] == 2 and sizes[-1] == 1


def test_softmax_costs_are_cross_entropies(data: Callable[..., Data]) -> None:
    torch.manual_seed(5)
    said = torch.randn(1, 6, 3)
    batch = data([0, 1, 2, 0, 1, -1], 3, softmax=True)
    known = torch.nn.functional.cross_entropy(said[0, :5], torch.tensor([0, 1, 2, 0, 1]))
    found = probe_training.target_losses(said, batch, torch.zeros(1, dtype=torch.long))
    assert float(found[0].mean()) == pytest.approx(float(known) * 5 / 6, rel=1e-5)


@pytest.mark.parametrize("softmax", [False, True])
def test_the_loss_gradient_is_that_of_autograd(data: Callable[..., Data], softmax: bool) -> None:
    torch.manual_seed(5)
    said = torch.randn(1, 6, 3, requires_grad=True)
    batch = data([0, 1, 2, 0, 1, -1], 3, softmax=softmax)
    one = torch.zeros(1, dtype=torch.long)
    plain = torch.autograd.grad(probe_training.target_losses(said, batch, one).mean(), said)[0]
    found = probe_training.loss_gradient(said.detach(), batch.labels[one], softmax)
    assert torch.allclose(found, plain, atol=1e-7)
    assert plain.abs().max() > 0.05


@pytest.mark.parametrize(
    ("judged", "longest", "kind"),
    mostly(
        [*itertools.product([True, False], [1, 4], ["edge", "linear", "mlp"])],
        (True, 4, "edge"), (False, 1, "linear"), (True, 1, "mlp"),
    ),
)  # fmt: skip
def test_seeds_trained_together_give_the_same_as_alone(
    kind: str, longest: int, judged: bool, bank: Callable[..., Bank], data: Callable[..., Data]
) -> None:
    """Each from targets of its own, with its own order and dropout, mixes among them."""
    torch.manual_seed(8)
    made = bank(*torch.randn(2, 90, WIDTH))
    first = torch.randint(0, 80, (2, 90))
    spans = [torch.stack([f, f + torch.randint(1, longest + 1, (90,))], 1) for f in first]
    whole = data(torch.randint(0, 3, (90,)), 3, spans)
    learnt = {7: whole.take(torch.arange(40)), 3: whole.take(torch.arange(20, 60))}
    dev = whole.take(torch.arange(60, 90 if judged else 60))
    probes = [Probe((1,)), Probe((0, 1)), Probe((0,), control=True)]
    schedule = Schedule(learning_rate=1e-2, batch_size=16, epochs=4, patience=2)
    together = probe_training.train_seeds(kind, 8, made, probes, learnt, dev, schedule)  # type: ignore[arg-type]
    for seed, own in learnt.items():
        alone = train(kind, 8, made, probes, own, dev, schedule, seed)  # type: ignore[arg-type]
        assert together[seed].probes == alone.probes
        assert together[seed].epochs.tolist() == alone.epochs.tolist()
        for name, value in alone.parameters.items():
            assert torch.allclose(value, together[seed].parameters[name], atol=1e-5), name
    assert not torch.equal(together[3].parameters["out"], together[7].parameters["out"])


def test_a_learning_rate_that_diverges_is_an_error(
    bank: Callable[..., Bank], data: Callable[..., Data]
) -> None:
    from workbench import WorkbenchError

    made = bank(torch.full((64, WIDTH), float("nan")))
    with pytest.raises(WorkbenchError, match="training-diverged"):
        train(
            "linear", 0, made, [Probe((0,))], data([0, 1] * 32, 2), data([0, 1] * 32, 2), QUICK, 0
        )


def test_stacks_side_by_side_say_the_same_and_end_when_the_run_is_ended(
    bank: Callable[..., Bank], data: Callable[..., Data], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(6)
    classes = torch.randint(0, 3, (200,))
    made, whole = bank(torch.randn(200, WIDTH), torch.randn(200, WIDTH)), data(classes, 3)
    some = [Probe((0,)), Probe((1,)), Probe((0, 1)), Probe((0,), control=True)]
    schedule = Schedule(learning_rate=1e-2, batch_size=32, epochs=4)
    alone = train("linear", 0, made, some, whole, whole, schedule, 0)
    monkeypatch.setitem(probe_training.MAX_NUMBERS, "cpu", 1)  # a stack for each probe
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        apart = train("linear", 0, made, some, whole, whole, schedule, 0)
        for name, value in alone.parameters.items():
            assert torch.allclose(value, apart.parameters[name], atol=1e-5), name

        def cancelled(done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train("linear", 0, made, some, whole, whole, schedule, 0, cancelled)
        assert torch.get_num_threads() == 2, "as it was before"
    finally:
        torch.set_num_threads(before)
