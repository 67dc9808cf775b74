"""Models of the zoo and a sentence, for tests of maps."""

from collections.abc import Callable
from functools import cache

import pytest
from spacy.tokens import Doc

from tests.models import zoo
from workbench import Model, load
from workbench.corpora.layers import vocabulary

WORDS = "The old dog doesn't see Mary 's cat , Ω !".split()


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Model]:
    """A model of the zoo by its name, opened when it is first asked for."""
    return cache(lambda name: load(zoo.make(name, tmp_path_factory.mktemp(name)), device="cpu"))


@pytest.fixture(scope="session")
def doc() -> Doc:
    """A sentence with a tree, a name and a chain."""
    heads = [2, 2, 4, 4, 4, 7, 5, 4, 4, 4, 4]
    deps = "det amod nsubj aux ROOT nmod case obj punct dep punct".split()
    return Doc(
        vocabulary("en"),
        words=WORDS,
        heads=heads,
        deps=deps,
        ents=["O"] * 5 + ["B-PERSON", "I-PERSON"] + ["O"] * 4,
    )
