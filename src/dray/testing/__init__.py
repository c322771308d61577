"""Test kit: clusters in process, the kubelet double, the pytest fixtures, builders of objects, the conformance runner."""
