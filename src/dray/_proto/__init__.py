"""Messages and services of the kubelet's gRPC protocols: `kubelet.proto`, and what is made of it."""
