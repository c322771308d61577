"""Try: a manifest is checked and planned as it is typed, and submitted with the rights of the viewer."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from dray.answers.explaining.pod_progress import has_started, waits_for
from dray.api.objects import Object, controller_of, is_deleting, key_of
from dray.api.pods import claims_used, extended_claim, node_of, phase_of
from dray.api.resource_claims import results_of
from dray.web.submitting import apply as apply_text
from dray.web.submitting import bounded
from dray.web.view import BadCall, Call, Question, View

_EXAMPLES: Final = "page"
_PLAN_SECONDS: Final = 8.0
_MOST_PODS: Final = 200


def derive(question: Question) -> Object:
    """The pods of what was submitted: `of` has `Kind/namespace/name`, separated by commas."""
    wanted = set(filter(None, question.query.get("of", "").split(",")))
    pods = [pod for pod in question.objects("pods") if _belongs(pod, wanted)] if wanted else []
    return {
        "pods": {"/".join(key_of(pod)): _row(question, pod) for pod in sorted(pods, key=key_of)[:_MOST_PODS]},
        "left_off": max(0, len(pods) - _MOST_PODS),
    }


def _belongs(pod: Object, wanted: Collection[str]) -> bool:
    namespace, name = key_of(pod)
    if f"Pod/{namespace}/{name}" in wanted:
        return True
    owner = controller_of(pod)
    if owner is None:
        return False
    kind, title = str(owner.get("kind")), str(owner.get("name"))
    # A Deployment makes ReplicaSets and a CronJob Jobs, with a suffix each.
    above = {"ReplicaSet": "Deployment", "Job": "CronJob"}.get(kind, "")
    return f"{kind}/{namespace}/{title}" in wanted or f"{above}/{namespace}/{title.rpartition('-')[0]}" in wanted


def _row(question: Question, pod: Object) -> Object:
    waits = not has_started(pod)
    return {
        "phase": "Deleting" if is_deleting(pod) else phase_of(pod) or "Pending",
        "node": node_of(pod),
        "waits": waits and not is_deleting(pod),
        "reason": waits_for(pod).removeprefix("waiting: ") if waits else "",
        "devices": list(_devices(question, pod)),
    }


def _devices(question: Question, pod: Object) -> Iterator[str]:
    namespace = key_of(pod)[0]
    for name in filter(None, (*(name for _, name in claims_used(pod)), extended_claim(pod))):
        claim = question.get("claims", name, namespace=namespace)
        for result in results_of(claim) if claim is not None else ():
            yield str(result.get("device"))


def _namespace(call: Call) -> str:
    return call.text("namespace", "") or "default"


async def check(call: Call) -> Any:
    """Findings of `dray lint` and the plan of `dray plan` for the text `manifest`."""
    manifest = bounded(call.text("manifest"))
    arguments = {"manifest": manifest, "namespace": _namespace(call), "seconds": _PLAN_SECONDS}
    return await call.desk.ask(call.identity, "check", arguments)


async def apply(call: Call) -> Any:
    """Submits the text `manifest`; with `dryRun`, the server checks all of it and stores nothing."""
    dry_run = call.body.get("dryRun")
    if not isinstance(dry_run, bool):
        raise BadCall("dryRun must be true or false")
    return {"objects": await apply_text(call.client, call.text("manifest"), _namespace(call), dry_run=dry_run)}


async def examples(call: Call) -> Any:
    place = call.question.services.examples
    return {"examples": _examples(place) if place is not None else []}


@cache
def _examples(place: Path) -> list[Object]:
    """The manifests of the page; the first line of each is a comment that says what it is."""
    found = []
    for path in sorted((place / _EXAMPLES).glob("*.yaml")):
        text = path.read_text()
        title = path.stem.partition("-")[2].replace("-", " ").replace("gpu", "GPU")
        about = text.partition("\n")[0].removeprefix("# ")
        found.append({"name": path.stem, "title": title[:1].upper() + title[1:], "about": about, "text": text})
    return found


VIEW: Final = View(
    "try",
    ("pods", "claims"),
    derive,
    calls={"check": check, "apply": apply, "examples": examples},
    parameters=("of",),
    interval=0.5,
)
