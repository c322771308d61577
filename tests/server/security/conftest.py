from __future__ import annotations

from pathlib import Path

import pytest

from dray.server.security.builtin_roles import cluster_role_bindings, cluster_roles
from dray.server.security.composition import Security
from dray.server.security.policy import CLUSTER_ROLE, CLUSTER_ROLE_BINDING

from .cluster import Clock, Cluster


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def security(cluster: Cluster, clock: Clock) -> Security:
    """With the built-in roles and bindings."""
    security = Security.ephemeral(cluster, clock=clock)
    security.policy.replace(CLUSTER_ROLE, cluster_roles())
    security.policy.replace(CLUSTER_ROLE_BINDING, cluster_role_bindings())
    return security


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "security"
