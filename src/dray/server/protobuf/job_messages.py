"""Messages of a Job; in the notation of messages.py."""

from __future__ import annotations

JOBS: dict[str, str] = {
    "Job": "metadata=1:ObjectMeta spec=2:JobSpec status=3:JobStatus",
    "JobSpec": "parallelism=1:int32 completions=2:int32 activeDeadlineSeconds=3:int64"
    " podFailurePolicy=11:PodFailurePolicy successPolicy=16:SuccessPolicy backoffLimit=7:int32"
    " backoffLimitPerIndex=12:int32 maxFailedIndexes=13:int32 selector=4:LabelSelector manualSelector=5:bool"
    " template=6:PodTemplateSpec ttlSecondsAfterFinished=8:int32 completionMode=9:str suspend=10:bool"
    " podReplacementPolicy=14:str managedBy=15:str",
    "PodFailurePolicy": "rules=1:[]PodFailurePolicyRule",
    "PodFailurePolicyRule": "action=1:str onExitCodes=2:PodFailurePolicyOnExitCodesRequirement"
    " onPodConditions=3:[]PodFailurePolicyOnPodConditionsPattern",
    "PodFailurePolicyOnExitCodesRequirement": "containerName=1:str operator=2:str values=3:[]int32",
    "PodFailurePolicyOnPodConditionsPattern": "type=1:str status=2:str",
    "SuccessPolicy": "rules=1:[]SuccessPolicyRule",
    "SuccessPolicyRule": "succeededIndexes=1:str succeededCount=2:int32",
    "JobStatus": "conditions=1:[]JobCondition startTime=2:time completionTime=3:time active=4:int32"
    " succeeded=5:int32 failed=6:int32 terminating=11:int32 completedIndexes=7:str failedIndexes=10:str"
    " uncountedTerminatedPods=8:UncountedTerminatedPods ready=9:int32",
    "JobCondition": "type=1:str status=2:str lastProbeTime=3:time lastTransitionTime=4:time reason=5:str message=6:str",
    "UncountedTerminatedPods": "succeeded=1:[]str failed=2:[]str",
}
