"""Dynamic admission: policies and webhooks that users bring.

`registry` keeps them compiled and finds those that a write concerns, `matching` says which those are, `policies` and
`mutations` run expressions, `webhooks` asks others.
"""
