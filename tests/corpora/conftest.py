"""Fixtures that the tests of text readers share."""

from collections.abc import Iterator
from functools import cache

import pytest

from workbench.corpora.readers import text


@pytest.fixture(scope="module")
def one_pipeline() -> Iterator[None]:
    """Make each tokenizer once: spaCy takes 70 ms, and an example reads in one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("workbench.corpora.readers.text.load_pipeline", cache(text.load_pipeline))
        patch.setattr("workbench.corpora.readers.tables.tokenizer", cache(text.tokenizer))
        yield
