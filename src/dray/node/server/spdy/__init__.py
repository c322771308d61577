"""SPDY/3.1, as much of it as kubectl's port-forward speaks: streams of bytes that share one connection."""
