"""`allocate`: which devices the claims and pods of manifests would get, or why not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dray.allocation.nearness import alike
from dray.allocation.text import nodes_text, summary
from dray.answers.cluster import Cluster, Told
from dray.answers.explaining.explanation_trees import device_text
from dray.answers.explaining.explanations import claim_rows
from dray.answers.explaining.placement import ManifestCluster, Placement, read_cluster
from dray.answers.manifests.given import Manifests, read_given
from dray.answers.one_line import one_line
from dray.answers.policies import policy_of
from dray.answers.source import Source
from dray.api.objects import Object
from dray.api.resource_claims import allocation_results
from dray.snapshot.listing import listed


@dataclass(frozen=True, slots=True)
class Allocations:
    """The nodes and devices that the pods and claims of manifests get."""

    placements: Sequence[Placement]
    """One placement for each pod, and for each claim that no pod uses."""
    notes: Sequence[str]

    @property
    def fits(self) -> bool:
        """True if all pods and claims fit."""
        return all(placement.fits for placement in self.placements)

    @property
    def document(self) -> list[Object]:
        """The document that `dray allocate -o json` prints."""
        return [_placement_row(placement) for placement in self.placements]

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for placement in self.placements:
            place = f"on node {placement.node}" if placement.fits else "does not fit"
            yield f"{placement.wanted.title}: {place}"
            for line in _device_lines(placement) if placement.fits else _rejection_lines(placement):
                yield f"  {one_line(line)}"
        fitting = sum(placement.fits for placement in self.placements)
        yield f"{fitting} of {len(self.placements)} fit" if self.placements else "nothing to allocate"


def allocate(
    manifests: Manifests,
    cluster: Cluster | None = None,
    *,
    node: str = "",
    policy: str = "kubernetes",
    plugins: Sequence[str] = (),
) -> Allocations:
    """Returns which devices the claims and pods get. They are placed one after the other.

    Without a cluster, the manifests must have nodes and ResourceSlices. `node` limits the answer to this node. Raises
    InvalidInput if manifests are wrong, and ClientError if a server does not answer.
    """
    told, base = Told(), cluster.ask(listed_objects) if cluster is not None else {}
    answer = place_all(read_cluster(read_given(manifests), policy_of(policy), node, tuple(plugins), base, told.tell))
    return Allocations(answer.placements, (*answer.notes, *told.lines))


async def listed_objects(source: Source) -> dict[str, list[Object]]:
    """Returns the objects of a cluster to which manifests are added."""
    return (await listed(source.client)).objects


def place_all(cluster: ManifestCluster) -> Allocations:
    """Places all pods and claims of the manifests, one after the other."""
    return Allocations([cluster.place(wanted) for wanted in cluster.wanted], cluster.notes)


def _device_lines(placement: Placement) -> Iterator[str]:
    wanted = placement.wanted
    resources = {mapping["requestName"]: mapping["resourceName"] for mapping in placement.mappings}
    for (_, name), allocation in placement.allocations.items():
        for result in allocation_results(allocation):
            label = result["request"] if wanted.kind == "claim" else f"{name}, {result['request']}"
            if name == wanted.extended_claim_name:
                label = resources.get(result["request"], label)
            yield f"{label}: {device_text(result)}"


def _rejection_lines(placement: Placement) -> Iterator[str]:
    answers = placement.answers
    if answers is None:
        yield placement.wanted.missing
        return
    order = {rejection.node: number for number, rejection in enumerate(answers.rejections)}
    for group in sorted(alike(answers.rejections), key=lambda group: order[group[0].node]):
        yield f"{nodes_text([rejection.node for rejection in group])}: {summary(group[0])}"
    for names, details in answers.obstacles():
        yield f"{nodes_text(names)}: {'; '.join(details)}"
    if not answers.nodes:
        yield answers.conclusion()


def _placement_row(placement: Placement) -> Object:
    wanted = placement.wanted
    row: Object = {"kind": wanted.kind, "namespace": wanted.namespace, "name": wanted.name, "fits": placement.fits}
    if not placement.fits:
        return {**row, "reasons": list(_reasons(placement))}
    row["node"] = placement.node
    if placement.allocations:
        row["claims"] = claim_rows(placement.allocations.items())
    if placement.mappings:
        row["claims"][-1]["requestMappings"] = list(placement.mappings)
    return row


def _reasons(placement: Placement) -> Iterator[Object]:
    answers = placement.answers
    if answers is None or not answers.nodes:
        yield {"reason": placement.wanted.missing if answers is None else answers.conclusion()}
        return
    for rejection in answers.rejections:
        yield {"node": rejection.node, "reason": summary(rejection)}
    for names, details in answers.obstacles():
        yield from ({"node": name, "reason": "; ".join(details)} for name in names)
