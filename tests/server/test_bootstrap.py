"""Config maps that programs of Kubernetes look for when they start."""

from __future__ import annotations

import json
import ssl
import urllib.request
from typing import Any

from cryptography import x509

from dray.server.security.certificates import client_context
from tests.server.process import listening

MAPS = "/api/v1/namespaces/kube-system/configmaps"
AUTHENTICATION = f"{MAPS}/extension-apiserver-authentication"
PEM = "requestheader-client-ca-file"


def ask(server: Any, path: str, *, admin: bool = True, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    authority = server.context.security.authority
    context: ssl.SSLContext = client_context(authority.certificate, authority.admin() if admin else None)
    request = urllib.request.Request(f"{server.url}{path}", headers=headers or {})
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_front_proxy_has_an_authority_whose_key_nobody_has() -> None:
    with listening(plain=False) as server:
        data = ask(server, AUTHENTICATION)[1]["data"]
        authority = x509.load_pem_x509_certificate(data[PEM].encode())
        clients = x509.load_pem_x509_certificate(data["client-ca-file"].encode())
        assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        assert authority.public_key() != clients.public_key()
        assert json.loads(data["requestheader-username-headers"]) == ["X-Remote-User"]
        assert json.loads(data["requestheader-allowed-names"]) == ["front-proxy-client"]
        names = {"X-Remote-User": "kubernetes-admin", "X-Remote-Group": "system:masters"}
        assert ask(server, "/api/v1/secrets", admin=False, headers=names)[0] == 401


def test_the_day_from_which_legacy_tokens_are_tracked_is_told() -> None:
    with listening(plain=False) as server:
        code, found = ask(server, f"{MAPS}/kube-apiserver-legacy-service-account-token-tracking")
        assert code == 200
        assert found["data"] == {"since": found["metadata"]["creationTimestamp"][:10]}
