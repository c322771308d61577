"""Roles of the controllers of Services, volumes and nodes, as lines of `builtin_roles`.

Those of controllers that are not part of dray are there for a kube-controller-manager that runs beside it.
"""

from __future__ import annotations

EVENTS = "create patch update | core events.k8s.io | events"

CLUSTER_CONTROLLERS = {
    "endpoint-controller": f"""
        READ | core | pods services
        create delete get list update watch | core | endpoints
        create | core | endpoints/restricted
        {EVENTS}
    """,
    "endpointslice-controller": f"""
        READ | core | nodes pods services
        update | core | services/finalizers
        create delete get list update watch | discovery.k8s.io | endpointslices
        {EVENTS}
    """,
    "persistent-volume-binder": f"""
        create delete get list patch update watch | core | persistentvolumes
        patch update | core | persistentvolumes/status
        get list patch update watch | core | persistentvolumeclaims
        patch update | core | persistentvolumeclaims/status
        READ | core | nodes pods
        create delete | core | pods
        READ | storage.k8s.io | storageclasses
        watch | core | events
        {EVENTS}
    """,
    "pvc-protection-controller": f"""
        get list patch update watch | core | persistentvolumeclaims
        update | core | persistentvolumeclaims/status
        READ | core | pods
        {EVENTS}
    """,
    "pv-protection-controller": f"""
        get list patch update watch | core | persistentvolumes
        {EVENTS}
    """,
    "ephemeral-volume-controller": f"""
        READ | core | pods
        update | core | pods/finalizers
        create get list watch | core | persistentvolumeclaims
        {EVENTS}
    """,
    "attachdetach-controller": f"""
        list watch | core | persistentvolumeclaims persistentvolumes pods
        READ | core | nodes
        patch update | core | nodes/status
        READ | storage.k8s.io | csidrivers csinodes
        create delete get list watch | storage.k8s.io | volumeattachments
        {EVENTS}
    """,
    "expand-controller": f"""
        get list patch update watch | core | persistentvolumes
        READ | core | persistentvolumeclaims
        patch update | core | persistentvolumeclaims/status
        {EVENTS}
    """,
    "volumeattributesclass-protection-controller": f"""
        READ | core | persistentvolumeclaims persistentvolumes
        get list update watch | storage.k8s.io | volumeattributesclasses
        {EVENTS}
    """,
    "selinux-warning-controller": f"""
        READ | core | persistentvolumeclaims persistentvolumes pods
        READ | storage.k8s.io | csidrivers
        {EVENTS}
    """,
    "endpointslicemirroring-controller": f"""
        READ | core | endpoints services
        update | core | endpoints/finalizers services/finalizers
        create delete get list update watch | discovery.k8s.io | endpointslices
        {EVENTS}
    """,
    "service-controller": f"""
        READ | core | services
        patch update | core | services/status
        list watch | core | nodes
        {EVENTS}
    """,
    "service-cidrs-controller": f"""
        get list patch update watch | networking.k8s.io | servicecidrs
        patch update | networking.k8s.io | servicecidrs/finalizers servicecidrs/status
        READ | networking.k8s.io | ipaddresses
        {EVENTS}
    """,
    "route-controller": f"""
        list watch | core | nodes
        patch | core | nodes/status
        {EVENTS}
    """,
    "ttl-controller": f"""
        list patch update watch | core | nodes
        {EVENTS}
    """,
}
