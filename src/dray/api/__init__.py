"""The objects of Dynamic Resource Allocation, as Kubernetes 1.37 defines them: pure, no I/O."""
