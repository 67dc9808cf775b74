"""The content hash of a corpus: equal for equal Docs under any name.

For a corpus read from files, it hashes their bytes and the reading options; for a generated corpus,
its recipe; for any other, every Doc. Costs: reading the files at the speed of the disk, nothing for
a recipe, or one reading of the corpus.
"""

import hashlib
import json
from dataclasses import asdict
from importlib.metadata import entry_points, version
from pathlib import Path

from workbench.core.errors import WorkbenchError
from workbench.core.files import COMPRESSED, open_regular, stem, unreadable
from workbench.core.version import installed_version
from workbench.corpora.corpus import Corpus, Origin
from workbench.corpora.formats import layer_of
from workbench.corpora.show import as_data

READERS = 1  # raise it when a reader makes different Docs from the same bytes
WITH_PIPELINE = (".txt",)  # raw text formats, whose Docs also depend on the pipeline


def content_hash(corpus: Corpus) -> str:
    """A hash of everything the Docs of a corpus depend on."""
    digest = hashlib.blake2b(digest_size=16)
    origin = corpus.origin
    if origin is None:
        for split in corpus.splits:
            digest.update(f"split {split}\n".encode())
            for doc in corpus.docs(split):
                digest.update(json.dumps(as_data(doc), sort_keys=True).encode())
        return digest.hexdigest()
    options = asdict(origin.options) | _from_file_names(origin)
    options["pipeline"] = _pipeline(origin.options.pipeline)
    for fact in (READERS, list(corpus.splits), options, origin.recipe):
        digest.update(json.dumps(fact, sort_keys=True).encode())
    for split, path in origin.files:
        digest.update(f"{split} {_file_hash(path)}\n".encode())
    if _needs_pipeline(origin):
        digest.update(json.dumps(_pipelines()).encode())
    return digest.hexdigest()


def _from_file_names(origin: Origin) -> dict[str, object]:
    """What readers take from file names: the format, a layer, and which files are one document.

    The name of a document is not part of its content.
    """
    paths = [path for _, path in origin.files]
    stems = list(dict.fromkeys(stem(path) for path in paths))
    edges = bool(paths) and any(ending in (".jsonl", ".json") for ending in paths[0].suffixes)
    layer = origin.options.layer or None
    if layer is None and edges:
        layer = layer_of(paths[0])
    return {
        "endings": [_ending(path) for path in paths],
        "documents": [stems.index(stem(path)) for path in paths],
        "layer": layer,
    }


def _ending(path: Path) -> str:
    """The extension that decides the format, without the extension of a compression."""
    return (path.with_suffix("") if path.suffix in COMPRESSED else path).suffix.lower()


def _file_hash(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error) from None


def _needs_pipeline(origin: Origin) -> bool:
    raw = any(ending in path.suffixes for _, path in origin.files for ending in WITH_PIPELINE)
    return raw or origin.options.pipeline is not None


def _pipeline(name: str | None) -> str | None:
    """The name of a pipeline, or the content hash of a pipeline's folder."""
    folder = None if name is None else Path(name)
    if folder is None or not folder.is_dir():
        return name
    if not (folder / "meta.json").is_file():  # otherwise any folder, such as /, would be hashed
        raise WorkbenchError(
            "this folder holds no spaCy pipeline.",
            code="pipeline-not-found",
            where=str(folder),
            remedy="Name a folder with a meta.json, as written by spaCy's to_disk or by workbench "
            "corpora train-parser.",
        )
    digest = hashlib.blake2b(digest_size=16)
    try:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
    except OSError as error:
        raise unreadable(folder, error) from None
    for path in files:
        digest.update(f"{path.relative_to(folder).as_posix()} {_file_hash(path)}\n".encode())
    return digest.hexdigest()


def _pipelines() -> list[str]:
    """spaCy and every installed pipeline, with their versions; found without spaCy."""
    installed = sorted({point.name for point in entry_points(group="spacy_models")})
    return [version("spacy"), *(f"{name} {installed_version(name)}" for name in installed)]
