"""The messages of nodes."""

from __future__ import annotations

NODES: dict[str, str] = {
    "Node": "metadata=1:ObjectMeta spec=2:NodeSpec status=3:NodeStatus",
    "NodeSpec": "podCIDR=1:str externalID=2:str providerID=3:str unschedulable=4:bool taints=5:[]Taint"
    " configSource=6:NodeConfigSource podCIDRs=7:[]str podPreemptionPolicy=8:NodePodPreemptionPolicy",
    "Taint": "key=1:str value=2:str effect=3:str timeAdded=4:time",
    "NodeConfigSource": "configMap=2:ConfigMapNodeConfigSource",
    "ConfigMapNodeConfigSource": "namespace=1:str name=2:str uid=3:str resourceVersion=4:str kubeletConfigKey=5:str",
    "NodePodPreemptionPolicy": "disableResizePreemption=1:[]str",
    "NodeStatus": "capacity=1:{}quantity allocatable=2:{}quantity phase=3:str conditions=4:[]NodeCondition"
    " addresses=5:[]NodeAddress daemonEndpoints=6:NodeDaemonEndpoints nodeInfo=7:NodeSystemInfo"
    " images=8:[]ContainerImage volumesInUse=9:[]str volumesAttached=10:[]AttachedVolume config=11:NodeConfigStatus"
    " runtimeHandlers=12:[]NodeRuntimeHandler features=13:NodeFeatures declaredFeatures=14:[]str",
    "NodeCondition": "type=1:str status=2:str lastHeartbeatTime=3:time lastTransitionTime=4:time reason=5:str"
    " message=6:str",
    "NodeAddress": "type=1:str address=2:str",
    "NodeDaemonEndpoints": "kubeletEndpoint=1:DaemonEndpoint",
    "DaemonEndpoint": "Port=1:int32",
    "NodeSystemInfo": "machineID=1:str systemUUID=2:str bootID=3:str kernelVersion=4:str osImage=5:str"
    " containerRuntimeVersion=6:str kubeletVersion=7:str kubeProxyVersion=8:str operatingSystem=9:str"
    " architecture=10:str swap=11:NodeSwapStatus runningInUserNamespace=12:bool",
    "NodeSwapStatus": "capacity=1:int64",
    "ContainerImage": "names=1:[]str sizeBytes=2:int64",
    "AttachedVolume": "name=1:str devicePath=2:str",
    "NodeConfigStatus": "assigned=1:NodeConfigSource active=2:NodeConfigSource lastKnownGood=3:NodeConfigSource"
    " error=4:str",
    "NodeRuntimeHandler": "name=1:str features=2:NodeRuntimeHandlerFeatures",
    "NodeRuntimeHandlerFeatures": "recursiveReadOnlyMounts=1:bool userNamespaces=2:bool",
    "NodeFeatures": "supplementalGroupsPolicy=1:bool",
}
