"""Findings about manifests: what an API server would reject, and mistakes that it would accept."""
