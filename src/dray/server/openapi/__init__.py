"""OpenAPI: what `/openapi/v3` says about the kinds, made from the same types that requests are read with.

One document for each group version, made when first asked for. `kubectl` reads from it what a field is (`explain`),
how lists are merged (`apply`) and that the server checks fields itself (`--validate`).
"""
