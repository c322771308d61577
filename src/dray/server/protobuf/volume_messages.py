"""Messages of a pod's volumes; in the notation of messages.py."""

from __future__ import annotations

VOLUMES: dict[str, str] = {
    "Volume": "name=1:str volumeSource=2:+VolumeSource",
    "VolumeSource": "hostPath=1:HostPathVolumeSource emptyDir=2:EmptyDirVolumeSource"
    " gcePersistentDisk=3:GCEPersistentDiskVolumeSource awsElasticBlockStore=4:AWSElasticBlockStoreVolumeSource"
    " gitRepo=5:GitRepoVolumeSource secret=6:SecretVolumeSource nfs=7:NFSVolumeSource iscsi=8:ISCSIVolumeSource"
    " glusterfs=9:GlusterfsVolumeSource persistentVolumeClaim=10:PersistentVolumeClaimVolumeSource"
    " rbd=11:RBDVolumeSource flexVolume=12:FlexVolumeSource cinder=13:CinderVolumeSource"
    " cephfs=14:CephFSVolumeSource flocker=15:FlockerVolumeSource downwardAPI=16:DownwardAPIVolumeSource"
    " fc=17:FCVolumeSource azureFile=18:AzureFileVolumeSource configMap=19:ConfigMapVolumeSource"
    " vsphereVolume=20:VsphereVirtualDiskVolumeSource quobyte=21:QuobyteVolumeSource"
    " azureDisk=22:AzureDiskVolumeSource photonPersistentDisk=23:PhotonPersistentDiskVolumeSource"
    " projected=26:ProjectedVolumeSource portworxVolume=24:PortworxVolumeSource scaleIO=25:ScaleIOVolumeSource"
    " storageos=27:StorageOSVolumeSource csi=28:CSIVolumeSource ephemeral=29:EphemeralVolumeSource"
    " image=30:ImageVolumeSource",
    "HostPathVolumeSource": "path=1:str type=2:str",
    "EmptyDirVolumeSource": "medium=1:str sizeLimit=2:quantity",
    "GCEPersistentDiskVolumeSource": "pdName=1:str fsType=2:str partition=3:int32 readOnly=4:bool",
    "AWSElasticBlockStoreVolumeSource": "volumeID=1:str fsType=2:str partition=3:int32 readOnly=4:bool",
    "GitRepoVolumeSource": "repository=1:str revision=2:str directory=3:str",
    "SecretVolumeSource": "secretName=1:str items=2:[]KeyToPath defaultMode=3:int32 optional=4:bool",
    "KeyToPath": "key=1:str path=2:str mode=3:int32",
    "NFSVolumeSource": "server=1:str path=2:str readOnly=3:bool",
    "ISCSIVolumeSource": "targetPortal=1:str iqn=2:str lun=3:int32 iscsiInterface=4:str fsType=5:str readOnly=6:bool"
    " portals=7:[]str chapAuthDiscovery=8:bool chapAuthSession=11:bool secretRef=10:LocalObjectReference"
    " initiatorName=12:str",
    "GlusterfsVolumeSource": "endpoints=1:str path=2:str readOnly=3:bool",
    "PersistentVolumeClaimVolumeSource": "claimName=1:str readOnly=2:bool",
    "RBDVolumeSource": "monitors=1:[]str image=2:str fsType=3:str pool=4:str user=5:str keyring=6:str"
    " secretRef=7:LocalObjectReference readOnly=8:bool",
    "FlexVolumeSource": "driver=1:str fsType=2:str secretRef=3:LocalObjectReference readOnly=4:bool options=5:{}str",
    "CinderVolumeSource": "volumeID=1:str fsType=2:str readOnly=3:bool secretRef=4:LocalObjectReference",
    "CephFSVolumeSource": "monitors=1:[]str path=2:str user=3:str secretFile=4:str secretRef=5:LocalObjectReference"
    " readOnly=6:bool",
    "FlockerVolumeSource": "datasetName=1:str datasetUUID=2:str",
    "DownwardAPIVolumeSource": "items=1:[]DownwardAPIVolumeFile defaultMode=2:int32",
    "DownwardAPIVolumeFile": "path=1:str fieldRef=2:ObjectFieldSelector resourceFieldRef=3:ResourceFieldSelector"
    " mode=4:int32",
    "FCVolumeSource": "targetWWNs=1:[]str lun=2:int32 fsType=3:str readOnly=4:bool wwids=5:[]str",
    "AzureFileVolumeSource": "secretName=1:str shareName=2:str readOnly=3:bool",
    "ConfigMapVolumeSource": "localObjectReference=1:+LocalObjectReference items=2:[]KeyToPath defaultMode=3:int32"
    " optional=4:bool",
    "VsphereVirtualDiskVolumeSource": "volumePath=1:str fsType=2:str storagePolicyName=3:str storagePolicyID=4:str",
    "QuobyteVolumeSource": "registry=1:str volume=2:str readOnly=3:bool user=4:str group=5:str tenant=6:str",
    "AzureDiskVolumeSource": "diskName=1:str diskURI=2:str cachingMode=3:str fsType=4:str readOnly=5:bool kind=6:str",
    "PhotonPersistentDiskVolumeSource": "pdID=1:str fsType=2:str",
    "ProjectedVolumeSource": "sources=1:[]VolumeProjection defaultMode=2:int32",
    "VolumeProjection": "secret=1:SecretProjection downwardAPI=2:DownwardAPIProjection"
    " configMap=3:ConfigMapProjection serviceAccountToken=4:ServiceAccountTokenProjection"
    " clusterTrustBundle=5:ClusterTrustBundleProjection",
    "SecretProjection": "localObjectReference=1:+LocalObjectReference items=2:[]KeyToPath optional=4:bool",
    "DownwardAPIProjection": "items=1:[]DownwardAPIVolumeFile",
    "ConfigMapProjection": "localObjectReference=1:+LocalObjectReference items=2:[]KeyToPath optional=4:bool",
    "ServiceAccountTokenProjection": "audience=1:str expirationSeconds=2:int64 path=3:str",
    "ClusterTrustBundleProjection": "name=1:str signerName=2:str labelSelector=3:LabelSelector optional=5:bool"
    " path=4:str",
    "PortworxVolumeSource": "volumeID=1:str fsType=2:str readOnly=3:bool",
    "ScaleIOVolumeSource": "gateway=1:str system=2:str secretRef=3:LocalObjectReference sslEnabled=4:bool"
    " protectionDomain=5:str storagePool=6:str storageMode=7:str volumeName=8:str fsType=9:str readOnly=10:bool",
    "StorageOSVolumeSource": "volumeName=1:str volumeNamespace=2:str fsType=3:str readOnly=4:bool"
    " secretRef=5:LocalObjectReference",
    "CSIVolumeSource": "driver=1:str readOnly=2:bool fsType=3:str volumeAttributes=4:{}str"
    " nodePublishSecretRef=5:LocalObjectReference",
    "EphemeralVolumeSource": "volumeClaimTemplate=1:PersistentVolumeClaimTemplate",
    "PersistentVolumeClaimTemplate": "metadata=1:ObjectMeta spec=2:PersistentVolumeClaimSpec",
    "PersistentVolumeClaimSpec": "accessModes=1:[]str selector=4:LabelSelector"
    " resources=2:VolumeResourceRequirements volumeName=3:str storageClassName=5:str volumeMode=6:str"
    " dataSource=7:TypedLocalObjectReference dataSourceRef=8:TypedObjectReference volumeAttributesClassName=9:str",
    "VolumeResourceRequirements": "limits=1:{}quantity requests=2:{}quantity",
    "TypedLocalObjectReference": "apiGroup=1:str kind=2:str name=3:str",
    "TypedObjectReference": "apiGroup=1:str kind=2:str name=3:str namespace=4:str",
    "ImageVolumeSource": "reference=1:str pullPolicy=2:str",
}
