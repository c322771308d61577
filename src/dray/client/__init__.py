"""The API as the other parts use it: requests, watches, informers and work queues; over HTTP or in process."""
