"""Roles of the controllers of Services and volumes, as lines of `builtin_roles`."""

from __future__ import annotations

_EVENTS = "create patch update | core events.k8s.io | events"

CLUSTER_CONTROLLERS = {
    "endpoint-controller": f"""
        READ | core | pods services
        create delete get list update watch | core | endpoints
        create | core | endpoints/restricted
        {_EVENTS}
    """,
    "endpointslice-controller": f"""
        READ | core | nodes pods services
        update | core | services/finalizers
        create delete get list update watch | discovery.k8s.io | endpointslices
        {_EVENTS}
    """,
    "persistent-volume-binder": f"""
        create delete get list patch update watch | core | persistentvolumes
        patch update | core | persistentvolumes/status
        get list patch update watch | core | persistentvolumeclaims
        patch update | core | persistentvolumeclaims/status
        READ | core | nodes pods
        READ | storage.k8s.io | storageclasses
        {_EVENTS}
    """,
    "pvc-protection-controller": f"""
        get list patch update watch | core | persistentvolumeclaims
        READ | core | pods
        {_EVENTS}
    """,
    "pv-protection-controller": f"""
        get list patch update watch | core | persistentvolumes
        {_EVENTS}
    """,
    "ephemeral-volume-controller": f"""
        READ | core | pods
        update | core | pods/finalizers
        create get list watch | core | persistentvolumeclaims
        {_EVENTS}
    """,
}
