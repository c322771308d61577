"""The Kubernetes client: requests, watches, informers and work queues, over HTTP, a socket pair or in process."""
