"""Two "machines" on this one: network namespaces with a link, addresses and host names of their own.

They share the file system, as machines with a network file system do.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

RENDEZVOUS_PORT = 29500
ENTER_MACHINE = 'hostname "$1"; mount --bind "$2" /etc/hosts; shift 2; exec "$@"'


@dataclass(frozen=True)
class Machine:
    """A network namespace, in which processes see a host name and a file /etc/hosts of their own."""

    namespace: str
    name: str
    address: str
    hosts: Path

    def start(self, command: list[str], log: Path, **environment: str) -> subprocess.Popen[bytes]:
        """Start a process, whose output is appended to a file. It has the process id of the command."""
        enter = ["ip", "netns", "exec", self.namespace, "unshare", "--uts", "--mount"]
        inside = ["sh", "-c", ENTER_MACHINE, "sh", self.name, str(self.hosts), *command]
        with log.open("ab") as output:
            return subprocess.Popen(
                [*enter, *inside],
                env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
                stdout=output,
                stderr=output,
            )

    def fail(self) -> None:
        """Disconnect the machine and end all of its processes, so that the other machine receives nothing more."""
        _ip("-n", self.namespace, "link", "set", "eth0", "down")
        _kill_processes(self.namespace)

    def recover(self) -> None:
        """Connect the machine again."""
        _ip("-n", self.namespace, "link", "set", "eth0", "up")


def torchrun(first: Machine, *command: str, max_restarts: int = 3) -> list[str]:
    """Return the command that starts one process on each of two machines."""
    rendezvous = ["--rdzv-backend=c10d", f"--rdzv-endpoint={first.name}:{RENDEZVOUS_PORT}"]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    return [*launcher, *rendezvous, f"--max-restarts={max_restarts}", *command]


def explain_missing_permission() -> str:
    """Say why this system cannot have such machines; empty if it can."""
    missing = [tool for tool in ("ip", "unshare", "mount", "hostname") if shutil.which(tool) is None]
    if sys.platform != "linux" or missing:
        return f"needs Linux with the commands {', '.join(missing)} (iproute2, util-linux)"
    if os.geteuid() != 0:
        return "needs root, to create network namespaces"
    try:
        with two_machines(Path(os.devnull), "manyglot-try"):
            return ""
    except subprocess.CalledProcessError as error:
        return f"cannot create network namespaces: {error.stderr.decode().strip()}"


@contextmanager
def two_machines(
    folder: Path, prefix: str = "manyglot", own_name_is_loopback: bool = False
) -> Iterator[tuple[Machine, Machine]]:
    """Create two connected machines. With `own_name_is_loopback`, each finds itself at 127.0.1.1, as Debian does."""
    addresses = {"first": "10.213.7.1", "second": "10.213.7.2"}
    machines = []
    for name, address in addresses.items():
        hosts = folder / f"hosts.{name}"
        if folder.is_dir():
            known = {**addresses, **({name: "127.0.1.1"} if own_name_is_loopback else {})}
            hosts.write_text("".join(f"{ip} {host}\n" for host, ip in {"localhost": "127.0.0.1", **known}.items()))
        machines.append(Machine(f"{prefix}-{os.getpid()}-{name}", name, address, hosts))
    first, second = machines
    with ExitStack() as stack:
        for machine in machines:
            _ip("netns", "add", machine.namespace)
            stack.callback(_delete, machine.namespace)
        _ip(*f"link add eth0 netns {first.namespace} type veth peer name eth0 netns {second.namespace}".split())
        for machine in machines:
            _ip("-n", machine.namespace, "addr", "add", f"{machine.address}/24", "dev", "eth0")
            for interface in ("lo", "eth0"):
                _ip("-n", machine.namespace, "link", "set", interface, "up")
        yield first, second


def children(process: int) -> list[int]:
    """Return the ids of the processes that a process has started, such as the workers of torchrun."""
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _kill_processes(namespace: str) -> None:
    """End all processes of a namespace, also those whose parent was killed."""
    for process in _ip("netns", "pids", namespace).split():
        with suppress(ProcessLookupError):
            os.kill(int(process), signal.SIGKILL)


def _delete(namespace: str) -> None:
    _kill_processes(namespace)
    _ip("netns", "delete", namespace)


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout
