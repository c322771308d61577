"""What the models do not say about the wire: which members Kubernetes' own types write, and how.

An OpenAPI model knows "optional" only. The Go types behind it distinguish a pointer (absent and zero differ, so zero
is kept) from a plain value (zero is left out), an object that is always written, if only as {}, from one that may be
absent, and maps by the type of their values. Patterns: `Type.field`; the type may be `*`; several fields by spaces.
"""

POINTERS = """
*.tolerationSeconds *.immutable *.optional *.automountServiceAccountToken *.defaultMode *.defaultUser *.mode
*.minLength *.maxLength *.minItems *.maxItems *.minProperties *.maxProperties *.runAsGroup *.runAsUser
*.runAsNonRoot *.localhostProfile *.terminationGracePeriodSeconds *.preemptionPolicy PodSpec.priority
PodGroupSpec.priority PodGroupTemplate.priority CompositePodGroupSpec.priority CompositePodGroupTemplate.priority
*.parentCompositePodGroupName *.resourceClaimName *.resourceClaimTemplateName *.stopSignal Container.restartPolicy
EphemeralContainer.restartPolicy *.recursiveReadOnly *.adminAccess *.shareID *.matchAttribute *.distinctAttribute
*.partitionTypeAttribute *.defaultPartitionTypeAttribute *.perDeviceNodeSelection *.allowMultipleAllocations
*.bindsToNode *.extendedResourceName *.capacityKey *.validationError *.limit *.poolName
CustomResourceDefinitionVersion.deprecationWarning ValidationRule.optionalOldSelf ValidationRule.reason
JSONSchemaProps.x-kubernetes-list-type JSONSchemaProps.x-kubernetes-map-type
JSONSchemaProps.x-kubernetes-preserve-unknown-fields apiextensions_v1.ServiceReference.port
apiextensions_v1.ServiceReference.path WebhookClientConfig.url JobSpec.activeDeadlineSeconds JobSpec.backoffLimit
JobSpec.backoffLimitPerIndex JobSpec.completions JobSpec.maxFailedIndexes JobSpec.parallelism
JobSpec.ttlSecondsAfterFinished JobSpec.manualSelector JobSpec.suspend JobSpec.completionMode JobSpec.managedBy
JobSpec.podReplacementPolicy JobStatus.ready JobStatus.terminating JobStatus.failedIndexes
SuccessPolicyRule.succeededCount SuccessPolicyRule.succeededIndexes
PodFailurePolicyOnExitCodesRequirement.containerName LeaseSpec.leaseDurationSeconds LeaseSpec.leaseTransitions
LeaseSpec.holderIdentity LeaseSpec.preferredHolder LeaseSpec.strategy AzureDiskVolumeSource.readOnly
AzureDiskVolumeSource.cachingMode AzureDiskVolumeSource.fsType CSIVolumeSource.readOnly CSIVolumeSource.fsType
ClusterTrustBundleProjection.name ClusterTrustBundleProjection.signerName ClusterTrustBundleProjection.user
KeyToPath.user DownwardAPIVolumeFile.user FCVolumeSource.lun NodeSwapStatus.capacity
PodCertificateProjection.maxExpirationSeconds PodCertificateProjection.user PodSecurityContext.fsGroup
PodSecurityContext.fsGroupChangePolicy PodSecurityContext.seLinuxChangePolicy
PodSecurityContext.supplementalGroupsPolicy PodSpec.activeDeadlineSeconds PodSpec.enableServiceLinks
PodSpec.hostUsers PodSpec.setHostnameAsFQDN PodSpec.shareProcessNamespace PodSpec.hostnameOverride
PodSpec.runtimeClassName ServiceAccountTokenProjection.expirationSeconds ServiceAccountTokenProjection.user
TopologySpreadConstraint.minDomains TopologySpreadConstraint.nodeAffinityPolicy
TopologySpreadConstraint.nodeTaintsPolicy ObjectMeta.deletionGracePeriodSeconds OwnerReference.blockOwnerDeletion
OwnerReference.controller ContainerStatus.started NodeFeatures.supplementalGroupsPolicy
NodeRuntimeHandlerFeatures.recursiveReadOnlyMounts NodeRuntimeHandlerFeatures.userNamespaces
NodeSystemInfo.runningInUserNamespace SecurityContext.allowPrivilegeEscalation SecurityContext.privileged
SecurityContext.readOnlyRootFilesystem SecurityContext.procMount WindowsSecurityContextOptions.hostProcess
WindowsSecurityContextOptions.gmsaCredentialSpec WindowsSecurityContextOptions.gmsaCredentialSpecName
WindowsSecurityContextOptions.runAsUserName GRPCAction.service HostPathVolumeSource.type
ISCSIVolumeSource.initiatorName PersistentVolumeClaimSpec.storageClassName
PersistentVolumeClaimSpec.volumeAttributesClassName PersistentVolumeClaimSpec.volumeMode PodDNSConfigOption.value
PodSchedulingGroup.podGroupName ResourceHealth.message core_v1.TypedLocalObjectReference.apiGroup
TypedObjectReference.apiGroup TypedObjectReference.namespace VolumeMount.mountPropagation Device.nodeName
Device.allNodes BasicDevice.nodeName BasicDevice.allNodes resource_v1.ResourceSliceSpec.nodeName
resource_v1.ResourceSliceSpec.allNodes resource_v1beta2.ResourceSliceSpec.nodeName
resource_v1beta2.ResourceSliceSpec.allNodes DeviceAttribute.int DeviceAttribute.bool DeviceAttribute.string
DeviceAttribute.version DeviceTaintSelector.driver DeviceTaintSelector.pool DeviceTaintSelector.device
PoolStatus.allocatedDevices PoolStatus.availableDevices PoolStatus.resourceSliceCount PoolStatus.totalDevices
PoolStatus.unavailableDevices PoolStatus.nodeName WorkloadPodGroupGangSchedulingPolicy.minCount
CapacityRequestPolicy.default PodGroupTemplate.schedulingConstraints ServiceSpec.allocateLoadBalancerNodePorts
ServiceSpec.internalTrafficPolicy ServiceSpec.ipFamilyPolicy ServiceSpec.loadBalancerClass ServicePort.appProtocol
ServiceSpec.trafficDistribution ClientIPConfig.timeoutSeconds
PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy
ResourcePoolStatusRequestStatus.poolCount PartitionTypeStatus.total PartitionTypeStatus.allocatable
ShareableSummaryStatus.fullyAvailableDevices ShareableSummaryStatus.partiallyAvailableDevices
CertificateSigningRequestSpec.expirationSeconds
""".split()

