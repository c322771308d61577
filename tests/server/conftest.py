import os

import pytest

from tests.server.api import Api, ProtobufApi, serving
from tests.server.hooks import AdmissionHooks, make_authority
from tests.server.kubectl import Kubectl
from tests.server.process import listening

CLIENTS = {"json": Api, "protobuf": ProtobufApi}
# DRAY_FORM=protobuf asks in protobuf in every module.
FORM = os.environ.get("DRAY_FORM", "json")


def pytest_generate_tests(metafunc):
    """The tests of a module with `BOTH_FORMS` are asked in JSON and in protobuf."""
    if "api" in metafunc.fixturenames and getattr(metafunc.module, "BOTH_FORMS", False):
        metafunc.parametrize("api", list(CLIENTS), indirect=True)


@pytest.fixture
def api(request):
    with serving(client=CLIENTS[getattr(request, "param", FORM)]) as server:
        yield server


@pytest.fixture(scope="session")
def authority():
    """Who vouches for webhooks."""
    return make_authority()


@pytest.fixture
def hooks(authority):
    with serving() as server:
        made = AdmissionHooks(server, authority)
        yield made
        made.close()


@pytest.fixture
def kubectl(tmp_path):
    with listening() as server:
        yield Kubectl(server, tmp_path)
