"""Node server: the kubelet's API on a node, which the API server asks for logs, commands, ports and usage."""
