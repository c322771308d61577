"""Joining of a machine to a cluster: its own certificates, got with a token once and kept up to date from then on.

membership      what the machine keeps: server, authority, its certificates with their keys
requests        a CertificateSigningRequest, until there is a certificate
joining         from an invitation to a membership
driver_rights   what the drivers in the agent may do that no node may
renewal         the next certificate, long before the present one ends
"""
