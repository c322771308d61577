"""The control plane: scheduler and controllers on one connection to an API server, sharing what they watch.

`control_plane` composes it, `child` is the process it runs in beside the embedded server; the process of the server
imports only the latter.
"""
