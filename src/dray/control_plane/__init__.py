"""The control plane: scheduler and controllers on one connection to an API server, sharing what they watch.

`plane` is the whole of it, `child` the process it runs in beside a server of ours; the process of the server imports
only the latter.
"""
