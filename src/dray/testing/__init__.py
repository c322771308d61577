"""What others test with: the conformance runner, and later the pytest fixture and the kubelet test double."""
