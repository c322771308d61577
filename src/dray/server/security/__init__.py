"""Security of the embedded API server: certificates, authentication, authorization, audit.

`composition.Security` is the whole of it for one server; every other module is one part and can be read by itself:

    authority, certificates, tls, peer          who the server is, and who a certificate says a client is
    jwt, service_account_tokens, token_requests tokens of service accounts
    bootstrap_tokens                            tokens of machines that join
    credentials, authentication, impersonation, loopback, guard
                                                from a request to a user
    rules, policy, rbac, escalation, builtin_*  role-based access control
    node_authorizer, node_restriction           a node and what is its own
    claim_status                                who may write which part of a claim's status
    access_reviews                              questions about all that
    audit_events, audit_log                     what was done, and by whom
    kubeconfig                                  how clients get in
"""
