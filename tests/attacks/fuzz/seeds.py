"""Valid objects of every kind that is served, rich enough for mutations to reach what reads them.

They refer to each other by the names that `values` gives: pods name claims, claims name classes, slices name nodes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from dray.api.catalogue import find

_DOCUMENTS = """
apiVersion: v1
kind: Node
metadata: {name: n-0, labels: {zone: a, num: "7", kubernetes.io/hostname: n-0}}
spec:
  taints: [{key: example.com/load, value: "5", effect: PreferNoSchedule}]
status:
  capacity: {cpu: "8", memory: 32Gi, pods: "50", example.com/widget: "3"}
  allocatable: {cpu: "8", memory: 32Gi, pods: "50", example.com/widget: "3"}
  conditions: [{type: Ready, status: "True"}]
  images: [{names: [x], sizeBytes: 500000000}]
---
apiVersion: v1
kind: Pod
metadata: {name: o-0, labels: {app: a}}
spec:
  containers:
  - name: c
    image: x
    resources: {requests: {cpu: 100m, memory: 10Mi}}
    ports: [{containerPort: 80, hostPort: 8080}]
---
apiVersion: v1
kind: Pod
metadata: {name: o-0, labels: {app: b}}
spec:
  schedulingGroup: {podGroupName: o-1}
  nodeSelector: {zone: a}
  tolerations: [{key: example.com/load, operator: Gt, value: "3", effect: NoSchedule}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: num, operator: Gt, values: ["3"]}]}]
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 5
        preference: {matchExpressions: [{key: zone, operator: In, values: [a, b]}]}
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 5
        podAffinityTerm: {labelSelector: {matchLabels: {app: a}}, topologyKey: zone}
    podAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 7
        podAffinityTerm: {labelSelector: {matchLabels: {app: b}}, topologyKey: kubernetes.io/hostname}
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: b}}}
  overhead: {cpu: 10m}
  runtimeClassName: heavy
  initContainers: [{name: i, image: x, resources: {requests: {cpu: 1}}}]
  containers: [{name: c, image: x, resources: {requests: {cpu: 100m}, limits: {cpu: 200m}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: o-0}
spec:
  priorityClassName: urgent
  resourceClaims: [{name: gpu, resourceClaimName: o-0}]
  containers: [{name: c, image: x, resources: {claims: [{name: gpu}]}}]
---
apiVersion: v1
kind: Pod
metadata: {name: o-0}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: o-0}, {name: more, resourceClaimTemplateName: o-1}]
  containers: [{name: c, image: x, resources: {claims: [{name: gpu, request: gpu}], requests: {cpu: 10m}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: o-0}
spec:
  nodeName: n-0
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: x, resources: {requests: {cpu: 10m}, limits: {example.com/widget: 1}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: o-0}
spec:
  devices:
    requests: [{name: gpu, exactly: {deviceClassName: gpu, count: 1}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: o-0}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu
        count: 2
        selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]
        tolerations: [{key: example.com/load, operator: Exists, effect: NoSchedule}]
        capacity: {requests: {memory: 10Gi}}
    - name: nic
      firstAvailable:
      - {name: fast, deviceClassName: nic, selectors: [{cel: {expression: "true"}}]}
      - {name: any, deviceClassName: o-0}
    constraints: [{requests: [gpu, nic], matchAttribute: resource.kubernetes.io/pcieRoot}]
    config: [{requests: [gpu], opaque: {driver: gpu.example.com, parameters: {a: 1}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: o-0}
spec:
  metadata: {labels: {app: a}}
  spec:
    devices:
      requests: [{name: gpu, exactly: {deviceClassName: shared-gpu, capacity: {requests: {memory: 1Gi}}}}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: o-0}
spec:
  selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]
  extendedResourceName: example.com/gpu
  config: [{opaque: {driver: gpu.example.com, parameters: {a: 1}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: o-0}
spec:
  driver: gpu.example.com
  nodeName: n-0
  pool: {name: n-0, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes:
      type: {string: gpu}
      model: {string: H100}
      num: {int: 4}
      version: {version: 1.2.3}
      resource.kubernetes.io/pcieRoot: {string: a}
    capacity: {memory: {value: 80Gi}}
    taints: [{key: example.com/load, effect: NoSchedule, value: "1"}]
  - name: gpu-1
    attributes: {type: {string: shared}, model: {string: A100}}
    allowMultipleAllocations: true
    capacity: {memory: {value: 80Gi, requestPolicy: {default: 1Gi, validRange: {min: 1Gi, step: 1Gi, max: 80Gi}}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: o-0}
spec:
  driver: gpu.example.com
  nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}
  pool: {name: far, generation: 1, resourceSliceCount: 2}
  devices:
  - name: gpu-0
    attributes: {type: {string: mig}}
    consumesCounters: [{counterSet: set, counters: {memory: {value: 10Gi}}}]
    bindsToNode: true
    bindingConditions: [example.com/ready]
    bindingFailureConditions: [example.com/failed]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: o-0}
spec:
  driver: gpu.example.com
  allNodes: true
  pool: {name: far, generation: 1, resourceSliceCount: 2}
  sharedCounters: [{name: set, counters: {memory: {value: 80Gi}}}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: o-0}
spec:
  deviceSelector: {driver: gpu.example.com, pool: n-0}
  taint: {key: example.com/sick, value: "1", effect: NoExecute}
---
apiVersion: resource.k8s.io/v1alpha3
kind: ResourcePoolStatusRequest
metadata: {name: o-0}
spec: {driver: gpu.example.com, poolName: n-0, limit: 10}
---
apiVersion: batch/v1
kind: Job
metadata: {name: o-0}
spec:
  parallelism: 2
  completions: 3
  backoffLimit: 1
  activeDeadlineSeconds: 3
  ttlSecondsAfterFinished: 1
  template:
    metadata: {labels: {app: a}}
    spec: {restartPolicy: Never, containers: [{name: c, image: x, resources: {requests: {cpu: 10m}}}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: o-0}
spec:
  completionMode: Indexed
  completions: 3
  parallelism: 3
  backoffLimitPerIndex: 1
  maxFailedIndexes: 2
  podFailurePolicy:
    rules: [{action: FailIndex, onExitCodes: {operator: In, values: [1, 2]}}]
  successPolicy: {rules: [{succeededIndexes: 0-1, succeededCount: 1}]}
  template:
    spec:
      restartPolicy: Never
      nodeName: nowhere
      resourceClaims: [{name: gpu, resourceClaimTemplateName: o-0}]
      containers: [{name: c, image: x}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: o-0}
spec: {minAvailable: 1, selector: {matchLabels: {app: a}}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: o-0}
spec:
  hard: {pods: "200", requests.cpu: "100", gpu.deviceclass.resource.k8s.io/devices: "20", count/configmaps: "100"}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: o-0}
value: 10
preemptionPolicy: PreemptLowerPriority
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: o-0}
spec:
  schedulingPolicy: {gang: {minCount: 2}}
  resourceClaims: [{name: gpu, resourceClaimTemplateName: o-0}]
---
apiVersion: scheduling.k8s.io/v1beta1
kind: Workload
metadata: {name: o-0}
spec:
  podGroupTemplates: [{name: t, schedulingPolicy: {gang: {minCount: 2}}}]
---
apiVersion: scheduling.k8s.io/v1alpha3
kind: CompositePodGroup
metadata: {name: o-0}
spec:
  schedulingPolicy: {basic: {}}
  workloadRef: {workloadName: o-0, templateName: t}
---
apiVersion: v1
kind: Namespace
metadata: {name: o-0, labels: {app: a}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: o-0}
data: {a: b}
binaryData: {c: YQ==}
---
apiVersion: v1
kind: Secret
metadata: {name: o-0}
type: Opaque
data: {a: YQ==}
stringData: {b: c}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: o-0}
---
apiVersion: v1
kind: Service
metadata: {name: o-0}
spec: {selector: {app: a}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Event
metadata: {name: o-0}
involvedObject: {apiVersion: v1, kind: Pod, name: o-0, namespace: fz-a}
reason: Testing
message: Some words.
type: Normal
---
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: o-0}
regarding: {apiVersion: v1, kind: Pod, name: o-0, namespace: fz-a}
reason: Testing
note: Some words.
type: Normal
action: Test
eventTime: "2026-11-16T12:00:00.000000Z"
reportingController: example.com/test
reportingInstance: test-1
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: o-0}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list], resourceNames: [o-0]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: o-0, labels: {aggregate: "yes"}}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {aggregate: "yes"}}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: o-0, labels: {aggregate: "yes"}}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}, {nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: o-0}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: User, name: a, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: o-0}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: default, namespace: fz-a}]
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: o-0}
spec: {holderIdentity: a, leaseDurationSeconds: 10, renewTime: "2026-11-16T12:00:00.000000Z"}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.fuzz.example.com}
spec:
  group: fuzz.example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList, shortNames: [th]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    selectableFields: [{jsonPath: .spec.color}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations: [{rule: "!has(self.size) || self.size < 100", message: too large}]
            properties:
              size: {type: integer, default: 1, minimum: 0}
              color: {type: string, maxLength: 20, pattern: "^[a-z]*$"}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, n: {type: number}}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, properties: {size: {type: integer}}}
