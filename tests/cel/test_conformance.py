"""The corpora, and what is promised about them."""

from pathlib import Path

import pytest

from dray.testing.conformance import api, cel, corpus

DATA = Path(__file__).parents[1] / "conformance"


def outcomes(name, run):
    return [run(case) for case in corpus.read(DATA / f"{name}.jsonl.gz")]


def test_cel():
    found = outcomes("cel", cel.run)
    assert [one for one in found if one.difference and not one.waiting] == []
    # What waits differs in nothing but a cost that depends on the order of a Go map.
    assert sum(one.waiting for one in found) <= len(found) * 0.02


def test_cel_spec():
    found = outcomes("cel-spec", cel.run_spec)
    assert [one for one in found if one.difference and not one.waiting] == []


def test_exclusions_are_few_and_have_reasons():
    known = {case["name"] for case in corpus.read(DATA / "cel-spec.jsonl.gz")}
    assert len(cel.exclusions()) <= 60
    assert all(name in known and reason for name, reason in cel.exclusions().items())


@pytest.mark.parametrize("field", ["cel.expression", "derivedAttributes"])
def test_what_the_api_refuses(field):
    """Cases of the `api` corpus whose answer hangs on an expression."""
    cases = [
        case
        for case in corpus.read(DATA / "api.jsonl.gz")
        if any(field in cause[0] for cause in case["expect"].get("causes") or [])
    ]
    assert len(cases) > 10
    assert [one for one in (api.run(case) for case in cases) if one.difference] == []
