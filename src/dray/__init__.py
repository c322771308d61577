"""dray: Dynamic Resource Allocation, the Kubernetes API for claiming devices, in Python."""
