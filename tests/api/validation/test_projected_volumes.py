"""Projected volumes of pods: each source has its rules, and paths do not collide."""

import pytest

from dray.api.validation.projected_volumes import validate

CERTIFICATE = {"signerName": "example.com/pods", "keyType": "ED25519", "credentialBundlePath": "bundle.pem"}
BUNDLE = {"name": "roots", "path": "roots.pem"}


def problems(*sources, **members):
    return [str(each) for each in validate({"sources": list(sources), **members}, "p")]


def test_what_is_good():
    assert not problems(
        {"podCertificate": {**CERTIFICATE, "maxExpirationSeconds": 3600}},
        {"clusterTrustBundle": BUNDLE},
        {"clusterTrustBundle": {"name": "example.com:pods:x", "path": "x"}},
        {"clusterTrustBundle": {"signerName": "example.com/pods", "path": "y"}},
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
        {"configMap": {"name": "c", "items": [{"key": "k", "path": "a/b", "mode": 0o400}]}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    )


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            {"podCertificate": {**CERTIFICATE, "maxExpirationSeconds": 3599}},
            "if provided, maxExpirationSeconds must be >= 3600",
        ),
        (
            {"podCertificate": {**CERTIFICATE, "maxExpirationSeconds": 9999999}},
            "maxExpirationSeconds must be <= 7862400",
        ),
        (
            {"podCertificate": {**CERTIFICATE, "signerName": "kubernetes.io/x", "maxExpirationSeconds": 86401}},
            "maxExpirationSeconds must be <= 86400",
        ),
        ({"podCertificate": {**CERTIFICATE, "keyType": "DSA"}}, "p.sources[0].podCertificate.keyType"),
        (
            {"podCertificate": {**CERTIFICATE, "credentialBundlePath": ""}},
            "specify at least one of credentialBundlePath",
        ),
        ({"podCertificate": {**CERTIFICATE, "keyPath": "bundle.pem"}}, "conflicting duplicate paths"),
        ({"clusterTrustBundle": {"path": "x"}}, "either name or signerName must be specified"),
        ({"clusterTrustBundle": {**BUNDLE, "name": "a:b"}}, "not a valid clustertrustbundlename"),
        ({"clusterTrustBundle": {**BUNDLE, "path": "/x"}}, "must be a relative path"),
        ({"serviceAccountToken": {"path": "t", "expirationSeconds": 1}}, "less than 10 minutes"),
        ({"secret": {"name": "s", "items": [{"key": "k", "path": "../x"}]}}, "must not contain '..'"),
        ({"secret": {"name": "s"}, "configMap": {"name": "c"}}, "may not specify more than 1 volume type per source"),
    ],
)
def test_what_is_not(source, why):
    assert any(why in each for each in problems(source)), problems(source)