ALWAYS = """
DeviceClaim.requests AllocatedDeviceStatus.conditions CapacityRequestPolicy.default
resource_v1beta1.DeviceRequest.deviceClassName AllocationResult.devices ResourceClaimSpec.devices
PriorityClass.value Container.resources EphemeralContainer.resources ContainerStatus.state ContainerStatus.lastState
NodeStatus.daemonEndpoints NodeStatus.nodeInfo NodeDaemonEndpoints.kubeletEndpoint Event.source
Event.reportingComponent Event.reportingInstance Event.firstTimestamp Event.lastTimestamp Event.eventTime
PersistentVolumeClaimSpec.resources ResourceFieldSelector.divisor CustomResourceDefinitionStatus.acceptedNames
CustomResourceDefinitionStatus.conditions CustomResourceDefinitionStatus.storedVersions
WorkloadSpec.podGroupTemplates PodGroupTemplate.schedulingConstraints ServiceStatus.loadBalancer
ServicePort.targetPort PodDisruptionBudgetStatus.disruptionsAllowed PodDisruptionBudgetStatus.currentHealthy
PodDisruptionBudgetStatus.desiredHealthy PodDisruptionBudgetStatus.expectedPods RoleRef.apiGroup ClusterRole.rules
Role.rules events_v1.Event.regarding events_v1.Event.deprecatedSource events_v1.Event.deprecatedFirstTimestamp
events_v1.Event.deprecatedLastTimestamp NodeCondition.lastHeartbeatTime NodeCondition.lastTransitionTime
PodCondition.lastProbeTime PodCondition.lastTransitionTime JobCondition.lastProbeTime JobCondition.lastTransitionTime
NamespaceCondition.lastTransitionTime CustomResourceDefinitionCondition.lastTransitionTime
ContainerStateRunning.startedAt ContainerStateTerminated.startedAt ContainerStateTerminated.finishedAt
""".split()

