"""Messages and services of the kubelet's gRPC protocols: the `.proto` files, and what is made of them."""
