"""Files of the hub come through huggingface_hub and are verified before they are renamed."""

import hashlib
import json
from pathlib import Path

import pytest

import workbench.fetch as fetching
import workbench.models
from tests.fetch.server import Server
from workbench import WorkbenchError, load
from workbench.fetch import fetch, is_there
from workbench.fetch.catalogue import Entry, File

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {"config.json": b"{}", "model.safetensors": bytes(range(256)) * 4_000}


@pytest.fixture(autouse=True)
def hub(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The server as huggingface_hub's hub, with a cache of its own."""
    url = server.url.rstrip("/")
    monkeypatch.setattr(fetching, "HUB", url)
    for name, value in {
        "ENDPOINT": url,
        "HUGGINGFACE_CO_URL_TEMPLATE": f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}",
        "HF_HUB_CACHE": str(tmp_path / "hf"),
        "HF_HUB_OFFLINE": False,
    }.items():
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
    return url


@pytest.fixture
def entry(server: Server, hub: str, monkeypatch: pytest.MonkeyPatch) -> Entry:
    """A model on it, the only entry of the catalogue."""
    base = f"/somebody/something/resolve/{COMMIT}/"
    server.commit = COMMIT
    server.bodies |= {f"{base}{name}": body for name, body in FILES.items()}
    made = Entry(
        name="something", kind="model", about="for tests", licence="CC0",
        licence_url="https://creativecommons.org", page="https://example.org", revision=COMMIT,
        base=f"{hub}{base}", repository="somebody/something",
        files=tuple(File(n, len(b), hashlib.sha256(b).hexdigest()) for n, b in FILES.items()),
    )  # fmt: skip
    monkeypatch.setattr(fetching, "ENTRIES", (made,))
    return made


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_files_come_whole_and_nothing_else_stays(entry: Entry, server: Server) -> None:
    events: list[tuple[int, int, str]] = []
    folder = fetch("something", lambda *now: events.append(now))
    assert {name: (folder / name).read_bytes() for name in FILES} == FILES
    assert names(folder) == [".fetched.json", ".lock", *sorted(FILES)]
    assert is_there(entry)
    done = [now[0] for now in events]
    assert done == sorted(done) and done[-1] == entry.size
    server.requests.clear()
    assert fetch("something", verify=True) == folder and server.requests == []


@pytest.mark.parametrize("wrong", [b"short", b"y" * len(FILES["model.safetensors"])])
def test_wrong_bytes_never_get_a_name(entry: Entry, server: Server, wrong: bytes) -> None:
    server.bodies[f"/somebody/something/resolve/{COMMIT}/model.safetensors"] = wrong
    with pytest.raises(WorkbenchError, match="checksum-mismatch") as caught:
        fetch("something")
    assert entry.files[1].sha256 in str(caught.value)
    assert names(entry.folder) == [".fetched.json", ".lock", "config.json"]


def test_an_interrupted_download_is_retried_within_a_call(
    entry: Entry, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.fetch.PAUSES", (0.01, 0.01))
    server.cut_after = [2, 300_000]
    assert (fetch("something") / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert len([path for path, _ in server.requests if path.endswith("model.safetensors")]) == 2


def test_an_endless_response_does_not_fill_the_disk(entry: Entry, server: Server) -> None:
    server.bodies[f"/somebody/something/resolve/{COMMIT}/config.json"] = bytes(200_000_000)
    with pytest.raises(WorkbenchError, match="does not end"):
        fetch("something")
    assert names(entry.folder) == [".lock"]


def test_a_missing_file_says_what_to_do(entry: Entry, server: Server) -> None:
    server.bodies.clear()
    with pytest.raises(WorkbenchError, match="download-failed") as caught:
        fetch("something")
    assert "404" in str(caught.value) and entry.url(entry.files[0]) in str(caught.value)


def test_offline_it_says_what_to_put_where(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(WorkbenchError, match="download-failed") as caught:
        fetch("something")
    assert str(entry.folder / "config.json") in str(caught.value)
    entry.folder.mkdir(parents=True, exist_ok=True)
    for name, body in FILES.items():
        (entry.folder / name).write_bytes(body)
    assert fetch("something") == entry.folder


# --- a model by its hub id ------------------------------------------------------------------------

MODEL = Path(workbench.models.__file__).parent / "mini" / "bert"


def publish(server: Server, files: dict[str, bytes]) -> None:
    """Have a repository on the server's hub, with one commit of these files."""
    server.commit, api = COMMIT, "/api/models/somebody/something"
    tree = [
        {"type": "file", "path": name, "size": len(body), "oid": hashlib.sha1(body).hexdigest()}
        for name, body in files.items()
    ]
    info = {"id": "somebody/something", "sha": COMMIT, "siblings": []}
    for query in ("", "?recursive=True&expand=False", "?recursive=true&expand=false"):
        server.bodies[f"{api}/tree/{COMMIT}{query}"] = json.dumps(tree).encode()
    server.bodies[f"{api}/revision/main"] = json.dumps(info).encode()
    for name, body in files.items():
        server.bodies[f"/somebody/something/resolve/{COMMIT}/{name}"] = body


def test_a_hub_id_is_fetched_once_and_without_code_or_pickles(server: Server) -> None:
    files = {path.name: path.read_bytes() for path in MODEL.iterdir() if path.is_file()}
    extra = {"modeling_evil.py": b"raise SystemExit", "pytorch_model.bin": b"pickle", "tf.h5": b""}
    publish(server, {**files, **extra})
    assert load("somebody/something", "cpu").family == "bert"
    fetched = {path.rpartition("/")[2] for path, _ in server.requests if "/resolve/" in path}
    assert {"config.json", "model.safetensors"} <= fetched and not fetched & extra.keys()
    server.requests.clear()
    assert load("somebody/something", "cpu").name == "somebody/something"
    assert server.requests == []


def test_a_hub_id_with_pickles_alone_is_refused_with_the_remedy(server: Server) -> None:
    files = {path.name: path.read_bytes() for path in MODEL.iterdir() if path.is_file()}
    del files["model.safetensors"]
    publish(server, {**files, "pytorch_model.bin": b"pickle"})
    with pytest.raises(WorkbenchError, match=r"^somebody/something: no safetensors") as caught:
        load("somebody/something", "cpu")
    assert "--pickled" in str(caught.value)
    assert not any("pytorch_model.bin" in path for path, _ in server.requests)
    with pytest.raises(WorkbenchError), pytest.warns(UserWarning, match="pickled"):
        load("somebody/something", "cpu", pickled=True)
    assert any("pytorch_model.bin" in path for path, _ in server.requests)


def test_a_hub_id_that_is_none_says_how_to_have_it(server: Server) -> None:
    with pytest.raises(WorkbenchError, match="the hub has none or cannot be reached") as caught:
        load("somebody/nothing", "cpu")
    assert "hf download somebody/nothing" in str(caught.value)
