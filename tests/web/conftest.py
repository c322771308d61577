"""One browser and one cluster for all tests of a module: to start them takes seconds."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    from tests.web.browser import browsing

    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    from tests.web.browser import page_cluster

    with page_cluster(tmp_path_factory.mktemp("page"), "--fleet", "dgx-h100=3,p4d.24xlarge=2") as found:
        yield found
