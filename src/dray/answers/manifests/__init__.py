"""Manifests: reads files, text and objects, and checks them as an API server would."""
