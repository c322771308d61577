"""The catalogue: how kinds are found, and what it says of them."""

from dray.api import catalogue


def test_kinds_are_found_by_object_and_by_path():
    claim = catalogue.find("resource.k8s.io/v1beta1", "ResourceClaim")
    assert claim is not None
    assert claim == catalogue.find_plural("resource.k8s.io", "v1beta1", "resourceclaims")
    assert (claim.api_version, claim.namespaced, claim.entry.storage) == ("resource.k8s.io/v1beta1", True, "v1")
    assert claim.entry.qualified == "resourceclaims.resource.k8s.io"
    assert catalogue.find("v1", "Pod").entry.qualified == "pods"


def test_what_is_not_there_is_none():
    assert catalogue.find("resource.k8s.io/v1alpha2", "ResourceClaim") is None
    assert catalogue.find("resource.k8s.io/v1beta1", "DeviceTaintRule") is None
    assert catalogue.find("", "") is None
    assert catalogue.find_plural("", "v1", "deployments") is None


def test_old_versions_warn_and_current_ones_do_not():
    assert catalogue.find("resource.k8s.io/v1beta1", "ResourceClaim").deprecated == (
        "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+"
    )
    assert catalogue.find("resource.k8s.io/v1", "ResourceClaim").deprecated is None
    assert catalogue.find("resource.k8s.io/v1beta2", "DeviceTaintRule").deprecated is None


def test_plurals_and_short_names_are_unique():
    plurals = [(kind.group, kind.plural) for kind in catalogue.KINDS]
    # Events are served by two groups under one name.
    shorts = [name for kind in catalogue.KINDS if kind.group != "events.k8s.io" for name in kind.short_names]
    assert len(set(plurals)) == len(plurals)
    assert len(set(shorts)) == len(shorts)


def test_the_storage_version_is_one_of_the_versions():
    assert all(kind.version(kind.storage) for kind in catalogue.KINDS)
