"""The top bar without a browser: names in its chips, and ways to open another model or corpus."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
from streamlit.testing.v1 import AppTest

from tests.app.pages import home, opened, said, well
from workbench.app import cache, choice
from workbench.app.library import picker
from workbench.app.uploaded_files import folder
from workbench.core.errors import WorkbenchError
from workbench.corpora.browse import Size
from workbench.fetch import hub
from workbench.models.references import MINI
from workbench.runs.processes import starter

__all__ = ["home"]
pytestmark = pytest.mark.usefixtures("home")
BERT = Path(hub.__file__).parents[1] / "models" / "mini" / "bert"
CONLLU = "1\ta\ta\tNOUN\t_\t_\t0\troot\t_\t_\n\n"


def chosen(app: AppTest, label: str) -> str:
    return str(next(box for box in app.selectbox if box.label == label).value)


def way(app: AppTest, kind: str, name: str) -> AppTest:
    return well(app.button_group(key=f"way {kind}").set_value(name).run())


def press(app: AppTest, label: str) -> AppTest:
    return well(next(button for button in app.button if button.label == label).click().run())


def test_a_folder_is_opened_from_the_bar(home: Path) -> None:
    shutil.copytree(BERT, home / "mine" / "model")
    app = way(opened("settings"), "models", picker.FOLDER)
    box = next(box for box in app.text_input if box.label == "Folder or GGUF file of the model")
    box.input("/no/such/folder")
    app = press(app, "Use this model")
    assert "no such folder" in said(app) and chosen(app, "Model") == MINI[0]
    box = next(box for box in app.text_input if box.label == "Folder or GGUF file of the model")
    box.input(str(home / "mine" / "model"))
    app = press(app, "Use this model")
    assert chosen(app, "Model") == str(home / "mine" / "model")
    assert app.query_params["model"] == "local:mine/model"


def test_the_box_of_folders_takes_a_gguf_file(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    for path in (tmp_path / "tiny.gguf", tmp_path):
        picker.require_files("models", str(path))
    with pytest.raises(WorkbenchError, match="GGUF file"):
        picker.require_files("models", str(tmp_path / "none.gguf"))


def test_the_hub_says_size_and_licence(monkeypatch: pytest.MonkeyPatch) -> None:
    info = SimpleNamespace(
        siblings=[
            SimpleNamespace(rfilename="model.safetensors", size=3 << 20),
            SimpleNamespace(rfilename="pytorch_model.bin", size=9 << 20),
        ],
        card_data={"license": "mit"},
    )
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **__: info)
    found = hub.look_up("some/model", "model")
    assert (found.size, found.licence) == (3 << 20, "mit")  # pickled weights are not read
    del info.siblings[0]
    with pytest.raises(WorkbenchError, match="safetensors"):
        hub.look_up("some/model", "model")


def test_size_and_licence_are_there_before_a_download() -> None:
    app = way(opened("settings"), "models", picker.HUB)
    well(app.selectbox(key="hub models").set_value("gpt2").run())
    assert any("licence" in str(each.proto.body) for each in app.get("html"))
    assert any(button.label == "Download and use" for button in app.button)


def test_without_a_network_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", refuse)
    with pytest.raises(WorkbenchError, match="HF_ENDPOINT"):
        hub.look_up("some/model", "model")


def test_chips_have_names_and_sizes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter, "is_ready", lambda: False)  # nothing is counted aside
    (home / "mine" / "model").mkdir(parents=True)
    assert choice.name_of(str(home / "mine" / "model"), "models") == "mine/model"
    assert choice.chip(MINI[0], "models") == "mini:bert · 4×4"
    upload = folder("corpora") / f"{'0' * 16}-dev.conllu"
    assert choice.name_of(str(upload), "corpora") == "dev.conllu"
    path = home / "ewt.conllu"
    path.write_text(CONLLU)
    assert choice.with_size(str(path), "corpora") == "ewt.conllu"
    from workbench.corpora.browse import stamp

    cache._COUNTED[stamp(str(path)), str(path)] = (Size("all", 2001, 9, True),)
    assert choice.with_size(str(path), "corpora") == "ewt.conllu · 2,001 sentences"


def test_a_split_of_the_corpus_before_is_not_named(home: Path) -> None:
    (home / "only-dev.conllu").write_text(CONLLU)
    app = opened("corpora", corpus="primer:size=200", split="train")
    app.text_input(key="typed-corpus").input(str(home / "only-dev.conllu")).run()
    app = press(app, "Use this corpus")
    assert "no split" not in said(app) and app.selectbox(key="split").value == "dev"


def test_a_box_that_is_gone_does_not_take_a_choice_back() -> None:
    """A look at the jobs under way may send once more what boxes had before an upload."""
    app = opened("questions", question="cut", corpus="primer:size=40")
    late = app._tree.get_widget_states()
    app.session_state["next corpus"] = "primer:size=200"
    well(app.run())
    kept = [each for each in late.widgets if not each.id.endswith("-corpus")]  # it heard of it
    assert 0 < len(kept) < len(late.widgets)
    del late.widgets[:]
    late.widgets.extend(kept)
    well(app._run(late))
    assert chosen(well(app.run()), "Corpus") == "primer:size=200"
