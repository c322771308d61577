"""Messages of a pod: its spec, where it may run, and its status; in the notation of messages.py."""

from __future__ import annotations

SPEC: dict[str, str] = {
    "Pod": "metadata=1:ObjectMeta spec=2:PodSpec status=3:PodStatus",
    "PodSpec": "volumes=1:[]Volume initContainers=20:[]Container containers=2:[]Container"
    " ephemeralContainers=34:[]EphemeralContainer restartPolicy=3:str terminationGracePeriodSeconds=4:int64"
    " activeDeadlineSeconds=5:int64 dnsPolicy=6:str nodeSelector=7:{}str serviceAccountName=8:str"
    " serviceAccount=9:str automountServiceAccountToken=21:bool nodeName=10:str hostNetwork=11:bool hostPID=12:bool"
    " hostIPC=13:bool shareProcessNamespace=27:bool securityContext=14:PodSecurityContext"
    " imagePullSecrets=15:[]LocalObjectReference hostname=16:str subdomain=17:str affinity=18:Affinity"
    " schedulerName=19:str tolerations=22:[]Toleration hostAliases=23:[]HostAlias priorityClassName=24:str"
    " priority=25:int32 dnsConfig=26:PodDNSConfig readinessGates=28:[]PodReadinessGate runtimeClassName=29:str"
    " enableServiceLinks=30:bool preemptionPolicy=31:str overhead=32:{}quantity"
    " topologySpreadConstraints=33:[]TopologySpreadConstraint setHostnameAsFQDN=35:bool os=36:PodOS"
    " hostUsers=37:bool schedulingGates=38:[]PodSchedulingGate resourceClaims=39:[]PodResourceClaim"
    " resources=40:ResourceRequirements",
    "ObjectFieldSelector": "apiVersion=1:str fieldPath=2:str",
    "ResourceFieldSelector": "containerName=1:str resource=2:str divisor=3:quantity",
    "Container": "name=1:str image=2:str command=3:[]str args=4:[]str workingDir=5:str ports=6:[]ContainerPort"
    " envFrom=19:[]EnvFromSource env=7:[]EnvVar resources=8:ResourceRequirements"
    " resizePolicy=23:[]ContainerResizePolicy restartPolicy=24:str volumeMounts=9:[]VolumeMount"
    " volumeDevices=21:[]VolumeDevice livenessProbe=10:Probe readinessProbe=11:Probe startupProbe=22:Probe"
    " lifecycle=12:Lifecycle terminationMessagePath=13:str terminationMessagePolicy=20:str imagePullPolicy=14:str"
    " securityContext=15:SecurityContext stdin=16:bool stdinOnce=17:bool tty=18:bool",
    "ContainerPort": "name=1:str hostPort=2:int32 containerPort=3:int32 protocol=4:str hostIP=5:str",
    "EnvFromSource": "prefix=1:str configMapRef=2:ConfigMapEnvSource secretRef=3:SecretEnvSource",
    "ConfigMapEnvSource": "localObjectReference=1:+LocalObjectReference optional=2:bool",
    "SecretEnvSource": "localObjectReference=1:+LocalObjectReference optional=2:bool",
    "EnvVar": "name=1:str value=2:str valueFrom=3:EnvVarSource",
    "EnvVarSource": "fieldRef=1:ObjectFieldSelector resourceFieldRef=2:ResourceFieldSelector"
    " configMapKeyRef=3:ConfigMapKeySelector secretKeyRef=4:SecretKeySelector",
    "ConfigMapKeySelector": "localObjectReference=1:+LocalObjectReference key=2:str optional=3:bool",
    "SecretKeySelector": "localObjectReference=1:+LocalObjectReference key=2:str optional=3:bool",
    "ResourceRequirements": "limits=1:{}quantity requests=2:{}quantity claims=3:[]ResourceClaim",
    "ResourceClaim": "name=1:str request=2:str",
    "ContainerResizePolicy": "resourceName=1:str restartPolicy=2:str",
    "VolumeMount": "name=1:str readOnly=2:bool recursiveReadOnly=7:str mountPath=3:str subPath=4:str"
    " mountPropagation=5:str subPathExpr=6:str",
    "VolumeDevice": "name=1:str devicePath=2:str",
    "Probe": "handler=1:+ProbeHandler initialDelaySeconds=2:int32 timeoutSeconds=3:int32 periodSeconds=4:int32"
    " successThreshold=5:int32 failureThreshold=6:int32 terminationGracePeriodSeconds=7:int64",
    "ProbeHandler": "exec=1:ExecAction httpGet=2:HTTPGetAction tcpSocket=3:TCPSocketAction grpc=4:GRPCAction",
    "ExecAction": "command=1:[]str",
    "HTTPGetAction": "path=1:str port=2:intstr host=3:str scheme=4:str httpHeaders=5:[]HTTPHeader",
    "HTTPHeader": "name=1:str value=2:str",
    "TCPSocketAction": "port=1:intstr host=2:str",
    "GRPCAction": "port=1:int32 service=2:str",
    "Lifecycle": "postStart=1:LifecycleHandler preStop=2:LifecycleHandler stopSignal=3:str",
    "LifecycleHandler": "exec=1:ExecAction httpGet=2:HTTPGetAction tcpSocket=3:TCPSocketAction sleep=4:SleepAction",
    "SleepAction": "seconds=1:int64",
    "SecurityContext": "capabilities=1:Capabilities privileged=2:bool seLinuxOptions=3:SELinuxOptions"
    " windowsOptions=10:WindowsSecurityContextOptions runAsUser=4:int64 runAsGroup=8:int64 runAsNonRoot=5:bool"
    " readOnlyRootFilesystem=6:bool allowPrivilegeEscalation=7:bool procMount=9:str seccompProfile=11:SeccompProfile"
    " appArmorProfile=12:AppArmorProfile",
    "Capabilities": "add=1:[]str drop=2:[]str",
    "SELinuxOptions": "user=1:str role=2:str type=3:str level=4:str",
    "WindowsSecurityContextOptions": "gmsaCredentialSpecName=1:str gmsaCredentialSpec=2:str runAsUserName=3:str"
    " hostProcess=4:bool",
    "SeccompProfile": "type=1:str localhostProfile=2:str",
    "AppArmorProfile": "type=1:str localhostProfile=2:str",
    "EphemeralContainer": "ephemeralContainerCommon=1:+EphemeralContainerCommon targetContainerName=2:str",
    "EphemeralContainerCommon": "name=1:str image=2:str command=3:[]str args=4:[]str workingDir=5:str"
    " ports=6:[]ContainerPort envFrom=19:[]EnvFromSource env=7:[]EnvVar resources=8:ResourceRequirements"
    " resizePolicy=23:[]ContainerResizePolicy restartPolicy=24:str volumeMounts=9:[]VolumeMount"
    " volumeDevices=21:[]VolumeDevice livenessProbe=10:Probe readinessProbe=11:Probe startupProbe=22:Probe"
    " lifecycle=12:Lifecycle terminationMessagePath=13:str terminationMessagePolicy=20:str imagePullPolicy=14:str"
    " securityContext=15:SecurityContext stdin=16:bool stdinOnce=17:bool tty=18:bool",
    "PodSecurityContext": "seLinuxOptions=1:SELinuxOptions windowsOptions=8:WindowsSecurityContextOptions"
    " runAsUser=2:int64 runAsGroup=6:int64 runAsNonRoot=3:bool supplementalGroups=4:[]int64"
    " supplementalGroupsPolicy=12:str fsGroup=5:int64 sysctls=7:[]Sysctl fsGroupChangePolicy=9:str"
    " seccompProfile=10:SeccompProfile appArmorProfile=11:AppArmorProfile seLinuxChangePolicy=13:str",
    "Sysctl": "name=1:str value=2:str",
    "HostAlias": "ip=1:str hostnames=2:[]str",
    "PodDNSConfig": "nameservers=1:[]str searches=2:[]str options=3:[]PodDNSConfigOption",
    "PodDNSConfigOption": "name=1:str value=2:str",
    "PodReadinessGate": "conditionType=1:str",
    "PodOS": "name=1:str",
    "PodSchedulingGate": "name=1:str",
    "PodResourceClaim": "name=1:str resourceClaimName=3:str resourceClaimTemplateName=4:str",
    "PodTemplateSpec": "metadata=1:ObjectMeta spec=2:PodSpec",
}

