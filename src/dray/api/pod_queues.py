"""What a pod says of its queue and group, in the labels and annotations of Kueue, KAI and the coscheduling plugin.

A pod on a node is charged to the queue that it was admitted to, so these words do not count any more if they change
then. The scheduler records them in an annotation of the pod when it binds the pod, with the queues that it charges, so
that a scheduler that is started later finds them. The record names the uid of the pod: nobody can write it beforehand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from dray.api.objects import Object, annotations_of, labels_of, mapping, uid_of

LABELS: Final = (
    "kueue.x-k8s.io/queue-name",
    "kueue.x-k8s.io/pod-group-name",
    "kai.scheduler/queue",
    "kai.scheduler/preemptibility",
    "scheduling.x-k8s.io/pod-group",
)
ANNOTATIONS: Final = ("pod-group-name",)
RECORD: Final = "dray.dev/admission"
_LONGEST: Final = 4096


@dataclass(frozen=True, slots=True)
class Words:
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.labels or self.annotations)


@dataclass(frozen=True, slots=True)
class Admission:
    words: Words
    queues: Mapping[str, str]
    """The queue that the pod is charged to, by the label of its front end."""


def words_of(pod: Object) -> Words:
    labels, annotations = labels_of(pod), annotations_of(pod)
    return Words(
        {name: labels[name] for name in LABELS if name in labels},
        {name: annotations[name] for name in ANNOTATIONS if name in annotations},
    )


def with_words(pod: Object, words: Words) -> Object:
    """The pod as if it said these words and no others of its queue and group; the same object where it does."""
    if words_of(pod) == words:
        return pod
    metadata = mapping(pod.get("metadata"))
    labels = {name: value for name, value in labels_of(pod).items() if name not in LABELS}
    annotations = {name: value for name, value in annotations_of(pod).items() if name not in ANNOTATIONS}
    said = {"labels": {**labels, **words.labels}, "annotations": {**annotations, **words.annotations}}
    return {**pod, "metadata": {**metadata, **said}}


def record(pod: Object, queues: Mapping[str, str]) -> str:
    """The annotation for a pod that is admitted."""
    words = words_of(pod)
    content = {
        "uid": uid_of(pod),
        "queues": dict(queues),
        "labels": dict(words.labels),
        "annotations": dict(words.annotations),
    }
    return json.dumps(content, separators=(",", ":"))


def recorded(pod: Object) -> Admission | None:
    """Reads the annotation of a pod; returns None if there is none, or if it was not written for this pod."""
    text = annotations_of(pod).get(RECORD)
    if not isinstance(text, str) or not text or len(text) > _LONGEST:
        return None
    try:
        content = mapping(json.loads(text))
    except (ValueError, RecursionError):
        return None
    if not content or content.get("uid") != uid_of(pod):
        return None
    labels, annotations = _strings(content.get("labels")), _strings(content.get("annotations"))
    words = Words(
        {name: labels[name] for name in LABELS if name in labels},
        {name: annotations[name] for name in ANNOTATIONS if name in annotations},
    )
    return Admission(words, _strings(content.get("queues")))


def changes(pod: Object, old: Object) -> Iterator[tuple[str, str]]:
    """The paths of the record that an update would change, and of words in a pod that said some of them; each with
    what the pod said."""
    is_admitted = bool(words_of(old) or annotations_of(old).get(RECORD))
    labels, annotations = (LABELS, (*ANNOTATIONS, RECORD)) if is_admitted else ((), (RECORD,))
    for member, names in (("labels", labels), ("annotations", annotations)):
        now, before = (mapping(mapping(version.get("metadata")).get(member)) for version in (pod, old))
        for name in names:
            if now.get(name) != before.get(name):
                yield f"metadata.{member}[{name}]", str(before.get(name) or "")


def _strings(value: object) -> dict[str, str]:
    return {key: text for key, text in mapping(value).items() if isinstance(text, str)}
