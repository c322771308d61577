"""Lint rules: mistakes in manifests that an API server accepts."""
