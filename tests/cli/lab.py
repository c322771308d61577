"""A node with GPUs, and claims and pods for it, as YAML."""

from __future__ import annotations

CLASS = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}
---
"""


def node(name: str, status: str = "", spec: str = "") -> str:
    return f"""\
apiVersion: v1
kind: Node
metadata: {{name: {name}}}
{f"spec: {spec}" if spec else ""}
{f"status: {status}" if status else ""}
---
"""


def gpus(node_name: str, number: int) -> str:
    devices = ", ".join(f"{{name: gpu-{each}}}" for each in range(number))
    return f"""\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: {node_name}}}
spec:
  driver: gpu.example.com
  nodeName: {node_name}
  pool: {{name: {node_name}, generation: 1, resourceSliceCount: 1}}
  devices: [{devices}]
---
"""


def claim(name: str, count: int = 1) -> str:
    return f"""\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}}}
spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu, count: {count}}}}}]}}}}
---
"""


def template(name: str) -> str:
    return f"""\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: {name}}}
spec: {{spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu}}}}]}}}}}}
---
"""


def pod(name: str, source: str = "", **spec: str) -> str:
    """`source`: resourceClaimName: NAME, or resourceClaimTemplateName: NAME."""
    members = "\n".join(f"  {key}: {value}" for key, value in spec.items())
    claims = f"  resourceClaims: [{{name: devices, {source}}}]" if source else ""
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
{members}
{claims}
  containers:
  - {{name: c, image: i}}
---
"""
