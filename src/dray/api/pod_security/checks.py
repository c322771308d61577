"""The table of checks, in the order in which Kubernetes names violations.

A check has versions: from which minor version of Kubernetes on which function applies. A namespace may pin a version,
so that an upgrade of the cluster does not refuse pods that were fine before. Some checks of the level restricted
replace one of baseline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from dray.api.objects import Object
from dray.api.pod_security import baseline, restricted
from dray.api.pod_security.baseline import unless_user_namespace
from dray.api.pod_security.policy import BASELINE, PRIVILEGED, Standard
from dray.api.pod_security.restricted import unless_windows
from dray.api.pod_security.violations import CheckPod, Violation


@dataclass(frozen=True, slots=True)
class Check:
    """`replaces` names the check of baseline that is not made as well, from the first version on."""

    name: str
    versions: tuple[tuple[int, CheckPod], ...]
    replaces: str = ""

    def at(self, minor: int) -> CheckPod | None:
        return next((check for since, check in reversed(self.versions) if since <= minor), None)


_SYSCTLS_0: Final = (
    "kernel.shm_rmid_forced net.ipv4.ip_local_port_range net.ipv4.tcp_syncookies net.ipv4.ping_group_range "
    "net.ipv4.ip_unprivileged_port_start"
)
_SYSCTLS_27: Final = f"{_SYSCTLS_0} net.ipv4.ip_local_reserved_ports"
_SYSCTLS_29: Final = (
    f"{_SYSCTLS_27} net.ipv4.tcp_keepalive_time net.ipv4.tcp_fin_timeout net.ipv4.tcp_keepalive_intvl "
    "net.ipv4.tcp_keepalive_probes"
)
_SYSCTLS_32: Final = f"{_SYSCTLS_29} net.ipv4.tcp_rmem net.ipv4.tcp_wmem"
_SYSCTLS_37: Final = f"{_SYSCTLS_32} net.ipv4.tcp_slow_start_after_idle net.ipv4.tcp_notsent_lowat"

_BASELINE: Final = (
    Check("appArmorProfile", ((0, baseline.app_armor),)),
    Check("capabilities_baseline", ((0, baseline.capabilities),)),
    Check("hostNamespaces", ((0, baseline.host_namespaces),)),
    Check("hostPathVolumes", ((0, baseline.host_path_volumes),)),
    Check("hostPorts", ((0, baseline.host_ports),)),
    Check("hostProbesAndHostLifecycle", ((34, baseline.probe_hosts),)),
    Check("privileged", ((0, baseline.privileged),)),
    Check("procMount", ((0, baseline.proc_mount), (35, unless_user_namespace(baseline.proc_mount)))),
    Check("seLinuxOptions", ((0, baseline.se_linux()), (31, baseline.se_linux("container_engine_t")))),
    Check("seccompProfile_baseline", ((0, baseline.seccomp_annotations), (19, baseline.seccomp))),
    Check(
        "sysctls",
        (
            (0, baseline.sysctls(_SYSCTLS_0)),
            (27, baseline.sysctls(_SYSCTLS_27)),
            (29, baseline.sysctls(_SYSCTLS_29)),
            (32, baseline.sysctls(_SYSCTLS_32)),
            (37, baseline.sysctls(_SYSCTLS_37)),
        ),
    ),
    Check("windowsHostProcess", ((0, baseline.host_process),)),
)
_RESTRICTED: Final = (
    Check(
        "allowPrivilegeEscalation",
        ((8, restricted.privilege_escalation), (25, unless_windows(restricted.privilege_escalation))),
    ),
    Check(
        "capabilities_restricted",
        ((22, restricted.capabilities), (25, unless_windows(restricted.capabilities))),
        replaces="capabilities_baseline",
    ),
    Check("procMount_restricted", ((35, baseline.proc_mount),), replaces="procMount"),
    Check("restrictedVolumes", ((0, restricted.volumes),), replaces="hostPathVolumes"),
    Check("runAsNonRoot", ((0, restricted.run_as_non_root), (35, unless_user_namespace(restricted.run_as_non_root)))),
    Check("runAsUser", ((23, restricted.run_as_user), (35, unless_user_namespace(restricted.run_as_user)))),
    Check(
        "seccompProfile_restricted",
        ((19, restricted.seccomp), (25, unless_windows(restricted.seccomp))),
        replaces="seccompProfile_baseline",
    ),
)
NEWEST: Final = max(since for check in (*_BASELINE, *_RESTRICTED) for since, _ in check.versions)
"""The minor version whose checks hold for `latest` and for every later version."""


def violations(standard: Standard, annotations: Mapping[str, str], spec: Object) -> list[Violation]:
    """Everything in which a pod violates a level at a version."""
    minor = NEWEST if standard.minor is None else min(standard.minor, NEWEST)
    return [found for check in _chosen(standard.level, minor) if (found := check(annotations, spec)) is not None]


@lru_cache(maxsize=256)
def _chosen(level: str, minor: int) -> tuple[CheckPod, ...]:
    return tuple(_of_level(level, minor))


def _of_level(level: str, minor: int) -> Iterator[CheckPod]:
    if level == PRIVILEGED:
        return
    further = () if level == BASELINE else tuple(check for check in _RESTRICTED if check.at(minor) is not None)
    replaced = {check.replaces for check in further}
    for check in (*(check for check in _BASELINE if check.name not in replaced), *further):
        if (function := check.at(minor)) is not None:
            yield function
