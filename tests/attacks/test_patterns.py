"""Regular expressions that are short and compile for long, in every place where a client may give one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.attacks.cluster import LAB, READYZ, Cluster, TooSlow, retried, started, withstands
from tests.attacks.observer import Probe
from tests.attacks.test_costs import RESOURCE, hard_nodes, wanting
from tests.attacks.test_objects import CLAIMS

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
THINGS = "/apis/example.com/v1/namespaces/default/things"
# Each becomes 120,000 instructions and takes about 30 ms.
LETTERS = r"[\p{L}]{1,100}"
ESCAPED_BACKSLASH, ESCAPED_BRACE = r"\u005c", r"\u007b"
CLIENTS, CLAIMS_EACH = 24, 3


def selector(first: int, number: int) -> dict[str, Any]:
    """Tries different patterns on the driver of a device."""
    letters = LETTERS.replace("\\", "\\\\")
    tries = [f'device.driver.matches("{letters}{index}y{first}")' for index in range(first, first + number)]
    return {"cel": {"expression": " || ".join(tries)}}


def disguised(client: int, number: int) -> dict[str, Any]:
    """Four patterns that no other claim has, with their special characters written as escapes of CEL."""
    letters = LETTERS.replace("\\", ESCAPED_BACKSLASH).replace("{", ESCAPED_BRACE)
    tries = [f'device.driver.matches("{letters}{client}x{number}x{index}")' for index in range(4)]
    return {"cel": {"expression": " || ".join(tries)}}


def devices(*selectors: dict[str, Any]) -> dict[str, Any]:
    return {"requests": [{"name": "q", "exactly": {"deviceClassName": "hard", "selectors": list(selectors)}}]}


def claims_that_compile_for_long(cluster: Cluster) -> None:
    for number in range(3):
        spec = {"devices": devices(*(selector(1000 * number + 100 * index, 60) for index in range(3)))}
        claim = {"apiVersion": RESOURCE, "kind": "ResourceClaim", "metadata": {"name": "long"}, "spec": spec}
        answer = cluster.request("POST", f"{CLAIMS}?dryRun=All", claim)
        assert answer.status == 422
        assert "too large together" in answer.body.decode()
    # As much as a claim may have, in claims that the scheduler reads again and again.
    for number in range(4):
        wanting(cluster, f"patterns-{number}", devices(selector(10_000 + 100 * number, 4)))
    computed = 'device.driver.matches("[a-z.]{900}" + device.attributes["hard.example.com"].uuid)'
    wanting(cluster, "computed", devices({"cel": {"expression": computed}}))


def definition(plural: str, patterns: list[str]) -> dict[str, Any]:
    properties = {f"p{number}": {"type": "string", "pattern": pattern} for number, pattern in enumerate(patterns)}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].title()}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    metadata = {"name": f"{plural}.example.com"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def definitions_that_compile_for_long(cluster: Cluster) -> None:
    refused = definition("others", [f"{LETTERS}{number}" for number in range(1000)])
    answer = cluster.request("POST", DEFINITIONS, refused)
    assert answer.status == 422
    assert "too large together" in answer.body.decode()
    cluster.create(DEFINITIONS, definition("things", [f"{LETTERS}{number}" for number in range(8)]))
    for number in range(5):
        values = {f"p{index}": f"abc{index}" for index in range(8)}
        thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": f"t{number}"}, "spec": values}
        cluster.create(THINGS, thing)


def policies_that_compile_for_long(cluster: Cluster) -> None:
    letters = LETTERS.replace("\\", "\\\\")
    conditions = [{"expression": f'object.metadata.name.matches("{letters}{number}") || true'} for number in range(100)]
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": conditions}
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
    answer = cluster.request("POST", POLICIES, {**kind, "metadata": {"name": "long"}, "spec": spec})
    assert answer.status == 422
    assert "too large together" in answer.body.decode()


def test_patterns_that_compile_for_long(tmp_path: Path) -> None:
    def attack(cluster: Cluster) -> None:
        hard_nodes(cluster)
        claims_that_compile_for_long(cluster)
        definitions_that_compile_for_long(cluster)
        policies_that_compile_for_long(cluster)

    withstands(tmp_path, attack, settle=2.0)


def test_patterns_in_disguise_that_many_clients_send_at_once(tmp_path: Path) -> None:
    """Whoever looks at the text of a selector alone does not see that it takes long to compile."""

    def send(cluster: Cluster, client: int) -> None:
        for number in range(CLAIMS_EACH):
            spec = {"devices": devices(disguised(client, number))}
            claim = {"apiVersion": RESOURCE, "kind": "ResourceClaim", "metadata": {"name": "long"}, "spec": spec}
            answer = cluster.request("POST", f"{CLAIMS}?dryRun=All", claim, timeout=120)
            assert answer.status == 201, answer.body[:500]

    def attempt(folder: Path) -> None:
        with started(folder, LAB) as cluster:
            probe = Probe(cluster.url, cluster.pid)
            try:
                with ThreadPoolExecutor(CLIENTS) as clients:
                    list(clients.map(lambda client: send(cluster, client), range(CLIENTS)))
            finally:
                seen = probe.stop()
            assert cluster.alive
            assert seen.measured
            assert not seen.failures, seen
            if seen.longest > READYZ:
                raise TooSlow(f"/livez and /readyz: {seen}")

    retried(tmp_path, attempt)
