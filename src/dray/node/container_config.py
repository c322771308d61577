"""Set-up of pods: from a pod and a container of it to what a runtime starts.

<root>/pods/<uid>/volumes/...                 volumes
<root>/pods/<uid>/volume-subpaths/...         parts of volumes, while a container that mounts them starts
<root>/pods/<uid>/etc-hosts                   names that the pod resolves
<root>/pods/<uid>/resolv.conf                 where it asks for others, if not where the machine does
<root>/pods/<uid>/containers/<container>/...  termination messages
<root>/logs/<namespace>_<name>_<uid>/<container>/<attempt>.log
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from dray.api.objects import Object, key_of, mappings, spec_of, uid_of
from dray.api.validation import paths
from dray.client.api import ApiClient
from dray.client.clock import SystemTime, TimeOfDay
from dray.driver.files import replace_file
from dray.node.environment import arguments, environment, expanded, service_variables
from dray.node.errors import SetupError
from dray.node.limits import limits_of
from dray.node.pod_dns import machine_resolv_conf, resolv_conf
from dray.node.pod_objects import PodObjects
from dray.node.runtimes.configs import ContainerConfig, HostPort, Mount, SandboxConfig
from dray.node.runtimes.interface import ContainerState
from dray.node.security_context import groups_of, security_context, security_of
from dray.node.subpath_mounts import SubpathMounts
from dray.node.volumes import PERSISTENT, Volumes
from dray.process import beneath

_MESSAGE_PATH: Final = "/dev/termination-log"
_MESSAGE_BYTES: Final = 4096
_FALLBACK_LINES: Final = 80
_FALLBACK_BYTES: Final = 2048
_MOST_HOSTNAME: Final = 64
_STARTED_WITH: Final = ("command", "args", "env", "workingDir", "volumeMounts", "terminationMessagePath")
_ACCOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


class PodSetup:
    def __init__(
        self,
        client: ApiClient,
        root: Path,
        node: str,
        *,
        host_ip: str,
        api_server: str = "",
        time: TimeOfDay | None = None,
    ) -> None:
        """`api_server` is the URL at which pods reach the API server."""
        self._objects = PodObjects(client, time or SystemTime())
        self._services = service_variables(api_server)
        self._pods = root / "pods"
        self._logs = root / "logs"
        self._profiles = root / "seccomp"
        self._node = node
        self._facts = {"status.hostIP": host_ip, "status.hostIPs": host_ip, "spec.nodeName": node}
        self._resources = {"cpu": str(os.cpu_count() or 1), "memory": str(_total_memory())}
        self._volumes = Volumes(self._objects, self._pods, self._facts, self._resources)
        self._subpaths = SubpathMounts(self._pods)
        self._logs.mkdir(mode=0o755, parents=True, exist_ok=True)
        # Other users of the machine, and the group of root, must not read tokens, Secrets and files of pods. A
        # container may leave a setuid program of root in its volume.
        for directory in (self._pods, root / PERSISTENT):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.chmod(0o700)

    async def prepare(self, pod: Object) -> None:
        """Makes and fills the volumes of the pod; may be called again. Raises SetupError."""
        (self._pods / uid_of(pod)).mkdir(mode=0o755, exist_ok=True)
        await self._volumes.make(pod)

    async def refresh(self, pod: Object) -> None:
        """Updates volumes that show objects of the API server."""
        await self._volumes.make(pod, following=True)

    async def remove(self, pod_uid: str) -> None:
        self._objects.forget(pod_uid)
        self._subpaths.release(pod_uid)
        for directory in (self._pods / pod_uid, *self._logs.glob(f"*_{pod_uid}")):
            # A container may have made many files in it.
            await asyncio.to_thread(beneath.remove_tree, directory)

    def release_mounts(self, pod_uid: str) -> None:
        """Unmounts what a killed agent left mounted. Call it only while no container of the pod is starting."""
        self._subpaths.release(pod_uid)

    def uids(self) -> set[str]:
        """Returns the uids of pods that have files on this node."""
        logs = (directory.name.rpartition("_")[2] for directory in self._logs.iterdir())
        return {*(directory.name for directory in self._pods.iterdir()), *logs}

    def volumes_of(self, pod: Object) -> Path:
        return self._volumes.directory(uid_of(pod))

    def written_by(self, pod: Object) -> list[Path]:
        """Returns the directories that the pod writes to: its volumes and logs, without hostPath volumes."""
        namespace, name = key_of(pod)
        return [self._pods / uid_of(pod), self._logs / f"{namespace}_{name}_{uid_of(pod)}"]

    def sandbox(self, pod: Object) -> SandboxConfig:
        spec = spec_of(pod)
        namespace, name = key_of(pod)
        hosts = {str(alias["ip"]): tuple(alias.get("hostnames") or ()) for alias in mappings(spec.get("hostAliases"))}
        return SandboxConfig(
            pod_uid=uid_of(pod),
            namespace=namespace,
            name=name,
            hostname=hostname(pod),
            host_network=bool(spec.get("hostNetwork")),
            host_pid=bool(spec.get("hostPID")),
            host_ipc=bool(spec.get("hostIPC")),
            share_processes=bool(spec.get("shareProcessNamespace")),
            hosts=hosts,
            ports=() if spec.get("hostNetwork") else _host_ports(spec),
        )

    @asynccontextmanager
    async def container(
        self, pod: Object, container: Object, attempt: int, *, pod_ip: str, cdi_devices: Sequence[str]
    ) -> AsyncIterator[ContainerConfig]:
        """Yields the configuration for the runtime. Its subPath mounts exist only within the context.

        Start the container within the context. Raises SetupError if the container needs something that is missing.
        """
        self._subpaths.release(uid_of(pod), str(container["name"]))
        try:
            yield await self._config(pod, container, attempt, pod_ip=pod_ip, cdi_devices=cdi_devices)
        finally:
            self._subpaths.release(uid_of(pod), str(container["name"]))

    async def _config(
        self, pod: Object, container: Object, attempt: int, *, pod_ip: str, cdi_devices: Sequence[str]
    ) -> ContainerConfig:
        _check_nul(container)
        namespace, name = key_of(pod)
        facts = {**self._facts, "status.podIP": pod_ip, "status.podIPs": pod_ip}
        values = await environment(pod, container, self._objects, facts, self._resources, self._services)
        security = security_context(pod, container)
        user, group = security.get("runAsUser"), security.get("runAsGroup")
        log = self.log_path(pod, container["name"], attempt)
        log.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        return ContainerConfig(
            pod_uid=uid_of(pod),
            namespace=namespace,
            pod_name=name,
            name=str(container["name"]),
            attempt=attempt,
            image=str(container.get("image") or ""),
            command=arguments(container.get("command") or (), values),
            args=arguments(container.get("args") or (), values),
            log_path=log,
            environment=values,
            mounts=self._mounts(pod, container, attempt, values, pod_ip),
            cdi_devices=tuple(cdi_devices),
            working_dir=str(container.get("workingDir") or ""),
            limits=limits_of(container),
            tty=bool(container.get("tty")),
            stdin=bool(container.get("stdin")),
            stdin_once=bool(container.get("stdinOnce")),
            user=None if user is None else int(user),
            group=None if group is None else int(group),
            groups=groups_of(security),
            hostname=hostname(pod),
            pull_policy=str(container.get("imagePullPolicy") or "IfNotPresent"),
            security=security_of(security, self._profiles),
            target=str(container.get("targetContainerName") or ""),
        )

    def _mounts(
        self, pod: Object, container: Object, attempt: int, values: dict[str, str], pod_ip: str
    ) -> tuple[Mount, ...]:
        found = []
        for mount in mappings(container.get("volumeMounts")):
            volume = str(mount["name"])
            path = self._volumes.path(pod, volume)
            if sub := str(mount.get("subPath") or "") or expanded(str(mount.get("subPathExpr") or ""), values):
                path = self._subpaths.make(uid_of(pod), str(container["name"]), path, sub)
            inside = str(mount["mountPath"])
            read_only = bool(mount.get("readOnly")) or self._volumes.is_read_only(pod, volume)
            found.append(Mount(str(path), inside, read_only, optional=inside == _ACCOUNT_PATH))
        message = self._message_file(pod, container, attempt)
        message.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        # The old file may be a symbolic link made by the pod. Other containers keep the files that they mounted.
        replace_file(message, b"", mode=0o666)
        inside = str(container.get("terminationMessagePath") or _MESSAGE_PATH)
        found.append(Mount(str(message), inside, optional=True))
        if not spec_of(pod).get("hostNetwork"):
            found.append(Mount(str(self._hosts(pod, pod_ip)), "/etc/hosts", optional=True))
        if (text := resolv_conf(pod, machine_resolv_conf())) is not None:
            path = self._pods / uid_of(pod) / "resolv.conf"
            replace_file(path, text.encode(), mode=0o644)
            found.append(Mount(str(path), "/etc/resolv.conf", optional=True))
        return tuple(found)

    def _hosts(self, pod: Object, pod_ip: str) -> Path:
        """Writes the /etc/hosts of the pod: the lines of the machine, the pod's own names and its hostAliases."""
        names = [_short_name(pod)]
        if subdomain := _subdomain(pod):
            names = [_full_name(pod), f"{names[0]}.{subdomain}", *names]
        known = Path("/etc/hosts").read_text().rstrip("\n")
        lines = ["# Kubernetes-managed hosts file.", known, f"{pod_ip}\t{' '.join(names)}"]
        aliases = mappings(spec_of(pod).get("hostAliases"))
        if aliases:
            lines += ["", "# Entries added by HostAliases."]
        lines += [f"{alias.get('ip')}\t{' '.join(alias.get('hostnames') or ())}" for alias in aliases]
        path = self._pods / uid_of(pod) / "etc-hosts"
        replace_file(path, "".join(f"{line}\n" for line in lines).encode(), mode=0o644)
        return path

    # What a container leaves

    def log_path(self, pod: Object, container: str, attempt: int) -> Path:
        namespace, name = key_of(pod)
        return self._logs / f"{namespace}_{name}_{uid_of(pod)}" / container / f"{attempt}.log"

    def _message_file(self, pod: Object, container: Object, attempt: int) -> Path:
        return self._pods / uid_of(pod) / "containers" / str(container["name"]) / f"message-{attempt}"

    def termination_message(self, pod: Object, container: Object, run: ContainerState) -> str:
        """Returns the termination message of the run, or the end of its log if it failed and its policy says so."""
        attempt = run.attempt
        try:
            message = beneath.read_start(self._message_file(pod, container, attempt), _MESSAGE_BYTES).decode(
                errors="replace"
            )
        except OSError:
            message = ""
        falls_back = container.get("terminationMessagePolicy") == "FallbackToLogsOnError" and run.exit_code
        if not message and falls_back:
            return self._end_of_log(self.log_path(pod, str(container["name"]), attempt))
        return message

    def _end_of_log(self, path: Path) -> str:
        try:
            with beneath.open_regular(path) as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 4 * _FALLBACK_BYTES))
                lines = file.read(4 * _FALLBACK_BYTES).decode(errors="replace").splitlines()
        except OSError:
            return ""
        texts = [line.split(" ", 3)[3] for line in lines[-_FALLBACK_LINES:] if line.count(" ") >= 3]
        return "\n".join(texts)[-_FALLBACK_BYTES:]


