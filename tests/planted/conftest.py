"""Both planted models with either lexicon, and Docs that go with them.

A model costs a tenth of a second, and is built again for each test file.
"""

import pytest
from spacy.tokens import Doc

from tests.night import mostly
from tests.planted.look import BUILDERS, eager
from tests.planted.model import Planted
from tests.planted.words import Lexicon, lexicon, planted_docs


# by day words of several pieces
@pytest.fixture(scope="session", params=mostly([False, True], True), ids=["whole", "split"])
def words(request: pytest.FixtureRequest) -> Lexicon:
    return lexicon(split=request.param)


@pytest.fixture(scope="module", params=BUILDERS)
def planted(request: pytest.FixtureRequest, words: Lexicon) -> Planted:
    return eager(BUILDERS[request.param](words))


@pytest.fixture(scope="session")
def docs(words: Lexicon) -> list[Doc]:
    return planted_docs(200, words)
