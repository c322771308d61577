"""Kubelets: how the server reaches the API of a node's agent, for what only a node can answer."""
