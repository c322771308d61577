import pytest

from tests.server.api import serving


@pytest.fixture
def api():
    with serving() as server:
        yield server
