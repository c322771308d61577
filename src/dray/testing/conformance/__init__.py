"""Questions that Kubernetes answered once, asked again: `python -m dray.testing.conformance MODE FILE…`."""
