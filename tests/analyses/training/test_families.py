"""Every family trains, its loss falls, and what it saved is the same model in another process."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, AutoTokenizer

from tests import warm
from tests.analyses.training.lessons import keep_models, lesson, settings
from tests.night import mostly
from workbench import WorkbenchError
from workbench.analyses.training.families import FAMILIES, SIZES, build, objectives_of, size_of
from workbench.analyses.training.objectives.distillation import Distilled
from workbench.analyses.training.objectives.electra import Electra
from workbench.analyses.training.objectives.skipgram import SkipGram
from workbench.analyses.training.objectives.spanbert import SpanBert
from workbench.analyses.training.train import Trained, train
from workbench.analyses.training.vocabulary import vocabulary_of
from workbench.models import loading
from workbench.models.bilm import BiLM

SENTENCE = "The cat sees a dog in the garden."
PIECES = [name for name, row in FAMILIES.items() if row.reads == "pieces"]
OWN = [(name, FAMILIES[name].objective) for name in PIECES]
ALONE = [
    (name, other)
    for name in PIECES
    for other in objectives_of(name)[1:]
    if name not in ("t5", "bart")  # whose objectives differ in the text alone
]
TINY = size_of("tiny", sequence_length=32)
STEPS = dict.fromkeys(FAMILIES, 10) | {"vectors": 30}
ALWAYS = ("bert", "elmo", "t5", "electra", "distilbert", "spanbert", "vectors")  # asked by name
BY_DAY = ("gpt", *ALWAYS)  # the others have no code of their own but their nets and texts
PIECES_BY_DAY = [name for name in PIECES if name in BY_DAY]

OTHER_PROCESS = """
import sys
from pathlib import Path
import torch, transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoTokenizer
root = Path(sys.argv[1])
found = {}
for folder in sorted(path.parent for path in root.glob("*/config.json")):
    kind = getattr(transformers, AutoConfig.from_pretrained(folder).architectures[0])
    net = kind.from_pretrained(folder, local_files_only=True).eval()
    ids = AutoTokenizer.from_pretrained(folder)(sys.argv[2], return_tensors="pt")["input_ids"]
    more = {"decoder_input_ids": ids} if net.config.is_encoder_decoder else {}
    if n_global := getattr(net.config, "global_positions", 0):
        more = {"global_attention_mask": (torch.arange(ids.shape[1]) < n_global).long()[None]}
    with torch.no_grad():
        answer = net(input_ids=ids, **more)
    found[folder.name] = answer[0].contiguous()
save_file(found, root / "answers.safetensors")
"""


IN_TWO = "test_every_family_runs_through_profile_alike_in_two_processes"
PROFILES = """
import json, sys
from pathlib import Path
from workbench.corpora import read
from workbench.experiment.definition import (Inputs)
from workbench.analyses.basics.lm_profile import Profile, run
from workbench.models.loading import load
from workbench.analyses.training.task import Quiet
def profiled(folder):
    model = load(folder, device="cpu")
    result = run(Inputs((model,), (read("primer:size=200"),), "test", limit=5), Profile(), Quiet())
    tables = {name: table.to_dict("records") for name, table in result.tables.items()}
    return {"hash": model.content_hash, "losses": tables.get("losses"), "facts": tables["facts"]}
if __name__ == "__main__":
    root = Path(sys.argv[1])
    found = {name: profiled(root / name) for name in sys.argv[2:]}
    (root / "profiles.json").write_text(json.dumps(found))