def hostname(pod: Object) -> str:
    """Returns the host name that containers of the pod see. Raises SetupError for a name that Linux refuses."""
    spec = spec_of(pod)
    if spec.get("hostNetwork"):
        return os.uname().nodename
    if not spec.get("setHostnameAsFQDN") or not _subdomain(pod):
        return _short_name(pod)
    name = _full_name(pod)
    if len(name) > _MOST_HOSTNAME:
        problem = f"FQDN {name} is too long ({_MOST_HOSTNAME} characters is the max, {len(name)} characters requested)"
        raise SetupError("FailedCreatePodSandBox", f"{problem}; shorten hostname or subdomain")
    return name


def _short_name(pod: Object) -> str:
    spec = spec_of(pod)
    name = str(spec.get("hostnameOverride") or spec.get("hostname") or key_of(pod)[1])
    # The shortened name must not end with a dot or a dash.
    return name if len(name) < _MOST_HOSTNAME else name[: _MOST_HOSTNAME - 1].rstrip("-.")


def _subdomain(pod: Object) -> str:
    """Returns the subdomain of the spec; empty if the pod has a hostnameOverride."""
    spec = spec_of(pod)
    return "" if spec.get("hostnameOverride") else str(spec.get("subdomain") or "")


def _full_name(pod: Object) -> str:
    return f"{_short_name(pod)}.{_subdomain(pod)}.{key_of(pod)[0]}.svc.cluster.local"


def _check_nul(container: Object) -> None:
    """Raises SetupError for NUL bytes, which the kernel refuses in arguments. Hooks and probes fail by themselves."""
    for problem in paths.no_nul({member: container.get(member) for member in _STARTED_WITH}, ""):
        place = f"container {container['name']}: {problem.field.removeprefix('.')}"
        raise SetupError("CreateContainerConfigError", f"{place}: {problem.detail}")


def _host_ports(spec: Object) -> tuple[HostPort, ...]:
    containers = (*mappings(spec.get("initContainers")), *mappings(spec.get("containers")))
    ports = [port for each in containers for port in mappings(each.get("ports")) if port.get("hostPort")]
    return tuple(
        HostPort(
            host_port=int(port["hostPort"]),
            container_port=int(port["containerPort"]),
            protocol=str(port.get("protocol") or "TCP"),
            host_ip=str(port.get("hostIP") or ""),
        )
        for port in ports
    )


def _total_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
