"""The embedded API server: a Kubernetes API as a plain ASGI application over a store."""
