"""Other viewers and hostile content in a browser: a user with few rights, markup in attributes, and `dray ui`."""

from __future__ import annotations

import base64
import json
import re
import time
from pathlib import Path

from selenium.webdriver.common.keys import Keys

from tests.cli.running import running
from tests.web.browser import PATIENCE, Browser, PageCluster, needs_browser
from tests.web.test_cluster_browser import GPUS, apply

pytestmark = needs_browser

MARKUP = "<img src=x onerror=document.title='owned'>"
SLICE = f"""
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: hostile}}
spec:
  driver: hostile.example.com
  nodeName: dgx-h100-0
  pool: {{name: hostile, generation: 1, resourceSliceCount: 1}}
  devices:
  - name: hostile
    attributes: {{model: {{string: "{MARKUP}"}}}}
"""


FEW = """
apiVersion: v1
kind: Namespace
metadata: {name: few}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: viewer, namespace: few}
---
apiVersion: v1
kind: Secret
type: kubernetes.io/service-account-token
metadata: {name: viewer, namespace: few, annotations: {kubernetes.io/service-account.name: viewer}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: machines}
rules:
- {apiGroups: ["", resource.k8s.io], resources: [nodes, resourceslices], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: machines}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: machines}
subjects: [{kind: ServiceAccount, name: viewer, namespace: few}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: viewer, namespace: few}
rules:
- {apiGroups: ["", resource.k8s.io], resources: [pods, resourceclaims], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewer, namespace: few}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: viewer}
subjects: [{kind: ServiceAccount, name: viewer, namespace: few}]
"""
"""A viewer who sees machines, and what is in one namespace."""


def sign_in(browser: Browser, page: str, code: str) -> None:
    browser.driver.delete_all_cookies()
    browser.open(page)
    browser.find("#credential").send_keys(code, Keys.ENTER)
    browser.until_text("Live")


def test_markup_in_attributes_stays_text(browser: Browser, cluster: PageCluster) -> None:
    cluster.dray("apply", "-f", "-", stdin=SLICE)
    cluster.sign_in(browser, "/cluster?colour=model")
    browser.until_text(MARKUP, ".legend")
    browser.open(f"{cluster.page}/cluster?node=dgx-h100-0&device=hostile&show=list&q=hostile")
    browser.until_text("hostile.example.com", ".details")
    assert MARKUP in browser.text("main")
    assert browser.run("return document.querySelectorAll('img[src=x]').length") == 0
    assert "owned" not in browser.driver.title


def test_a_viewer_sees_the_claims_that_they_may_list_alone(browser: Browser, cluster: PageCluster) -> None:
    cluster.dray("apply", "-f", "-", stdin=FEW)
    apply(cluster, "secret", 1)
    cluster.dray("apply", "--namespace", "few", "-f", "-", stdin=GPUS.format(name="mine", count=1))
    sign_in(browser, f"{cluster.page}/cluster?show=list", token_of(cluster))
    browser.until_text("few/mine", "table")
    shown = browser.text()
    assert "system:serviceaccount:few:viewer" in shown
    assert "you do not see all claims" in shown
    assert "free or held by others" in shown
    assert "secret" not in shown


def token_of(cluster: PageCluster) -> str:
    def look() -> str:
        secret = json.loads(cluster.dray("get", "secret", "viewer", "--namespace", "few", "-o", "json"))
        return str((secret.get("data") or {}).get("token") or "")

    end = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < end, "no token in the Secret"
        time.sleep(0.2)
    return base64.b64decode(found).decode()


def test_dray_ui_serves_the_page_with_the_rights_of_a_kubeconfig(
    browser: Browser, cluster: PageCluster, tmp_path: Path
) -> None:
    with running("ui", "--port", "0", "--kubeconfig", str(cluster.kubeconfig), cwd=tmp_path) as process:
        where = re.fullmatch(r"page of kubernetes-admin at (http://127\.0\.0\.1:\d+/ui)", process.line())
        code = re.match(r"sign-in code: (\S+) \(good once, for 10 minutes\)", process.line())
        assert where
        assert code
        sign_in(browser, where[1], code[1])
        browser.find("canvas.cluster-map")
        # The code was for one viewer.
        browser.driver.delete_all_cookies()
        browser.open(where[1])
        browser.find("#credential").send_keys(code[1], Keys.ENTER)
        browser.until_text("is not valid", ".failure")
        status, _ = process.stop()
        assert status == 0
