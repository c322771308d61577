"""Conformance runner: replays recorded requests and compares the answers with those of Kubernetes.

python -m dray.testing.conformance MODE FILE…"""
