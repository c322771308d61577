"""The kubelet's role on a node: plugin registration, claims prepared through drivers, device health, pod resources."""
