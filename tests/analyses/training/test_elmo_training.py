"""ELMo: the trained module, the original's files and our own folder are one model."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.analyses.training.lessons import Told, keep_models, lesson, settings
from workbench import WorkbenchError, experiments, load, read
from workbench.analyses.training.batches import elmo_task
from workbench.analyses.training.elmo import (
    bilm_losses,
    count_words,
    expected_counts,
    sample,
    word_tokenizer,
)
from workbench.analyses.training.packing import sentences_of
from workbench.analyses.training.task import Plan
from workbench.analyses.training.token_store import tokenize_text
from workbench.analyses.training.train import train
from workbench.analyses.training.vocabulary import vocabulary_of
from workbench.experiment import Inputs
from workbench.models.bilm import BiLM, load_trained
from workbench.models.elmo import Elmo, ElmoOptions

SENTENCES = [["The", "cat", "sees", "a", "dog", "."], ["Birds", "sing"], ["zebra"]]


def small(softmax: int = 1000) -> BiLM:
    options = ElmoOptions(
        filters=((1, 4), (2, 8), (3, 8)), max_characters=12, highways=1, cells=24, width=16
    )
    return BiLM.fresh(options, count_words(lesson(50)), softmax, seed=0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BiLM]:
    root = tmp_path_factory.mktemp("elmo")
    with pytest.MonkeyPatch.context() as patch:
        kept = keep_models(patch)
        train(
            "elmo",
            lesson(),
            root / "elmo",
            settings(50, batch_size=8, learning_rate=1e-2),
            home=root / "tokens",
        )
    net = kept[root / "elmo"]
    assert isinstance(net, BiLM)
    return root / "elmo", net.eval()


def test_the_originals_files_hold_the_trained_model(trained: Any) -> None:
    folder, net = trained
    read = Elmo.from_original(folder / "options.json", folder / "weights.hdf5")
    with torch.no_grad():
        for own, other in zip(net.elmo(SENTENCES)[0], read(SENTENCES)[0], strict=True):
            torch.testing.assert_close(own, other, rtol=0, atol=1e-5)


def test_our_folder_holds_its_softmax_and_words_too(trained: Any) -> None:
    folder, net = trained
    read = load_trained(folder)
    assert read.words == net.words
    with torch.no_grad():
        for own, other in zip(net.nats(SENTENCES), read.nats(SENTENCES), strict=True):
            assert torch.equal(own, other)


def test_a_folder_that_is_none_says_so(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError):
        load_trained(tmp_path)


def test_it_knows_the_text_it_was_trained_on_better_than_another_order(trained: Any) -> None:
    _, net = trained
    good = [line.split(". ")[0].rstrip(".").split() for line in lesson(40, seed=9) if line]
    with torch.no_grad():
        right, wrong = net.nats(good), net.nats([sentence[::-1] for sentence in good])
    for one, other in zip(right, wrong, strict=True):
        assert one.sum() < 0.6 * other.sum()


def test_nats_are_those_of_each_direction_by_itself() -> None:
    net = small().eval()
    numbers = {word: n for n, word in enumerate(net.words.words)}
    with torch.no_grad():
        found = net.nats(SENTENCES)
        for row, sentence in enumerate(SENTENCES):
            layers, _ = net.elmo.with_boundaries([sentence])
            states = layers[-1][0]  # [words + 2, 2 * width]
            ids = [0, *(numbers.get(word, 2) for word in sentence), 1]
            ahead = functional.linear(states[:, :16], net.weight, net.bias).log_softmax(1)
            behind = functional.linear(states[:, 16:], net.weight, net.bias).log_softmax(1)
            for place in range(len(sentence) + 1):
                right, left = ids[place + 1], ids[place]
                for own, wanted in (
                    (found.forward[row, place], -ahead[place, right]),
                    (found.backward[row, place], -behind[place + 1, left]),
                ):
                    torch.testing.assert_close(own, wanted, rtol=0, atol=1e-5)
            assert not found.forward[row, len(sentence) + 1 :].any()


def test_what_is_trained_is_what_nats_measure(tmp_path: Path) -> None:
    """And columns of padding that are left out change nothing."""
    net = small(softmax=20)
    own = word_tokenizer(net.words)
    store = tokenize_text(lesson(50), own, tmp_path, processes=1)
    part, held = sentences_of(store, vocabulary_of(own), 32, 0, 0.1, similar=1)
    task = elmo_task(net, part, held, Plan(batch_size=4), 1)
    micro = task.draw(0, 0)
    words = [
        [net.words.words[n] for n in part.store.sentence(int(i)) if n > 2]
        for i in part.order(0, len(micro.inputs["lengths"]))
    ]
    with torch.no_grad():
        whole = sum(float(each.sum()) for each in net.nats(words))
        loss = float(bilm_losses(net, micro.inputs))
    assert loss == pytest.approx(whole, rel=1e-5)
    assert int(micro.counts) == 2 * sum(len(sentence) + 1 for sentence in words)
    assert micro.inputs["characters"].shape[1] <= 12


def test_a_sampled_softmax_estimates_the_whole_one() -> None:
    net = small().train()
    size = len(net.bias)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        net.weight.normal_(0, 0.5, generator=generator)
    words = count_words(lesson(50))
    ids = torch.arange(3, 13)[None]
    from workbench.analyses.training.elmo import spell

    inputs = {
        "characters": spell(words, 12)[torch.cat([torch.tensor([0]), ids[0], torch.tensor([1])])],
        "places": torch.arange(12)[None],
        "lengths": torch.tensor([12]),
        "gold": torch.cat([torch.tensor([[0]]), ids, torch.tensor([[1]])], dim=1),
    }
    inputs["characters"] = inputs["characters"].long()
    whole = float(bilm_losses(net, inputs).detach())
    many: list[Tensor] = []
    for _ in range(40):
        drawn = sample(size, 400, generator)
        many.append(bilm_losses(net, {**inputs, "sampled": drawn}).detach())
    assert float(torch.stack(many).mean()) == pytest.approx(whole, rel=0.05)
    chances = expected_counts(torch.arange(size), size, 1)
    assert float(chances.sum()) == pytest.approx(1.0, abs=1e-4)
    drawn = sample(size, 100_000, generator).bincount(minlength=size) / 100_000
    assert float((drawn - chances).abs().max()) < 0.01
    assert math.isfinite(whole)


def test_the_workbench_measures_it(trained: Any, tmp_path: Path) -> None:
    """Of text like that it was trained on: its folder's losses, and its taste in sentences."""
    folder, net = trained
    text = [line.split(". ")[0].rstrip(".") + " ." for line in lesson(60, seed=9) if line]
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in text))
    rows = [{"sentence_good": line, "sentence_bad": " ".join(line.split()[::-1])} for line in text]
    (tmp_path / "pairs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    model = load(folder, "cpu")
    assert model.objective == "bidirectional"
    profile = experiments()["profile"]
    found = profile.run(
        Inputs((model,), (read(str(tmp_path / "text.txt")),)), profile.settings(), Told()
    )
    losses = found.tables["losses"].set_index("metric")["value"]
    with torch.no_grad():
        nats = net.nats([line.split() for line in text])
    number = sum(len(line.split()) + 1 for line in text)
    mean = float(nats.forward.sum() + nats.backward.sum()) / 2 / number
    assert losses["bidirectional_loss"] == pytest.approx(mean, rel=1e-4)
    assert losses["bidirectional_perplexity"] < len(net.bias) / 2
    assert losses["bidirectional_accuracy"] > 0.2
    columns = {"text": ["sentence_good", "sentence_bad"]}
    pairs = experiments()["minimal-pairs"].run(
        Inputs((model,), (read(tmp_path / "pairs.jsonl", **columns),)),
        experiments()["minimal-pairs"].settings(),
        Told(),
    )
    assert pairs.tables["pairs"]["accuracy"].iloc[0] > 0.9


def test_it_goes_on_with_other_words(trained: Any, tmp_path: Path) -> None:
    folder, net = trained
    text = ["Zebras graze by the quiet river. The zebra sees the queen."] * 80
    after = train(
        "elmo", text, tmp_path / "on", settings(10), continue_from=folder, home=tmp_path / "t"
    )
    read = load_trained(after.folder)
    assert read.words.words[: len(net.words.words)] == net.words.words
    assert "zebra" in read.words.words
    assert len(read.bias) == len(net.bias)
    assert after.rows[-1].loss < after.rows[0].loss
