"""A SLURM cluster for tests: slurmctld on host0, a slurmd on each host after it, each host a network namespace (hosts.py).

Runs Debian's slurm-wlm and munge with a separate key and folders: nothing of /etc/slurm or /etc/munge is read or changed.
Everything ends with the hosts.

    with SlurmCluster(2) as cluster:
        status, out, err = cluster.run(["srun", "-N2", "hostname"])
"""

import os
import subprocess
import tempfile
from pathlib import Path

from hosts import Host, Network, wait_for

# Short-lived credentials let a requeued job restart after seconds instead of two minutes.
CONFIGURATION = """
ClusterName=weft
SlurmctldHost=host0
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=/run/munge/munge.socket.2,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdTimeout=4
MessageTimeout=3
TCPTimeout=1
InactiveLimit=0
KillWait=2
JobCompType=jobcomp/none
NodeName=host[1-{nodes}] CPUs=4 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
# Allows more CPUs than the machine has, so that four ranks fit on any machine.
SlurmdParameters=config_overrides
"""


class SlurmCluster:
    def __init__(self, nodes):
        self.files = tempfile.TemporaryDirectory(prefix="weft-slurm-")
        self.folder = Path(self.files.name)
        self.network = None
        try:
            (self.folder / "state").mkdir()
            key = self.folder / "munge.key"
            key.write_bytes(os.urandom(128))
            key.chmod(0o600)
            self.configuration = self.folder / "slurm.conf"
            self.configuration.write_text(CONFIGURATION.format(folder=self.folder, nodes=nodes))
            self.network = Network(nodes + 1)
            self.names = {host.name: host.address for host in self.network.hosts}
            for host in self.network.hosts:
                self.prepare(host)
            self.daemon(self.network.hosts[0], "slurmctld", "-D", "-i")
            for host in self.network.hosts[1:]:
                self.start_node(host)
            self.wait_for_nodes(nodes)
        except BaseException:
            self.close()
            raise

    def prepare(self, host):
        """Starts munge on a host, with its own /run."""
        host.call("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
        host.call("mkdir", "-m", "755", "/run/munge")
        self.daemon(host, "munged", "--foreground", "--force", f"--key-file={self.folder}/munge.key", "--socket=/run/munge/munge.socket.2",
                    "--pid-file=/run/munge/pid", "--log-file=/run/munge/log", "--seed-file=/run/munge/seed")
        wait_for(lambda: os.path.exists(f"/proc/{host.pid}/root/run/munge/munge.socket.2"), "munged")

    def daemon(self, host, *argv):
        with open(self.folder / f"{argv[0]}.{host.name}.log", "a", encoding="utf-8") as log:
            host.start(argv, self.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def environment(self):
        # Removes what a cluster gave this process itself.
        strange = {name: None for name in os.environ if name.startswith(("SLURM_", "SBATCH_", "WEFT_", "OMPI_", "PMI"))}
        return {**strange, "SLURM_CONF": self.configuration}

    def start_node(self, host):
        (self.folder / f"spool.{host.name}").mkdir(exist_ok=True)
        self.daemon(host, "slurmd", "-D", "-N", host.name)

    def lose(self, host):
        """Ends a node as a power failure would."""
        self.network.vanish(host)

    def replace(self, number):
        """Starts a node that replaces a lost one under the same name."""
        host = Host(number)
        self.network.add(host)
        self.network.named.discard(number)
        self.network.name_hosts(self.names, on=host)
        self.prepare(host)
        self.start_node(host)
        return host

    def wait_for_nodes(self, nodes):
        wait_for(lambda: self.run(["sinfo", "-h", "-o", "%D %T"])[1].strip() == f"{nodes} idle", f"{nodes} idle nodes", 30)

    def start(self, argv, env=None, **options):
        return self.network.hosts[0].start(argv, {**self.environment(), **(env or {})}, **options)

    def run(self, argv, env=None, timeout=120, **options):
        return self.network.hosts[0].run(argv, {**self.environment(), **(env or {})}, timeout, **options)

    def submit(self, *argv, **options):
        """Submits a job; returns its number."""
        status, out, err = self.run(["sbatch", "--parsable", *argv], **options)
        if status != 0:
            raise AssertionError(f"sbatch {argv}: {err}")
        return out.strip()

    def job(self, number):
        """SLURM's record of a job: {"JobState": "RUNNING", "Restarts": "0", ...}."""
        status, out, err = self.run(["scontrol", "-o", "show", "job", number])
        if status != 0:
            raise AssertionError(f"scontrol show job {number}: {err}")
        return dict(part.split("=", 1) for part in out.split() if "=" in part)

    def wait_for_state(self, number, states, seconds=60):
        return wait_for(lambda: (job := self.job(number))["JobState"] in states and job, f"job {number} in {states}", seconds)

    def close(self):
        if self.network:
            self.network.close()
        self.files.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
