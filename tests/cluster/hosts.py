"""Hosts for tests: network namespaces joined by a switch, on this machine, which they leave unchanged.

Each host has its own network (10.77.0.1, 10.77.0.2, ... on eth0), host name (host0, host1, ...), processes, /dev/shm and
/etc/hosts; files are shared, as on a cluster with a common file system. The switch is a bridge in its own namespace. Everything is
held by processes that end with this one, however it ends; the kernel then removes the rest. Needs root and iproute2.

    with Network(2, rate="1gbit") as network:
        program = network.hosts[0].start(["hostname"], stdout=subprocess.PIPE, text=True)
"""

import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time

ANCHOR = ["unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child", "sleep", "infinity"]
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def wait_for(condition, what, seconds=10.0):
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} after {seconds} s")
        time.sleep(0.01)
    return value


class Space:
    """A set of namespaces, kept by a process that sleeps."""

    def __init__(self):
        self.anchor = subprocess.Popen(ANCHOR, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
        self.pid = wait_for(lambda: children_of(self.anchor.pid), "namespace")[0]
        # unshare has finished once its child runs sleep.
        wait_for(lambda: os.readlink(f"/proc/{self.pid}/exe").endswith("sleep"), "sleeper")

    def command(self, argv, cwd="/"):
        return ["nsenter", "-t", str(self.pid), "-n", "-u", "-i", "-m", "-p", f"--wdns={cwd}", "--", *argv]

    def call(self, *argv):
        subprocess.run(self.command(argv), check=True)

    def end(self):
        """Kills all its processes at once."""
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.anchor.wait()


def burst(rate):
    """Burst of a link of that rate ("10mbit", "1gbit"): 2 ms of traffic, and at least a few packets."""
    bits = float(rate[:-4]) * {"mbit": 1e6, "gbit": 1e9}[rate[-4:]]
    return str(max(16_000, int(bits / 8 * 2e-3)))


class Program(subprocess.Popen):
    """A program on a host. Signals reach the program, not the nsenter that waits for it."""

    def send_signal(self, sig):
        for pid in children_of(self.pid):
            try:
                os.kill(pid, sig)
            except ProcessLookupError:  # it has just ended
                pass
        if sig == signal.SIGCONT and self.poll() is None:
            os.kill(self.pid, sig)  # it has stopped with its program


class Host(Space):
    def __init__(self, number):
        super().__init__()
        self.number, self.name, self.address = number, f"host{number}", f"10.77.0.{number + 1}"
        self.call("hostname", self.name)
        self.call("mount", "-t", "tmpfs", "tmpfs", "/dev/shm")
        self.call("ip", "link", "set", "lo", "up")

    def start(self, argv, env=None, cwd="/", **options):
        """Starts a program; options are those of Popen, `env` is added to the environment (None removes a name)."""
        whole = dict(os.environ)
        for key, value in (env or {}).items():
            whole.pop(key, None) if value is None else whole.__setitem__(key, str(value))
        return Program(self.command([str(part) for part in argv], cwd), env=whole, preexec_fn=die_with_parent, **options)

    def run(self, argv, env=None, timeout=120, **options):
        """Runs a program to its end; returns (status, standard output, standard error)."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        with self.start(argv, env, **options) as program:
            try:
                out, err = program.communicate(timeout=timeout)
            except BaseException:
                program.send_signal(signal.SIGKILL)
                raise
        return program.returncode, out, err

    def listening(self):
        """The (address, port) pairs on which programs listen, from both kernel tables; "::" for all interfaces."""
        _, tables, _ = self.run(["cat", "/proc/net/tcp", "/proc/net/tcp6"])
        fields = [line.split() for line in tables.splitlines()]
        places = [field[1].split(":") for field in fields if len(field) > 3 and field[3] == "0A"]
        return {(socket.inet_ntoa(struct.pack("<I", int(address, 16))) if len(address) == 8 else "::", int(port, 16))
                for address, port in places}

    def tmpfs(self, folder, size):
        """Mounts a small disk at that folder, on this host only."""
        self.call("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))

    def sent_bytes(self):
        """Bytes that this host's interface has sent since its creation, headers included."""
        _, text, _ = self.run(["ip", "-s", "-j", "link", "show", "eth0"])
        return json.loads(text)[0]["stats64"]["tx"]["bytes"]


class Network:
    """`count` hosts on one switch; `rate` is each host's speed, both ways, in tc's notation ("1gbit")."""

    def __init__(self, count, rate=None):
        self.files = tempfile.TemporaryDirectory(prefix="weft-hosts-")
        self.hosts, self.switch, self.named = [], None, set()
        try:
            self.switch = Space()
            self.switch.call("ip", "link", "add", "switch", "type", "bridge")
            self.switch.call("ip", "link", "set", "switch", "up")
            for number in range(count):
                self.add(Host(number))
            self.name_hosts({host.name: host.address for host in self.hosts})
            if rate:
                for host in self.hosts:
                    self.limit(host, rate)
        except BaseException:
            self.close()
            raise

    def add(self, host):
        """Joins a host to the switch; it may replace one that has ended."""
        if host.number < len(self.hosts):
            self.hosts[host.number] = host
        else:
            self.hosts.append(host)
        port = f"port{host.number}"
        # Removes the port of a host before it, which the kernel would do only later.
        subprocess.run(self.switch.command(["ip", "link", "del", port]), stderr=subprocess.DEVNULL, check=False)
        # Uses the host's pid as this process sees it, so without the switch's own view of processes.
        subprocess.run(["nsenter", "-t", str(self.switch.pid), "-n", "ip", "link", "add", port, "type", "veth", "peer", "name",
                        "eth0", "netns", str(host.pid)], check=True)
        self.switch.call("ip", "link", "set", port, "master", "switch", "up")
        host.call("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        host.call("ip", "link", "set", "eth0", "up")

    def name_hosts(self, names, on=None):
        """Writes /etc/hosts of one host, or of all; there are no other names."""
        for host in [on] if on else self.hosts:
            path = os.path.join(self.files.name, f"hosts.{host.number}")
            fresh = not os.path.exists(path)
            with open(path, "w", encoding="ascii") as file:
                file.write("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in names.items()))
            if fresh or host.number not in self.named:
                host.call("mount", "--bind", path, "/etc/hosts")
                self.named.add(host.number)

    def limit(self, host, rate):
        """Limits the rate at which the host sends and receives; None removes the limit."""
        for space, device in ((host, "eth0"), (self.switch, f"port{host.number}")):
            subprocess.run(space.command(["tc", "qdisc", "del", "dev", device, "root"]), stderr=subprocess.DEVNULL, check=False)
            if rate:
                space.call("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", burst(rate), "latency", "50ms")

    def cut(self, host):
        """Unplugs the host: packets are lost without notice."""
        self.switch.call("ip", "link", "set", f"port{host.number}", "nomaster")

    def mend(self, host):
        self.switch.call("ip", "link", "set", f"port{host.number}", "master", "switch")

    def vanish(self, host):
        """The host is gone, like one whose power failed: no FIN, no RST."""
        self.cut(host)
        host.end()

    def close(self):
        for host in self.hosts:
            host.end()
        if self.switch:
            self.switch.end()
        self.files.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
