"""Kubernetes' protobuf: documents, as JSON has them, to messages and back, by the table of wire types.

An own codec and no protobuf runtime: documents are dictionaries on both sides, and messages of a runtime in between
would be built and taken apart again for each object; what Kubernetes makes of times, quantities and JSON schemas is in
no runtime either.
"""
