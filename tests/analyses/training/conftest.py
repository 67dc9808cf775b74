"""Tokenizers and tokens of small texts, made once where a test is not about them."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that trainings keep them in."""
    return tmp_path_factory.mktemp("tokens")
