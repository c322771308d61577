"""API servers of several kinds, started and stopped: ours in this process, ours in another, and Kubernetes' own."""

import base64
import contextlib
import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from dray.client.api import ApiClient
from dray.client.endpoint import Endpoint
from dray.client.http import HttpTransport
from dray.client.kubeconfig import Kubeconfig
from dray.server.api_server import ApiServer
from dray.server.application import Application
from dray.server.context import Context
from dray.server.inprocess import InProcessTransport
from dray.store.memory import MemoryStore

ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
# Whatever of this a version knows is switched on.
GATES = (
    "DynamicResourceAllocation",
    "DRAAdminAccess",
    "DRAPrioritizedList",
    "DRAPartitionableDevices",
    "DRAConsumableCapacity",
    "DRADeviceTaints",
    "DRADeviceTaintRules",
    "DRADeviceBindingConditions",
    "DRAResourceClaimDeviceStatus",
    "DRAExtendedResource",
    "DRANodeAllocatableResources",
    "DRAWorkloadResourceClaims",
    "GenericWorkload",
    "GangScheduling",
    "TopologyAwareWorkloadScheduling",
)


def free_ports(count):
    """All of them different."""
    with contextlib.ExitStack() as open_ones:
        probes = [open_ones.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def _answers(url, token=""):
    """Whether there is somebody who answers, and not with a refusal."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    # Straight there, whatever proxies the machine is set up with.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusting))
    headers = {"authorization": f"Bearer {token}"} if token else {}
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=5):
            return True
    except (OSError, http.client.HTTPException):
        return False


class InProcessServer:
    """In this process; each loop that asks has a server of its own."""

    name = "in process"
    url = token = ""

    def start(self):
        pass

    def stop(self):
        pass

    @contextlib.asynccontextmanager
    async def serving(self):
        server = ApiServer(Context(MemoryStore()))
        await server.start()
        application = Application(server)

        def client():
            return ApiClient(InProcessTransport(application))

        try:
            yield client, client
        finally:
            await server.close()


class _Process:
    url = token = ""
    patience = 60.0
    """How long it may take to start."""

    def __init__(self, folder):
        self._folder = Path(folder)
        self._process = None

    def _run(self, name, *command):
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def _end(self, process, *, kill=False):
        if process is None:
            return
        (process.kill if kill else process.terminate)()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            # It is polite to whoever still watches.
            process.kill()
            process.wait(20)

    def _wait_for(self, name, process, url):
        """Returns when what is there says that it is."""
        end = time.monotonic() + self.patience
        while not _answers(url, self.token):
            assert process.poll() is None, f"{name} ended with {process.returncode}: {self._last_words(name)}"
            assert time.monotonic() < end, f"{url} does not answer: {self._last_words(name)}"
            time.sleep(0.1)

    def _last_words(self, name):
        return (self._folder / f"{name}.log").read_text(errors="replace")[-4000:]

    def restart(self):
        """As after a crash: it is killed, and is there again after a while."""
        self._end(self._process, kill=True)
        time.sleep(0.3)
        self.start()

    @contextlib.asynccontextmanager
    async def serving(self):
        """What makes a client for the test, and what makes one for the control plane."""

        def client():
            return ApiClient(HttpTransport(self.endpoint()))

        yield client, client


class DrayServer(_Process):
    """`dray apiserver`, in a process of its own."""

    name = "dray apiserver"

    def __init__(self, folder):
        super().__init__(folder)
        (self._port,) = free_ports(1)
        self._kubeconfig = self._folder / "kubeconfig"

    def start(self):
        options = ("--data", str(self._folder / "data"), "--insecure-http", "--port", str(self._port))
        main = "from dray.cli import main; main()"
        self._process = self._run(
            "apiserver", sys.executable, "-c", main, "apiserver", *options, "--kubeconfig", str(self._kubeconfig)
        )
        self.url = f"http://127.0.0.1:{self._port}"
        self._wait_for("apiserver", self._process, f"{self.url}/readyz")

    def stop(self):
        self._end(self._process)

    def endpoint(self):
        return Kubeconfig.load([self._kubeconfig]).endpoint()


class KubernetesServer(_Process):
    """etcd and kube-apiserver, as KUBEBUILDER_ASSETS has them. Nothing else of Kubernetes runs."""

    name = "kube-apiserver"
    token = base64.b32encode(b"only for tests").decode().rstrip("=").lower()
    patience = 120.0

    def __init__(self, folder):
        super().__init__(folder)
        self._port, self._etcd_port, self._peer_port = free_ports(3)
        self._etcd = None
        self._program = str(Path(ASSETS) / "kube-apiserver")

    @staticmethod
    def missing():
        """What is not there, if anything."""
        if not ASSETS:
            return "KUBEBUILDER_ASSETS names no folder with kube-apiserver and etcd"
        names = ("kube-apiserver", "etcd")
        lacking = [name for name in names if not shutil.which(str(Path(ASSETS) / name))]
        return f"{ASSETS} has no {' and no '.join(lacking)}" if lacking else ""

    def start(self):
        if self._etcd is None:
            self._start_etcd()
            self._write_secrets()
        self._process = self._run("kube-apiserver", self._program, *self._options())
        self.url = f"https://127.0.0.1:{self._port}"
        self._wait_for("kube-apiserver", self._process, f"{self.url}/readyz")
        # It is made in the background, and nothing can be made in it before.
        self._wait_for("kube-apiserver", self._process, f"{self.url}/api/v1/namespaces/default")

    def _start_etcd(self):
        peers, clients = f"http://127.0.0.1:{self._peer_port}", f"http://127.0.0.1:{self._etcd_port}"
        self._etcd = self._run(
            "etcd",
            str(Path(ASSETS) / "etcd"),
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
        )
        # A server that finds no store gives up.
        self._wait_for("etcd", self._etcd, f"{clients}/health")

    def _write_secrets(self):
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (self._folder / "sa.key").write_bytes(private)
        (self._folder / "sa.pub").write_bytes(public)
        (self._folder / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\n')

    def _options(self):
        options = [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            # Without one it looks for a route to the world, and does not start where there is none. Nobody is there.
            "--advertise-address=192.0.2.1",
            f"--secure-port={self._port}",
            f"--cert-dir={self._folder / 'certificates'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._folder / 'sa.pub'}",
            f"--service-account-signing-key-file={self._folder / 'sa.key'}",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            # Nobody makes service accounts here.
            "--disable-admission-plugins=ServiceAccount",
            "--runtime-config=api/all=true",
        ]
        if gates := ",".join(f"{name}=true" for name in self._gates()):
            options.append(f"--feature-gates={gates}")
        return options

    def _gates(self):
        """Those that this version has and that are not fixed."""
        text = subprocess.run([self._program, "--help"], capture_output=True, text=True, check=True).stdout
        listed = set(re.findall(r"(?:kube:)?(\w+)=true\|false", text))
        return [name for name in GATES if name in listed]

    def stop(self):
        try:
            self._end(self._process)
        finally:
            self._end(self._etcd)

    def endpoint(self):
        return Endpoint(self.url, insecure=True, token=self.token)
