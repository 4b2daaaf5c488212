"""Through Dask: everything that ``test_side_by_side_forged`` forges."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import test_side_by_side_forged
from borrowed import instead

pytestmark = [
    pytest.mark.engines,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

# Its tests and the fixtures that they name; what does the work there is not among them.
globals().update(
    {
        name: found
        for name, found in vars(test_side_by_side_forged).items()
        if name.startswith("test_") or name in ("long", "pinned")
    }
)


@pytest.fixture(scope="module", autouse=True)
def _dask() -> Iterator[None]:
    with instead() as engine:
        yield
    assert engine.given > 500