PLACEMENT: dict[str, str] = {
    "Affinity": "nodeAffinity=1:NodeAffinity podAffinity=2:PodAffinity podAntiAffinity=3:PodAntiAffinity",
    "NodeAffinity": "requiredDuringSchedulingIgnoredDuringExecution=1:NodeSelector"
    " preferredDuringSchedulingIgnoredDuringExecution=2:[]PreferredSchedulingTerm",
    "NodeSelector": "nodeSelectorTerms=1:[]NodeSelectorTerm",
    "NodeSelectorTerm": "matchExpressions=1:[]NodeSelectorRequirement matchFields=2:[]NodeSelectorRequirement",
    "NodeSelectorRequirement": "key=1:str operator=2:str values=3:[]str",
    "PreferredSchedulingTerm": "weight=1:int32 preference=2:NodeSelectorTerm",
    "PodAffinity": "requiredDuringSchedulingIgnoredDuringExecution=1:[]PodAffinityTerm"
    " preferredDuringSchedulingIgnoredDuringExecution=2:[]WeightedPodAffinityTerm",
    "PodAffinityTerm": "labelSelector=1:LabelSelector namespaces=2:[]str topologyKey=3:str"
    " namespaceSelector=4:LabelSelector matchLabelKeys=5:[]str mismatchLabelKeys=6:[]str",
    "WeightedPodAffinityTerm": "weight=1:int32 podAffinityTerm=2:PodAffinityTerm",
    "PodAntiAffinity": "requiredDuringSchedulingIgnoredDuringExecution=1:[]PodAffinityTerm"
    " preferredDuringSchedulingIgnoredDuringExecution=2:[]WeightedPodAffinityTerm",
    "Toleration": "key=1:str operator=2:str value=3:str effect=4:str tolerationSeconds=5:int64",
    "TopologySpreadConstraint": "maxSkew=1:int32 topologyKey=2:str whenUnsatisfiable=3:str"
    " labelSelector=4:LabelSelector minDomains=5:int32 nodeAffinityPolicy=6:str nodeTaintsPolicy=7:str"
    " matchLabelKeys=8:[]str",
}

