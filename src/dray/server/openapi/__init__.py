"""OpenAPI: what `/openapi/v2` and `/openapi/v3` say about the kinds, made from the types that requests are read with.

`kubectl` reads from it what a field is (`explain`), how lists are merged (`apply`) and that the server checks fields
itself (`--validate`). schemas.py has the built-in types, custom.py those of definitions, operations.py the paths;
documents.py puts them together for a group version, swagger.py makes version 2 of it, messages.py writes both in
protobuf, and service.py keeps and serves them.
"""