"""


def asked_by(request: pytest.FixtureRequest) -> list[tuple[str, str]]:
    """Tests of this file, and the families that they ask for."""
    own: list[Any] = [item for item in request.session.items if item.path == request.path]
    calls = [(item.name, getattr(item, "callspec", None)) for item in own]
    return [(name, call.params["name"]) for name, call in calls if call and "name" in call.params]


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[Path, dict[str, Trained], dict[Path, nn.Module]]:
    """The families that tests ask for."""
    root, results = tmp_path_factory.mktemp("families"), {}
    asked = {name for _, name in asked_by(request)}
    with pytest.MonkeyPatch.context() as patch:
        kept = keep_models(patch)
        for name in (name for name in FAMILIES if name in asked or name in ALWAYS):
            results[name] = train(
                name,
                lesson(60),
                root / name,
                settings(STEPS[name]),
                home=root / "tokens",
                teacher=root / "bert" if name == "distilbert" else None,
            )
    return root, results, kept


@pytest.fixture(scope="module")
def profiles(trained: Any, request: pytest.FixtureRequest) -> dict[str, Any]:
    """The profiles that a process tells that has only the folders."""
    root = trained[0]
    asked = [name for test, name in asked_by(request) if test.startswith(IN_TWO)]
    warm.python("-c", PROFILES, str(root), *asked)
    found: dict[str, Any] = json.loads((root / "profiles.json").read_text())
    return found


@pytest.fixture(scope="module")
def elsewhere(trained: Any) -> dict[str, Tensor]:
    """The answers of a process that has only the folders."""
    root = trained[0]
    warm.python("-c", OTHER_PROCESS, str(root), SENTENCE)
    return load_file(root / "answers.safetensors")


@pytest.mark.parametrize("name", mostly(FAMILIES, "bert", "t5", "elmo", "vectors"))
def test_every_family_runs_through_profile_alike_in_two_processes(
    name: str, trained: Any, profiles: dict[str, Any]
) -> None:
    """The other process has only the folder."""
    here: dict[str, Any] = {}
    exec(PROFILES, here)
    own = here["profiled"](trained[0] / name)
    assert json.loads(json.dumps(own)) == profiles[name]
    has_no_loss = name in ("electra", "vectors")  # a discriminator predicts no words
    assert (own["losses"] is None) == has_no_loss


@pytest.mark.parametrize("name", mostly(FAMILIES, *BY_DAY))
def test_the_loss_falls(name: str, trained: Any) -> None:
    rows = trained[1][name].rows
    assert rows[-1].step == STEPS[name]
    assert rows[-1].loss < rows[0].loss - 0.1
    if name != "vectors":
        assert rows[-1].held_out is not None


@pytest.mark.parametrize("name", mostly(PIECES, *PIECES_BY_DAY))
def test_another_process_finds_the_same_model(name: str, trained: Any, elsewhere: Any) -> None:
    root, _, kept = trained
    net = kept[root / name].eval()
    own: Any = net.detector if isinstance(net, Electra) else net
    own = net.student if isinstance(net, Distilled) else own
    own = net.bert if isinstance(net, SpanBert) else own
    ids = AutoTokenizer.from_pretrained(root / name)(SENTENCE, return_tensors="pt")["input_ids"]
    more = {"decoder_input_ids": ids} if own.config.is_encoder_decoder else {}
    with torch.no_grad():
        answer = own(input_ids=ids, **more)
    torch.testing.assert_close(answer[0], elsewhere[name], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", mostly(PIECES, *PIECES_BY_DAY))
def test_the_workbench_opens_it(name: str, trained: Any) -> None:
    model = loading.load(trained[0] / name, device="cpu")
    assert model.sites


def test_the_workbench_opens_those_that_read_words(trained: Any) -> None:
    root, _, kept = trained
    elmo, vectors = kept[root / "elmo"], kept[root / "vectors"]
    assert isinstance(elmo, BiLM)
    assert isinstance(vectors, SkipGram)
    folder = root / "elmo"
    model = loading.load(f"elmo:{folder}/options.json,{folder}/weights.hdf5", device="cpu")
    assert model.parameters == sum(w.numel() for w in elmo.elmo.parameters())
    table: Any = loading.load(f"vectors:{root / 'vectors'}", device="cpu")
    torch.testing.assert_close(table.weights["table"], vectors.center.detach()[3:])
    found: Any = loading.load(folder, device="cpu")
    assert found.objective == "bidirectional"
    assert found.parameters == sum(w.numel() for w in elmo.parameters())
    assert loading.load(root / "vectors", device="cpu").content_hash == table.content_hash


def test_generator_and_discriminator_share_their_embeddings(trained: Any) -> None:
    root, _, kept = trained
    net = kept[root / "electra"]
    assert isinstance(net, Electra)
    one = net.generator.electra.embeddings.word_embeddings.weight
    assert one is net.detector.electra.embeddings.word_embeddings.weight
    output: Any = net.generator.get_output_embeddings()
    assert output.weight is one
    assert (root / "electra" / "generator" / "model.safetensors").is_file()


def test_a_student_has_half_the_layers_of_its_teacher(trained: Any) -> None:
    net = trained[2][trained[0] / "distilbert"]
    assert isinstance(net, Distilled)
    assert net.config.n_layers == 1
    assert not any(p.requires_grad for p in net.teacher(torch.device("cpu")).parameters())


def test_a_spanbert_is_kept_as_a_plain_bert(trained: Any) -> None:
    root, _, kept = trained
    assert isinstance(kept[root / "spanbert"], SpanBert)
    auto: Any = AutoModelForMaskedLM.from_pretrained(
        root / "spanbert", output_loading_info=True, local_files_only=True
    )
    net, told = auto
    assert type(net).__name__ == "BertForMaskedLM"
    assert not any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))


@pytest.mark.parametrize(
    ("name", "objective"),
    mostly([*OWN, *ALONE], *(case for case in [*OWN, *ALONE] if case[0] in BY_DAY)),
)
def test_every_weight_is_reached_by_the_gradient(name: str, objective: str, trained: Any) -> None:
    """Else several processes would wait for gradients that never come."""
    from workbench.analyses.training.batches import piece_task, split_held_out
    from workbench.analyses.training.packing import pack
    from workbench.analyses.training.task import Plan
    from workbench.analyses.training.token_store import tokenize_text

    root = trained[0]
    own = objective == FAMILIES[name].objective
    tokenizer = AutoTokenizer.from_pretrained(root / name)
    net = trained[2][root / name] if own else build(name, TINY, tokenizer, 0, objective)
    store = tokenize_text(lesson(30), tokenizer, root / "tokens", processes=1)
    part, held = split_held_out(pack(store, vocabulary_of(tokenizer), 32))
    unit = FAMILIES[name].unit
    task = piece_task(objective, net.train(), part, held, Plan(batch_size=8), 1, unit=unit)
    net.zero_grad()
    task.losses(net, task.draw(0, 0).inputs).sum().backward()
    assert [n for n, p in net.named_parameters() if p.requires_grad and p.grad is None] == []


@pytest.mark.parametrize(("size", "most"), [("tiny", 0.3e6), ("mini", 1.4e6), ("small", 18e6)])
def test_sisters_of_a_size_have_like_many_parameters(size: str, most: float, trained: Any) -> None:
    tokenizer = AutoTokenizer.from_pretrained(trained[0] / "bert")
    with torch.device("meta"):
        counts = {
            name: sum(p.numel() for p in build(name, size_of(size), tokenizer, 0).parameters())
            for name in ("gpt", "bert", "t5", "bart", "roberta")
        }
    assert max(counts.values()) < most
    assert max(counts.values()) < 1.35 * min(counts.values()), counts


def test_wrong_sizes_and_names_are_refused() -> None:
    with pytest.raises(WorkbenchError, match="Did you mean 'mini'"):
        size_of("minni")
    with pytest.raises(WorkbenchError, match="not a multiple of 3 heads"):
        size_of("tiny", n_heads=3)
    with pytest.raises(WorkbenchError, match="layers is 0"):
        size_of("tiny", n_layers=0)
    assert size_of("tiny", n_layers=5).n_layers == 5
    assert size_of("tiny", width=None) == SIZES["tiny"]
    with pytest.raises(WorkbenchError, match="Did you mean 'roberta'"):
        train("robertta", ["a"], Path("nowhere"))