STATUS: dict[str, str] = {
    "PodStatus": "observedGeneration=17:int64 phase=1:str conditions=2:[]PodCondition message=3:str reason=4:str"
    " nominatedNodeName=11:str hostIP=5:str hostIPs=16:[]HostIP podIP=6:str podIPs=12:[]PodIP startTime=7:time"
    " initContainerStatuses=10:[]ContainerStatus containerStatuses=8:[]ContainerStatus qosClass=9:str"
    " ephemeralContainerStatuses=13:[]ContainerStatus resize=14:str"
    " resourceClaimStatuses=15:[]PodResourceClaimStatus",
    "PodCondition": "type=1:str observedGeneration=7:int64 status=2:str lastProbeTime=3:time"
    " lastTransitionTime=4:time reason=5:str message=6:str",
    "HostIP": "ip=1:str",
    "PodIP": "ip=1:str",
    "ContainerStatus": "name=1:str state=2:ContainerState lastState=3:ContainerState ready=4:bool"
    " restartCount=5:int32 image=6:str imageID=7:str containerID=8:str started=9:bool"
    " allocatedResources=10:{}quantity resources=11:ResourceRequirements volumeMounts=12:[]VolumeMountStatus"
    " user=13:ContainerUser allocatedResourcesStatus=14:[]ResourceStatus stopSignal=15:str",
    "ContainerState": "waiting=1:ContainerStateWaiting running=2:ContainerStateRunning"
    " terminated=3:ContainerStateTerminated",
    "ContainerStateWaiting": "reason=1:str message=2:str",
    "ContainerStateRunning": "startedAt=1:time",
    "ContainerStateTerminated": "exitCode=1:int32 signal=2:int32 reason=3:str message=4:str startedAt=5:time"
    " finishedAt=6:time containerID=7:str",
    "VolumeMountStatus": "name=1:str mountPath=2:str readOnly=3:bool recursiveReadOnly=4:str",
    "ContainerUser": "linux=1:LinuxContainerUser",
    "LinuxContainerUser": "uid=1:int64 gid=2:int64 supplementalGroups=3:[]int64",
    "ResourceStatus": "name=1:str resources=2:[]ResourceHealth",
    "ResourceHealth": "resourceID=1:str health=2:str",
    "PodResourceClaimStatus": "name=1:str resourceClaimName=2:str",
}
