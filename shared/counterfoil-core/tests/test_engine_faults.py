"""Through Dask: every vector and every kind of damage, as in ``test_side_by_side``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from borrowed import instead
from test_side_by_side import (
    long,
    test_damage_of_every_kind,
    test_every_vector,
    test_intact_evidence_is_read_once,
)

pytestmark = [
    pytest.mark.engines,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
__all__ = ["long", "test_damage_of_every_kind", "test_every_vector", "test_intact_evidence_is_read_once"]


@pytest.fixture(scope="module", autouse=True)
def _dask() -> Iterator[None]:
    with instead() as engine:
        yield
    assert engine.given > 300
