"""CertificateSigningRequests of nodes: those that may be are approved, and old ones are deleted.

The certificates are made by whoever has the authority's key: in `dray` the server.
"""
