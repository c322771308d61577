"""Test kit: clusters in process, the pytest fixture, builders of objects, the conformance runner."""
