"""Devices as the cluster view draws them: what a node has (`layouts`), and what is held of it (`holdings`)."""