# Left out when empty, although the OpenAPI document calls them required, or matched by a pattern above.
OMITTED = """
ResourcePoolStatusRequest.status CounterSet.counters DeviceCounterConsumption.counters
CapacityRequestPolicyRange.min PoolStatus.driver PoolStatus.poolName ResourcePoolStatusRequestStatus.poolCount
PartitionTypeStatus.attribute PartitionTypeStatus.type PartitionTypeStatus.total PartitionTypeStatus.allocatable
ShareableSummaryStatus.fullyAvailableDevices ShareableSummaryStatus.partiallyAvailableDevices
ShareableCapacityStatus.name CustomResourceSubresources.status events_v1.Event.reportingInstance
""".split()

MAPS = {
    "str": """
        *.annotations *.labels *.matchLabels PodSpec.nodeSelector ConfigMap.data Secret.stringData
        CSIVolumeSource.volumeAttributes FlexVolumeSource.options PodCertificateProjection.userAnnotations
        ServiceSpec.selector
    """,
    "bytes": "ConfigMap.binaryData Secret.data",
    "quantity": """
        *.limits *.requests *.consumedCapacity ContainerStatus.allocatedResources PodStatus.allocatedResources
        NodeStatus.allocatable NodeStatus.capacity PodSpec.overhead ResourceQuotaSpec.hard ResourceQuotaStatus.hard
        ResourceQuotaStatus.used
    """,
    "time": "PodDisruptionBudgetStatus.disruptedPods",
    "[]str": "CertificateSigningRequestSpec.extra",
    "apiextensions_v1.JSONSchemaProps": """
        JSONSchemaProps.definitions JSONSchemaProps.patternProperties JSONSchemaProps.properties
    """,
    "any": "JSONSchemaProps.dependencies",
    # The same module's type.
    ".Counter": "CounterSet.counters DeviceCounterConsumption.counters",
    ".DeviceAttribute": "Device.attributes BasicDevice.attributes",
    ".DeviceCapacity": "Device.capacity BasicDevice.capacity",
    ".NodeAllocatableResource": "Device.nodeAllocatableResources BasicDevice.nodeAllocatableResources",
}

# Base64 on the wire, which the models call text.
BYTES = "CertificateSigningRequestSpec.request CertificateSigningRequestStatus.certificate"

INT32 = """
CertificateSigningRequestSpec.expirationSeconds
*.priority *.limit *.minCount *.minGroupCount *.containerPort *.hostPort *.defaultMode *.mode PriorityClass.value
Probe.failureThreshold Probe.initialDelaySeconds Probe.periodSeconds Probe.successThreshold Probe.timeoutSeconds
JobSpec.backoffLimit JobSpec.backoffLimitPerIndex JobSpec.completions JobSpec.maxFailedIndexes JobSpec.parallelism
JobSpec.ttlSecondsAfterFinished JobStatus.active JobStatus.failed JobStatus.ready JobStatus.succeeded
JobStatus.terminating LeaseSpec.leaseDurationSeconds LeaseSpec.leaseTransitions Event.count EventSeries.count
TopologySpreadConstraint.maxSkew TopologySpreadConstraint.minDomains ContainerStatus.restartCount
ContainerStateTerminated.exitCode ContainerStateTerminated.signal PoolStatus.allocatedDevices
PoolStatus.availableDevices PoolStatus.resourceSliceCount PoolStatus.totalDevices PoolStatus.unavailableDevices
ResourcePoolStatusRequestStatus.poolCount PartitionTypeStatus.total PartitionTypeStatus.allocatable
ShareableSummaryStatus.fullyAvailableDevices ShareableSummaryStatus.partiallyAvailableDevices
ServicePort.port ServicePort.nodePort ServiceSpec.healthCheckNodePort PortStatus.port ClientIPConfig.timeoutSeconds
PodDisruptionBudgetStatus.disruptionsAllowed PodDisruptionBudgetStatus.currentHealthy
PodDisruptionBudgetStatus.desiredHealthy PodDisruptionBudgetStatus.expectedPods events_v1.Event.deprecatedCount
CustomResourceColumnDefinition.priority WeightedPodAffinityTerm.weight PreferredSchedulingTerm.weight
""".split()


def listed(patterns: list[str] | str, type_name: str, field: str) -> bool:
    """Whether the field of `module.Type` is named by one of the patterns."""
    names = patterns.split() if isinstance(patterns, str) else patterns
    short = type_name.split(".")[1]
    return any(f"{owner}.{field}" in names for owner in ("*", short, type_name))
