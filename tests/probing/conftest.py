from __future__ import annotations

import pytest

from manyglot.errors import ManyglotError
from manyglot.probing.uriel import Uriel, read_uriel


@pytest.fixture(scope="session")
def uriel() -> Uriel:
    """The real database, where it is installed or MANYGLOT_URIEL names it."""
    try:
        return read_uriel()
    except ManyglotError:
        pytest.skip("lang2vec is not installed")
