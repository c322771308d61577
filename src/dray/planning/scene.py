"""Scene: the objects of a cluster, the objects that are to be added to it, and the time. A scene is never changed.

Objects are listed by the kind under which the scheduler receives them. `made_claims` adds the claims that a controller
would make from the templates of pods and groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from dray.api.objects import Key, Object, key_of, status_of
from dray.api.pods import claim_entries, group_name, has_entry, node_of
from dray.api.suggestions import did_you_mean
from dray.controllers.claims.owners import GROUP, POD, OwnerKind, new_claim
from dray.planning.daemons import daemon_pods
from dray.planning.rollout import Rollout

Objects = Mapping[str, Sequence[Object]]
"""Objects by the kind under which the scheduler receives them."""

_BYPASSES: Final = "spec.nodeName bypasses the scheduler, so that its claims get no devices; use a nodeSelector instead"


@dataclass(frozen=True, slots=True)
class Scene:
    cluster: Objects
    wanted: Objects = field(default_factory=dict)
    """The objects to add: pods with a uid, their claims, templates, groups and queues."""
    now: float = 0.0
    evicted: Mapping[Key, str] = field(default_factory=dict)
    """Pods that leave their node before anything else, and why."""
    leaving: Mapping[Key, str] = field(default_factory=dict)
    """Pods that their controllers delete as soon as the wanted objects are there, and why."""
    rollouts: Sequence[Rollout] = ()
    """Wanted pods that replace others step by step."""
    refused: Mapping[Key, str] = field(default_factory=dict)
    """Wanted pods that the API server would refuse, and why."""

    def of(self, kind: str) -> list[Object]:
        """Returns the objects of a kind in the cluster and among those to be added; the latter replace others."""
        found = {key_of(each): each for each in (*self.cluster.get(kind, ()), *self.wanted.get(kind, ()))}
        return list(found.values())

    def with_cluster(self, **kinds: Sequence[Object]) -> Scene:
        return replace(self, cluster={**self.cluster, **kinds})

    def with_wanted(self, **kinds: Sequence[Object]) -> Scene:
        return replace(self, wanted={**self.wanted, **kinds})


@dataclass(slots=True)
class Made:
    """Pods and groups with the names of their claims, the claims, and what is missing for some pods."""

    pods: list[Object] = field(default_factory=list)
    groups: list[Object] = field(default_factory=list)
    claims: list[Object] = field(default_factory=list)
    missing: dict[Key, str] = field(default_factory=dict)


def made_claims(scene: Scene) -> Made:
    """Returns the wanted pods and native PodGroups as they are once all claims are made from templates."""
    made = Made(missing=dict(scene.refused))
    templates = {key_of(each): each for each in scene.of("ResourceClaimTemplate")}
    named = any(entry.get("resourceClaimName") for pod in _owners(scene) for entry in claim_entries(pod))
    # Lists of a large cluster are gone through only if somebody asks for them.
    claims = {key_of(each) for each in scene.of("ResourceClaim")} if named else set()
    for group in scene.wanted.get("PodGroup", ()):
        made.groups.append(_owner(GROUP, group, claims, templates, made, {}))
    groups = {key_of(each): each for each in (*scene.cluster.get("PodGroup", ()), *made.groups)}
    pods = list(_wanted_pods(scene))
    there = {key_of(each) for each in scene.cluster.get("Pod", ())} if any(map(node_of, pods)) else set()
    for pod in pods:
        if node_of(pod) and claim_entries(pod) and key_of(pod) not in there:
            made.missing[key_of(pod)] = _BYPASSES
        shared = groups.get((key_of(pod)[0], group_name(pod)), {})
        made.pods.append(_owner(POD, pod, claims, templates, made, shared))
    return made


def _owners(scene: Scene) -> Iterator[Object]:
    """The wanted pods and groups, which may name claims."""
    return chain(scene.wanted.get("PodGroup", ()), _wanted_pods(scene))


def _wanted_pods(scene: Scene) -> Iterator[Object]:
    return chain(scene.wanted.get("Pod", ()), daemon_pods(scene))


def _owner(
    kind: OwnerKind, owner: Object, claims: set[Key], templates: Mapping[Key, Object], made: Made, group: Object
) -> Object:
    """Returns the pod or group with `resourceClaimStatuses`; adds its claims, or what is missing, to `made`."""
    namespace, names = key_of(owner)[0], {}
    of_group = {
        each["name"]: each.get("resourceClaimName") for each in status_of(group).get("resourceClaimStatuses") or ()
    }
    known = {
        each["name"]: each.get("resourceClaimName") for each in status_of(owner).get("resourceClaimStatuses") or ()
    }
    for entry in claim_entries(owner):
        template_name, name = entry.get("resourceClaimTemplateName"), entry["name"]
        if not template_name:
            if (key := (namespace, str(entry.get("resourceClaimName")))) not in claims:
                made.missing[key_of(owner)] = _not_found("ResourceClaim", key, claims)
            continue
        if name in known:
            # The pod is in the cluster already, and has its claims.
            names[name] = known[name]
            continue
        if has_entry(group, entry):
            names[name] = of_group.get(name)
            continue
        template = templates.get((namespace, template_name))
        if template is None:
            made.missing[key_of(owner)] = _not_found("ResourceClaimTemplate", (namespace, template_name), templates)
            continue
        claim = new_claim(kind, owner, name, template, "")
        claim["metadata"]["uid"] = f"claim/{owner['metadata']['uid']}/{name}"
        made.claims.append(claim)
        names[name] = claim["metadata"]["name"]
    if not names:
        return owner
    statuses = [{"name": entry, "resourceClaimName": name} for entry, name in names.items()]
    return {**owner, "status": {**status_of(owner), "resourceClaimStatuses": statuses}}


def _not_found(kind: str, key: Key, known: Iterable[Key]) -> str:
    similar = did_you_mean(key[1], (name for namespace, name in known if namespace == key[0]))
    return f"{kind} {'/'.join(key)} not found{f'; {similar}' if similar else ''}"
