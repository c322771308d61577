from collections.abc import AsyncIterator

import pytest

from tests.driver.node import Node, node_with_kubelet


@pytest.fixture
async def kubelet_node() -> AsyncIterator[Node]:
    async with node_with_kubelet() as node:
        yield node
