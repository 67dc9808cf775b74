"""ELMo's softmax: a folder of it opens as any other, and its losses are those of the equations."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import workbench as wb
from tests.models import bilms
from tests.models.test_elmo import Original
from tests.models.texts import as_in_treebanks, batch_of
from workbench import WorkbenchError, encode, forward, read
from workbench.engine.batch import Batch
from workbench.models.bilm import BiLM, load_trained
from workbench.models.elmo import Elmo
from workbench.models.loading import load
from workbench.models.references import facts
from workbench.models.scoring.lm_scoring import FIELDS, joined, measures, score
from workbench.models.word_models import Vectors, WordModel

TEXTS = ["The old man saw the boat.", "I", "Zoë saw a café, a boat and the man!", ""]
WORDS = "the saw a . man The , boat I old".split()  # not: Zoë, café, and, !


def by_words(texts: list[str]) -> Batch:
    return batch_of(texts, [as_in_treebanks(text) for text in texts], [None] * len(texts))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("bilm")
    bilms.saved(found, [*WORDS, "and"], softmax=3 + len(WORDS), seed=9)
    return found


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def opened(ref: str | Path, **how: int) -> WordModel:
    model = load(ref, "cpu", **how)
    assert isinstance(model, WordModel)
    return model


def by_the_equations(folder: Path, words: list[str]) -> tuple[list[float], list[bool]]:
    """Nats and hits of every prediction, in plain numpy: forward, then backward."""
    elmo = Original(folder / "options.json", folder / "weights.hdf5")
    held = load_file(folder / "model.safetensors")
    weight, bias = (held[f"softmax/{name}"].astype(np.float64) for name in ("weight", "bias"))
    vocabulary = (folder / "vocab.txt").read_text("utf-8").splitlines()[: len(bias)]
    bounded = ["<S>", *words, "</S>"]
    ids = [vocabulary.index(word if word in vocabulary else "<UNK>") for word in bounded]
    tokens = [elmo.token(word) for word in bounded]
    ahead = elmo.direction("RNN_0", tokens)[-1]
    behind = elmo.direction("RNN_1", tokens[::-1])[-1][::-1]
    nats, right = [], []
    for states, step in ((ahead, 1), (behind, -1)):
        for place in range(len(bounded)):
            if not 0 <= place + step < len(bounded):
                continue
            logits = weight @ states[place] + bias
            gold = ids[place + step]
            nats.append(float(np.log(np.exp(logits).sum()) - logits[gold]))
            right.append(int(logits.argmax()) == gold)
    return nats, right


def test_a_texts_nats_are_the_mean_of_both_directions(folder: Path) -> None:
    """Against the equations of the original, one prediction after the other."""
    batch = by_words(TEXTS)
    found = score(load(folder, "cpu"), batch)
    for document, text in enumerate(TEXTS[:3]):
        words = [text[first:last] for first, last in as_in_treebanks(text)]
        nats, right = by_the_equations(folder, words)
        assert len(nats) == 2 * (len(words) + 1)
        assert found.nats[document] == pytest.approx(sum(nats) / 2, rel=1e-5)
        assert found.pieces[document] == len(words) + 1
        assert found.words[document] == len(words)
        assert found.right[document] == sum(right)
        assert found.bytes[document] == len(text.encode())
        assert found.unknown[document] == sum(word not in WORDS for word in words)
    assert found.unknown.tolist() == [0, 0, 4, 0]
    for name in FIELDS:
        assert getattr(found, name)[3] == 0, "a text without words has nothing to score"


def test_perplexity_is_of_both_directions_averages(folder: Path) -> None:
    batch = by_words(TEXTS)
    said = measures(score(load(folder, "cpu"), batch), "bidirectional")
    texts = [[text[a:b] for a, b in as_in_treebanks(text)] for text in TEXTS[:3]]
    both = [by_the_equations(folder, words) for words in texts]
    ahead = [nats for found, _ in both for nats in found[: len(found) // 2]]
    behind = [nats for found, _ in both for nats in found[len(found) // 2 :]]
    number, size = len(ahead), sum(len(text.encode()) for text in TEXTS)
    assert number == len(behind) == sum(len(words) + 1 for words in texts)
    mean = (np.mean(ahead) + np.mean(behind)) / 2
    total = mean * number
    assert said == {
        "bidirectional_loss": (pytest.approx(mean, rel=1e-5), number),
        "bidirectional_perplexity": (pytest.approx(math.exp(mean), rel=1e-4), number),
        "bidirectional_accuracy": (
            pytest.approx(sum(sum(right) for _, right in both) / (2 * number)),
            2 * number,
        ),
        "bidirectional_perplexity_per_word": (
            pytest.approx(math.exp(total / (number - 3)), rel=1e-4),
            number - 3,
        ),
        "bidirectional_bits_per_byte": (pytest.approx(total / math.log(2) / size, rel=1e-5), size),
    }


def test_an_even_softmax_is_perplexed_by_its_words(copy: Path) -> None:
    size = 3 + len(WORDS)
    bilms.edited(copy, weight=torch.zeros(size, 5), bias=torch.zeros(size))
    said = measures(score(load(copy, "cpu"), by_words(TEXTS)), "bidirectional")
    assert said["bidirectional_perplexity"][0] == pytest.approx(size, rel=1e-5)


def test_batches_change_nothing(folder: Path) -> None:
    model, batch = load(folder, "cpu"), encode(read("primer:size=16").docs("train"))
    together = score(model, batch)
    for pieces in (1, 40):
        alone = joined([score(model, batch, [place], pieces=pieces) for place in range(len(batch))])
        for name in FIELDS:
            mine, others = getattr(alone, name), getattr(together, name)
            if name == "nats":
                np.testing.assert_allclose(mine, others, rtol=1e-5)
            else:
                assert mine.tolist() == others.tolist(), name
    backwards = score(model, batch, range(len(batch) - 1, -1, -1), pieces=40)
    np.testing.assert_allclose(backwards.nats[::-1], together.nats, rtol=1e-5)


def test_memory_that_does_not_suffice_halves_the_batch(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = opened(folder), by_words(TEXTS)
    whole, scored, most = score(model, batch), BiLM.scored, [1]

    def cramped(net: BiLM, sentences: list[list[str]], *rest: object) -> object:
        if len(sentences) > most[0]:
            raise torch.OutOfMemoryError
        return scored(net, sentences, *rest)

    monkeypatch.setattr(BiLM, "scored", cramped)
    np.testing.assert_allclose(score(model, batch).nats, whole.nats, rtol=1e-5)
    most[0] = 0
    with pytest.raises(WorkbenchError, match="one document of 9 pieces does not fit"):
        score(model, by_words(TEXTS[:1]))


def test_pseudo_likelihood_is_not_for_it(folder: Path) -> None:
    with pytest.raises(WorkbenchError, match="is bidirectional"):
        score(load(folder, "cpu"), by_words(TEXTS), pseudo="original")


# --- folders ------------------------------------------------------------------------------------


def test_a_folder_opens_as_every_other_model(folder: Path) -> None:
    model = wb.load(folder, device="cpu")
    assert isinstance(model, WordModel)
    assert (model.name, model.family, model.objective) == (str(folder), "elmo", "bidirectional")
    assert model.precision == "fp32" and model.sites == ()
    assert facts(model)["objective"] == "bidirectional"
    size = 3 + len(WORDS)
    original = load(f"elmo:{folder}/options.json,{folder}/weights.hdf5", "cpu")
    assert original.objective == ""
    assert model.parameters == original.parameters + size * 5 + size
    assert sum(model.parameters_by_part().values()) == model.parameters
    batch = encode(read("primer:size=20").docs("train"))
    text = model.encode(batch)
    with torch.no_grad():
        pairs = zip(
            model.forward(text).hidden["encoder"],
            original.forward(original.encode(batch)).hidden["encoder"],
            strict=True,
        )
        for own, other in pairs:
            torch.testing.assert_close(own, other, rtol=0, atol=0)
    assert forward(model, batch).words == len(batch.words)


def test_half_precision_on_disk_is_float32_in_memory(folder: Path, copy: Path) -> None:
    bilms.halved(copy)
    model, whole = opened(copy), opened(folder)
    assert {weight.dtype for weight in model.weights.values()} == {torch.float32}
    for name, weight in model.weights.items():
        assert torch.equal(weight, whole.weights[name].half().float())
    batch = by_words(TEXTS)
    np.testing.assert_allclose(score(model, batch).nats, score(whole, batch).nats, rtol=2e-2)
    assert model.content_hash != whole.content_hash
    assert load(copy, "cpu", "fp32").precision == "fp32"
    with pytest.raises(WorkbenchError, match="fp32 only"):
        load(copy, "cpu", "fp16")


def test_fresh_weights_have_the_options_and_the_words(folder: Path) -> None:
    trained = opened(folder)
    fresh, again, other = (opened(f"{folder}@random", seed=seed) for seed in (0, 0, 1))
    assert fresh.objective == "bidirectional" and fresh.stacks == trained.stacks
    assert fresh.bilm and trained.bilm and fresh.bilm.words == trained.bilm.words
    assert fresh.content_hash == again.content_hash
    assert len({model.content_hash for model in (trained, fresh, other)}) == 3
    for name in ("softmax/weight", "char_embed"):
        assert fresh.weights[name].shape == trained.weights[name].shape
        assert not torch.equal(fresh.weights[name], trained.weights[name])
        assert not torch.equal(fresh.weights[name], other.weights[name])
    options = load(f"elmo:{folder}/options.json@random", "cpu")
    assert isinstance(options, WordModel)
    assert torch.equal(fresh.weights["char_embed"], options.weights["char_embed"])
    assert np.isfinite(score(fresh, by_words(TEXTS)).nats).all()


def test_the_hash_is_of_softmax_and_words_too(folder: Path, copy: Path) -> None:
    first = load(folder, "cpu").content_hash
    assert load(copy, "cpu").content_hash == first
    (copy / "vocab.txt").write_text((copy / "vocab.txt").read_text().replace("boat", "ship"))
    assert load(copy, "cpu").content_hash != first
    shutil.copy(folder / "vocab.txt", copy)
    bilms.edited(copy, bias=torch.ones(3 + len(WORDS)))
    assert load(copy, "cpu").content_hash != first


def test_the_originals_files_in_a_folder_open_without_a_softmax(tmp_path: Path) -> None:
    net = Elmo.random(bilms.SMALL, seed=3)
    net.save_original(tmp_path)
    model = opened(tmp_path)
    assert (model.family, model.objective, model.bilm) == ("elmo", "", None)
    assert model.content_hash == (
        load(f"elmo:{tmp_path}/options.json,{tmp_path}/weights.hdf5", "cpu").content_hash
    )
    with pytest.raises(WorkbenchError, match="no language-model head"):
        score(model, by_words(TEXTS))
    fresh = load(f"{tmp_path}@random", "cpu", seed=5)
    assert fresh.content_hash == (
        load(f"elmo:{tmp_path}/options.json@random", "cpu", seed=5).content_hash
    )


def test_a_folder_of_vectors_opens(tmp_path: Path) -> None:
    Vectors(["the", "old"], torch.tensor([[1.0, 0, 2], [0, 1, 0]]).half()).save(tmp_path)
    model = opened(tmp_path)
    assert (model.name, model.family, model.objective) == (str(tmp_path), "vectors", "")
    assert model.weights["table"].dtype == torch.float32
    assert model.content_hash == load(f"vectors:{tmp_path}", "cpu").content_hash
    fresh = load(f"{tmp_path}@random", "cpu", seed=5)
    assert fresh.content_hash == load(f"vectors:{tmp_path}@random", "cpu", seed=5).content_hash
    with pytest.raises(WorkbenchError, match="fp32 only"):
        load(tmp_path, "cpu", "bf16")
    (tmp_path / "words.txt").unlink()
    with pytest.raises(WorkbenchError, match=r"words\.txt"):
        load(tmp_path, "cpu")


def test_without_h5py_the_folder_is_still_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    net = BiLM.fresh(bilms.SMALL, bilms.words_of(WORDS), 8, seed=0)
    assert not net.save(tmp_path)
    assert load(tmp_path, "cpu").objective == "bidirectional"


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("options.json", r"options\.json: .*cannot be read"),
        ("vocab.txt", r"vocab\.txt: cannot be read"),
    ],
)
def test_what_is_missing_is_named(missing: str, said: str, copy: Path) -> None:
    (copy / missing).unlink()
    for ref in (copy, f"{copy}@random"):
        with pytest.raises(WorkbenchError, match=said) as error:
            load(ref, "cpu")
        assert error.value.remedy


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("model.safetensors", b"{", r"model\.safetensors: .*\[file-unreadable\]"),
        ("model.safetensors", b"", r"model\.safetensors: .*\[file-unreadable\]"),
        ("options.json", b"{", r"options\.json:1: .*not JSON"),
        ("vocab.txt", b"the\na\n", "not a word vocabulary"),
        ("vocab.txt", b"<S>\n</S>\n<UNK>\n", "not a word vocabulary"),
        ("counts.txt", b"1\n2\n", "numbers, one per line"),
    ],
)
def test_damaged_files_are_one_clear_error(
    file: str, content: bytes, said: str, copy: Path
) -> None:
    (copy / file).write_bytes(content)
    with pytest.raises(WorkbenchError, match=said) as error:
        load(copy, "cpu")
    assert error.value.remedy


SIZE = 3 + len(WORDS)


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({"bias": None}, "it lacks the tensor 'softmax/bias'"),
        ({"weight": None}, "it lacks the tensor 'softmax/weight'"),
        ({"more": torch.zeros(2)}, "it has the tensor 'softmax/more'"),
        ({"weight": torch.zeros(1, 5)}, r"is float32 \[1, 5\]; the options require floats"),
        ({"bias": torch.zeros(SIZE).long()}, r"int64 \[13\]; the options require floats"),
        (
            {"bias": torch.zeros(20), "weight": torch.zeros(20, 5)},
            r"20 words, but vocab\.txt has 14",
        ),
        ({"bias": torch.zeros(2), "weight": torch.zeros(2, 5)}, "its softmax has 2 words"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    tensors: dict[str, torch.Tensor | None], said: str, copy: Path
) -> None:
    bilms.edited(copy, **tensors)
    with pytest.raises(WorkbenchError, match=said):
        load_trained(copy)


def test_another_models_weights_are_not_taken_for_it(copy: Path) -> None:
    from safetensors.torch import save_file

    save_file({"weight": torch.zeros(2)}, copy / "model.safetensors")
    with pytest.raises(WorkbenchError, match="its format is not workbench-elmo-1"):
        load(copy, "cpu")
