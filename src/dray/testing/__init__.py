"""Test kit: clusters in process, kubelet double, pytest fixtures, builders of objects, conformance runner."""
