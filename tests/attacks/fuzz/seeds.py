"""Valid objects of every kind that is served, rich enough for mutations to reach what reads them.

They refer to each other by the names that `values` gives: pods name claims, claims name classes, slices name nodes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from dray.api.catalogue import find

_DOCUMENTS = (Path(__file__).parent / "seeds.yaml").read_text()
OTHERS = {
    "SubjectAccessReview": "subjectaccessreviews",
    "SelfSubjectAccessReview": "selfsubjectaccessreviews",
    "SelfSubjectRulesReview": "selfsubjectrulesreviews",
    "TokenReview": "tokenreviews",
    "Thing": "things",
}


def documents(folder: Path | None = None) -> list[dict[str, Any]]:
    """Objects to start from, and those in the manifests of a folder."""
    found = list(yaml.safe_load_all(_DOCUMENTS))
    for file in sorted(folder.rglob("*.yaml")) if folder else ():
        found += [each for each in yaml.safe_load_all(file.read_text()) if each]
    known = [each for each in found if find(each["apiVersion"], each["kind"]) or each["kind"] in OTHERS]
    # Aliases in YAML are one object in several places.
    return [json.loads(json.dumps(each)) for each in known]