---
apiVersion: fuzz.example.com/v1
kind: Thing
metadata: {name: o-0}
spec: {size: 3, color: red, parts: [{name: a, n: 1.5}, {name: b}], free: {a: [1, {b: null}]}}
---
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec: {user: a, resourceAttributes: {verb: get, resource: pods, namespace: fz-a}}
---
apiVersion: authorization.k8s.io/v1
kind: SelfSubjectAccessReview
spec: {nonResourceAttributes: {verb: get, path: /metrics}}
---
apiVersion: authorization.k8s.io/v1
kind: SelfSubjectRulesReview
spec: {namespace: fz-a}
---
apiVersion: authentication.k8s.io/v1
kind: TokenReview
spec: {token: a.b.c}
"""
OTHERS = {
    "SubjectAccessReview": "subjectaccessreviews",
    "SelfSubjectAccessReview": "selfsubjectaccessreviews",
    "SelfSubjectRulesReview": "selfsubjectrulesreviews",
    "TokenReview": "tokenreviews",
    "Thing": "things",
}


def documents(folder: Path | None = None) -> list[dict[str, Any]]:
    """Objects to start from, and those in the manifests of a folder."""
    found = list(yaml.safe_load_all(_DOCUMENTS))
    for file in sorted(folder.rglob("*.yaml")) if folder else ():
        found += [each for each in yaml.safe_load_all(file.read_text()) if each]
    known = [each for each in found if find(each["apiVersion"], each["kind"]) or each["kind"] in OTHERS]
    # Aliases in YAML are one object in several places.
    return [json.loads(json.dumps(each)) for each in known]
