"""A pass over twice as many documents needs no more memory: nothing of the corpus is held.

Every tensor's bytes are counted from when an operation makes it until it is let go, in a model of
a Llama's shape; the most of all at once is what a card would have to hold besides the weights.
"""

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig, AutoTokenizer

from tests.analyses.heads.conftest import random_docs
from tests.models import zoo
from tests.models.stores import stored
from workbench import encode
from workbench.analyses.heads.collect import PassSettings, look
from workbench.analyses.heads.gold import gold_of
from workbench.analyses.pruning.importance import gate_gradients
from workbench.engine import forward_pass
from workbench.engine.batch import Batch
from workbench.models.huggingface import HuggingFace
from workbench.models.scoring import eval_tasks
from workbench.models.scoring.eval_tasks import eval_task_of

DOCS = random_docs(1, 8)
PIECES = 64  # in a batch
Pass = Callable[[HuggingFace, Batch, list[Any], Path], object]


class _Alive(TorchDispatchMode):
    """Bytes of what operations made and nobody has let go, and the most of them at once."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: dict[int, int] = {}
        self.bytes = self.most = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
        found = function(*args, **(kwargs or {}))
        given = {self._key(each) for each in tree_leaves((args, kwargs)) if _is_real(each)}
        for each in tree_leaves(found):
            if _is_real(each) and self._key(each) not in given:
                self.count(each)
        return found

    def count(self, tensor: Tensor) -> None:
        storage, key = tensor.untyped_storage(), self._key(tensor)
        if key in self.storages:
            return
        self.storages[key] = size = storage.nbytes()
        self.bytes += size
        self.most = max(self.most, self.bytes)
        weakref.finalize(storage, self._gone, key)

    def _gone(self, key: int) -> None:
        self.bytes -= self.storages.pop(key, 0)

    @staticmethod
    def _key(tensor: Tensor) -> int:
        return tensor.untyped_storage()._cdata


def _is_real(value: object) -> bool:
    return isinstance(value, Tensor) and value.device.type == "cpu"


def _heads(model: HuggingFace, batch: Batch, docs: list[Any], home: Path) -> object:
    gold = gold_of(docs, frequent=10)
    return look(model, batch, gold, PassSettings(n_bootstrap=5, n_shuffles=5), pieces=PIECES)


def _store(model: HuggingFace, batch: Batch, docs: list[Any], home: Path) -> object:
    return stored(model, batch, home, pieces=PIECES)


def _gradients(model: HuggingFace, batch: Batch, docs: list[Any], home: Path) -> object:
    aim = eval_task_of(model)
    return gate_gradients(model, aim, aim.questions(model, batch, pieces=PIECES))


def _all_states(model: HuggingFace, batch: Batch, docs: list[Any], home: Path) -> object:
    """What no analysis may do."""
    kept: list[Any] = []
    forward_pass.forward(model, batch, lambda text, output: kept.append(output), pieces=PIECES)
    return kept


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> HuggingFace:
    where = zoo.make("llama", tmp_path_factory.mktemp("llama"), num_hidden_layers=4)
    torch.manual_seed(0)
    net = transformers.LlamaForCausalLM(AutoConfig.from_pretrained(where)).eval()
    return HuggingFace(net, AutoTokenizer.from_pretrained(where), "llama")


def _most(run: Pass, model: HuggingFace, times: int, home: Path) -> tuple[int, int]:
    """Bytes at most, and those left when all is done, of so many times the documents."""
    docs = DOCS * times
    batch = encode(docs)
    assert model.content_hash  # made once, whatever the corpus
    with _Alive() as alive:
        kept = run(model, batch, docs, home / str(times))
        left = alive.bytes
    assert kept is not None and alive.most > 0
    return alive.most, left


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer documents are tokenised at a time than there are, as in a large corpus."""
    monkeypatch.setattr(forward_pass, "CHUNK", 8)
    monkeypatch.setattr(eval_tasks, "CHUNK", 8)


@pytest.mark.parametrize(
    "run", [_store, *(pytest.param(each, marks=pytest.mark.slow) for each in (_heads, _gradients))]
)
def test_nothing_grows_with_the_corpus(run: Pass, llama: HuggingFace, tmp_path: Path) -> None:
    most, left = _most(run, llama, 2, tmp_path)
    more, after = _most(run, llama, 4, tmp_path)
    assert more <= 1.05 * most and after <= 1.05 * left


def test_what_is_held_would_be_seen(llama: HuggingFace, tmp_path: Path) -> None:
    most, _ = _most(_all_states, llama, 1, tmp_path)
    more, _ = _most(_all_states, llama, 2, tmp_path)
    assert more > 1.8 * most
