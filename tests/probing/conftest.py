from __future__ import annotations

import pytest

from manyglot.errors import ManyglotError
from manyglot.probing.uriel import UrielDatabase, load_uriel


@pytest.fixture(scope="session")
def uriel() -> UrielDatabase:
    """The real database; skips if neither lang2vec nor MANYGLOT_URIEL provides it."""
    try:
        return load_uriel()
    except ManyglotError:
        pytest.skip("lang2vec is not installed")
