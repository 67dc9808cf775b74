"""The entries of `workbench fetch`, as data: each file's address, size and checksum.

Every address contains a commit, so that it always names the same bytes. A checksum is either pinned
here, or stated by the host for that commit (git's id of the file, or the sha256 of a large one). A
stated checksum is requested once, stored next to the files, and used from then on. Each entry has a
note on which of the two applies. Not included are files without any checksum (the original ELMo),
models with only pickled weights (ELECTRA), and corpora with an unclear licence (most of GLUE).
Costs: nothing.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workbench.core.machine import home

HUB = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")  # or a mirror
STATED = "stated by the host"
PINNED = "pinned in the catalogue"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class File:
    """One file of an entry; its size is rounded if the host states the checksum."""

    name: str
    size: int
    sha256: str = STATED


@dataclass(frozen=True)
class Entry:
    """A corpus or a model, at one commit of its repository on a host."""

    name: str
    kind: Literal["corpus", "model"]
    about: str
    licence: str
    licence_url: str
    page: str
    revision: str
    base: str  # the start of each file's address, followed by its name
    files: tuple[File, ...]
    statement: str = ""  # address of the host's checksums, for files without one here
    repository: str = ""  # on the hub, for huggingface_hub; "" for files downloaded over HTTP

    def __post_init__(self) -> None:
        """Check that no name leaves the folder, and that every file can be verified."""
        for name in (self.name, *(file.name for file in self.files)):
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a plain file name")
        for file in self.files:
            stated = file.sha256 == STATED and self.statement
            if not stated and not _SHA256.fullmatch(file.sha256):
                raise ValueError(f"{self.name}: {file.name} has no checksum")

    @property
    def checksum(self) -> str:
        """Whether the checksums are pinned here, or stated by the host for that commit."""
        return STATED if any(file.sha256 == STATED for file in self.files) else PINNED

    @property
    def size(self) -> int:
        """Total size in bytes."""
        return sum(file.size for file in self.files)

    @property
    def folder(self) -> Path:
        """The folder of its files, which may not exist yet."""
        return home() / "fetched" / self.name

    @property
    def ref(self) -> str:
        """The value for --corpus or --model after the download."""
        return str(self.folder)

    def url(self, file: File) -> str:
        """The address of a file."""
        return self.base + file.name


def _on_the_hub(
    repository: str, revision: str, about: str, licence: str, files: tuple[File, ...]
) -> Entry:
    page = f"https://huggingface.co/{repository}"
    return Entry(
        name=repository.rpartition("/")[2],
        kind="model",
        about=about,
        licence=licence,
        licence_url=f"{page}/blob/{revision}/README.md",
        page=page,
        revision=revision,
        base=f"{HUB}/{repository}/resolve/{revision}/",
        files=files,
        statement=f"{HUB}/api/models/{repository}/revision/{revision}?blobs=true",
        repository=repository,
    )


def _on_github(
    name: str,
    repository: str,
    revision: str,
    about: str,
    licence: str,
    licence_url: str,
    files: tuple[File, ...],
    folder: str = "",
) -> Entry:
    page = f"https://github.com/{repository}"
    return Entry(
        name=name,
        kind="corpus",
        about=about,
        licence=licence,
        licence_url=licence_url,
        page=page,
        revision=revision,
        base=f"https://raw.githubusercontent.com/{repository}/{revision}/{folder}",
        files=files,
        # A git tree lists one folder; only the address of the top folder is known in advance.
        statement=""
        if folder
        else f"https://api.github.com/repos/{repository}/git/trees/{revision}",
    )


# Files that are identical in several repositories.
_BERT_WORDS = File(
    "vocab.txt", 231_508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
)
_BERT_TOKENIZER = (
    File(
        "tokenizer.json",
        466_062,
        "ce64fce797c24f68df90b40a3f74f579b336a493db14bd583fd520ea0d8c9a98",
    ),
    File(
        "tokenizer_config.json",
        48,
        "a025160ef0431f1a392f6f050c1310f4c5d9fb6f275932dbccba73c4d214bf10",
    ),
    _BERT_WORDS,
)
_GPT2_MERGES = File(
    "merges.txt", 456_318, "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
)
_GPT2_TOKENIZER = (
    File(
        "tokenizer.json",
        1_355_256,
        "8414cab924d8b9b33013f0d221c5862f365ee9be39c5c2bfae8a5a9e970478a6",
    ),
    File(
        "tokenizer_config.json",
        26,
        "5e04eb606e3a1583530a42e36c2a6b6615c86f34fe77e44d9ddeb43ff940931f",
    ),
    File(
        "vocab.json",
        1_042_301,
        "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    ),
    _GPT2_MERGES,
)

ENTRIES: tuple[Entry, ...] = (
    _on_github(
        "ud-ewt",
        "UniversalDependencies/UD_English-EWT",
        "4c89b5833a70aa5ed3a00bad2f23f57992cc7df8",
        "English Web Treebank, UD 2.16: tags and dependencies, 16,622 sentences of web text",
        "CC BY-SA 4.0",
        "https://creativecommons.org/licenses/by-sa/4.0/",
        (
            File(
                "en_ewt-ud-train.conllu",
                14_203_025,
                "3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b",
            ),
            File(
                "en_ewt-ud-dev.conllu",
                1_805_545,
                "531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6",
            ),
            File(
                "en_ewt-ud-test.conllu",
                1_804_515,
                "e266e515a0a7547657ed3d90d9ba46487d6bd251f27ad4269d4e8a427c8555cd",
            ),
        ),
    ),
    _on_github(
        "ud-gum",
        "UniversalDependencies/UD_English-GUM",
        "b58e74bc22d17220c9198864c253a50a897bf27f",
        "Georgetown University Multilayer corpus, UD 2.18: tags, dependencies, entities, "
        "coreference",
        "CC BY-NC-SA 4.0 as a whole; each text under the terms of its source",
        "https://github.com/UniversalDependencies/UD_English-GUM/blob/"
        "b58e74bc22d17220c9198864c253a50a897bf27f/LICENSE.txt",
        (
            File("en_gum-ud-train.conllu", 19_000_000),
            File("en_gum-ud-dev.conllu", 3_000_000),
            File("en_gum-ud-test.conllu", 3_000_000),
        ),
    ),
    _on_github(
        "ud-pud",
        "UniversalDependencies/UD_English-PUD",
        "e173a1be1b442faf34e7d5a502189ad5d9d1e197",
        "Parallel UD, English, UD 2.18: tags and dependencies, 1,000 sentences of news and "
        "Wikipedia; a test set",
        "CC BY-SA 3.0",
        "https://creativecommons.org/licenses/by-sa/3.0/",
        (
            File(
                "en_pud-ud-test.conllu",
                1_386_858,
                "c80584f2bc2b31d5bada78a1136f9feec7ac49e5e18898db02dea434b5b8f0aa",
            ),
        ),
    ),
    _on_github(
        "tinyshakespeare",
        "karpathy/char-rnn",
        "6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e",
        "One million characters of Shakespeare's plays: plain text to train a small model",
        "public domain",
        "https://github.com/karpathy/char-rnn/tree/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/"
        "tinyshakespeare",
        (
            File(
                "input.txt",
                1_115_394,
                "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            ),
        ),
        folder="data/tinyshakespeare/",
    ),
    _on_the_hub(
        "google-bert/bert-base-uncased",
        "86b5e0934494bd15c9632b12f734a8a67f723594",
        "BERT, 12 layers of 12 heads, lower case",
        "Apache-2.0",
        (
            File(
                "config.json",
                570,
                "7160e1553ad2ca51d8c1cb066be533db31826e12d173824c1bb0cb1a4f187d20",
            ),
            *_BERT_TOKENIZER,
            File(
                "model.safetensors",
                440_449_768,
                "68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3",
            ),
        ),
    ),
    _on_the_hub(
        "google-bert/bert-base-cased",
        "cd5ef92a9fb2f889e972770a36d4ed042daf221e",
        "BERT, 12 layers of 12 heads, upper and lower case",
        "Apache-2.0",
        (
            File("config.json", 600),
            File("tokenizer.json", 440_000),
            File("tokenizer_config.json", 50),
            File("vocab.txt", 210_000),
            File(
                "model.safetensors",
                435_755_784,
                "1d8bdcee6021e2c25f0325e84889b61c2eb26b843eef5659c247af138d64f050",
            ),
        ),
    ),
    _on_the_hub(
        "distilbert/distilbert-base-uncased",
        "12040accade4e8a0f71eabdb258fecc2e7e948be",
        "DistilBERT, 6 layers of 12 heads, lower case",
        "Apache-2.0",
        (
            File(
                "config.json",
                483,
                "69c94b0222d5d1f4b0ad027ca7416cdafb98378cbbb8305d0bf47c9365c60c83",
            ),
            *_BERT_TOKENIZER,
            File(
                "model.safetensors",
                267_954_768,
                "5e3f1108e3cb34ee048634875d8482665b65ac713291a7e32396fb18f6ff0063",
            ),
        ),
    ),
    _on_the_hub(
        "FacebookAI/roberta-base",
        "e2da8e2f811d1448a5b465c236feacd80ffbac7b",
        "RoBERTa, 12 layers of 12 heads",
        "MIT",
        (
            File(
                "config.json",
                481,
                "ef0185e2aae6e06c5f105a285006952c340e20c7dbf43c86ec82601b13fc45e9",
            ),
            File(
                "tokenizer.json",
                1_355_863,
                "847bbeab6174d66a88898f729d52fa8d355fafe1bea101cf960dd404581df70e",
            ),
            File(
                "tokenizer_config.json",
                25,
                "994f46754c5bf4014f1aa92d34b1374319c3a6b3f702105cd5b742beaecd18ce",
            ),
            File(
                "vocab.json",
                898_823,
                "9e7f63c2d15d666b52e21d250d2e513b87c9b713cfa6987a82ed89e5e6e50655",
            ),
            _GPT2_MERGES,
            File(
                "model.safetensors",
                498_818_054,
                "5bde1d28afb363d0103324efeb5afc8b2b397fe5e04beabb9b1ef355255ade81",
            ),
        ),
    ),
    _on_the_hub(
        "albert/albert-base-v2",
        "8e2f239c5f8a2c0f253781ca60135db913e5c80c",
        "ALBERT, 12 layers of 12 heads that share one set of weights",
        "Apache-2.0",
        (
            File("config.json", 700),
            File("tokenizer.json", 1_300_000),
            File("tokenizer_config.json", 25),
            File("spiece.model", 760_000),
            File("model.safetensors", 47_000_000),
        ),
    ),
    _on_the_hub(
        "openai-community/gpt2",
        "607a30d783dfa663caf39e06633721c8d4cfcd7e",
        "GPT-2, 12 layers of 12 heads",
        "MIT",
        (
            File(
                "config.json",
                665,
                "0daed7749b4f02b8f76240d5444551d7b08712dab4d0adb8239c56ba823bb7b4",
            ),
            *_GPT2_TOKENIZER,
            File(
                "model.safetensors",
                548_105_171,
                "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707",
            ),
        ),
    ),
    _on_the_hub(
        "distilbert/distilgpt2",
        "2290a62682d06624634c1f46a6ad5be0f47f38aa",
        "DistilGPT-2, 6 layers of 12 heads",
        "Apache-2.0",
        (
            File(
                "config.json",
                762,
                "4ec5947c1d59fee6212cdf3b0ec1a53eac02092554c5ff0a733488cbd2c64f3a",
            ),
            *_GPT2_TOKENIZER,
            File(
                "model.safetensors",
                352_824_413,
                "e1ff18884359fe8beb795a5f414feb85a6ce3d929ad019c0d958c039d2b94a1b",
            ),
        ),
    ),
    _on_the_hub(
        "google-t5/t5-small",
        "df1b051c49625cf57a3d0d8d3863ed4d13564fe4",
        "T5, encoder and decoder of 6 layers of 8 heads",
        "Apache-2.0",
        (
            File("config.json", 1_200),
            File("generation_config.json", 150),
            File("tokenizer.json", 1_400_000),
            File("tokenizer_config.json", 2_300),
            File("spiece.model", 790_000),
            File("model.safetensors", 242_000_000),
        ),
    ),
    _on_the_hub(
        "facebook/bart-base",
        "aadd2ab0ae0c8268c7c9693540e9904811f36177",
        "BART, encoder and decoder of 6 layers of 12 heads",
        "Apache-2.0",
        (
            File("config.json", 1_700),
            File("tokenizer.json", 1_400_000),
            File("vocab.json", 900_000),
            File("merges.txt", 460_000),
            File("model.safetensors", 560_000_000),
        ),
    ),
)
