"""Bodies in Kubernetes' protobuf envelope, for the kinds that typed clients post that way."""
