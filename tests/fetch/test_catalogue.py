"""Every entry can be downloaded, verified, and used under a named licence."""

import re

import pytest

from workbench.core.machine import home
from workbench.fetch import entries
from workbench.fetch.catalogue import PINNED, STATED, Entry, File

COMMIT = re.compile(r"[0-9a-f]{40}")


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.name)
def test_entry_is_well_formed(entry: Entry) -> None:
    assert entry.about
    assert entry.licence
    assert entry.files
    assert COMMIT.fullmatch(entry.revision)
    for url in (entry.page, entry.licence_url, *map(entry.url, entry.files)):
        assert re.fullmatch(r"https://[\w.-]+/[\w./-]+", url), url
    for file in entry.files:
        assert entry.revision in entry.url(file)
        assert file.sha256 == STATED or re.fullmatch("[0-9a-f]{64}", file.sha256)
        assert file.size > 0
    if entry.checksum == STATED:
        assert entry.statement.startswith("https://")
        assert entry.revision in entry.statement
    else:
        assert entry.checksum == PINNED
    assert entry.folder.parent == home() / "fetched"
    assert entry.ref == str(entry.folder)


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.name)
def test_model_has_all_files_needed_to_load_it(entry: Entry) -> None:
    names = {file.name for file in entry.files}
    if entry.kind == "model":
        assert {"config.json", "model.safetensors", "tokenizer.json"} <= names


def test_names_are_different() -> None:
    names = [entry.name for entry in entries()]
    assert len(set(names)) == len(names)


def entry_of(name: str, file: File, statement: str = "") -> Entry:
    url = "https://example.org/"
    return Entry(name, "corpus", "about", "CC0", url, url, "0" * 40, url, (file,), statement)


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "a/b", "/a", "a\\b", ".hidden", "a\n"])
def test_no_name_leaves_the_folder(name: str) -> None:
    with pytest.raises(ValueError, match="not a plain file name"):
        entry_of(name, File("a", 1, "0" * 64))
    with pytest.raises(ValueError, match="not a plain file name"):
        entry_of("a", File(name, 1, "0" * 64))


@pytest.mark.parametrize("sha256", ["", STATED, "0" * 63, "O" * 64])
def test_no_file_goes_without_a_checksum(sha256: str) -> None:
    with pytest.raises(ValueError, match="has no checksum"):
        entry_of("a", File("a", 1, sha256))
