"""The pytest fixture `codeq_server`, for everybody who has installed this package."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .testing import TestServer


@pytest.fixture
def codeq_server() -> Iterator[TestServer]:
    """A server for one test, in memory and with a clock that only the test moves."""
    with TestServer() as server:
        yield server
