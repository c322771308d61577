"""Controllers: each reconciles one kind of thing through the API of any Kubernetes server.

`environment` is what they are given, `registry` their names.
"""
