"""Pods for tests: runs a manifest of `weft k8s` as Kubernetes would, on hosts of hosts.py.

Each pod is a host with its own address. Its command runs as process 1 and the manifest's user, in a read-only root, with only the
manifest's volumes, working folder and environment. Names appear as in a cluster: a pod's own at once, those of others `name_delay`
seconds after their start, none after their end. Pods that fail are replaced, at another address, or not, as the Job's rules say.

    with Cluster(manifest, folder, name_delay=2) as cluster:
        cluster.run(seconds=60)
"""

import os
import re
import subprocess
import time
from pathlib import Path

import yaml
from hosts import Host, Network, children_of, die_with_parent

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft"
# Contents of an image: this machine's Debian, and weft where it finds its libraries.
MAKE_ROOT = """
set -eu
root=$1 weft=$2 cache=$3 shm=$4
mount -t tmpfs -o mode=755 root "$root"
mkdir -p "$root"/usr "$root"/etc "$root"/dev "$root"/proc "$root"/tmp "$root"/opt/weft
for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$root/$folder"; done
mount --bind -o ro /usr "$root/usr"
mount --rbind /etc "$root/etc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o "mode=1777,size=$shm" shm "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mkdir -p "$root$cache"
mount --bind -o ro "$cache" "$root$cache"
cp "$weft" "$root/opt/weft/weft"
"""
SIZES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def documents(manifest):
    return list(yaml.safe_load_all(manifest))


def one(documents_, kind):
    found = [document for document in documents_ if document["kind"] == kind]
    return found[0] if found else None


class Pod:
    """One pod of a Job, from its start to its end."""

    def __init__(self, cluster, index):
        self.cluster, self.index, self.name = cluster, index, f"{cluster.host_stem}-{index}"
        self.host = Host(len(cluster.network.hosts))
        self.host.call("hostname", self.name)
        cluster.network.add(self.host)
        self.started = time.monotonic()
        self.log = cluster.folder / f"log.{self.host.number}"
        cluster.publish(now_in=self)
        with open(self.log, "wb") as log:
            self.program = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                            env={"PATH": os.environ["PATH"]}, preexec_fn=die_with_parent)

    def command(self):
        spec, root = self.cluster.pod_spec, Path(self.cluster.network.files.name) / f"root.{self.host.number}"
        root.mkdir()
        container = spec["containers"][0]
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        shm = volumes["shared-memory"]["emptyDir"]["sizeLimit"]
        shm = int(shm[:-2]) * SIZES[shm[-2:]]
        self.host.call("sh", "-c", MAKE_ROOT, "sh", str(root), os.environ["WEFT"], str(CACHE), str(shm))
        for mount in container["volumeMounts"]:
            volume, place = volumes[mount["name"]], f"{root}{mount['mountPath']}"
            if "emptyDir" in volume:
                continue  # made with the root
            self.host.call("mkdir", "-p", place)
            self.host.call("mount", "--bind", str(self.cluster.volume(volume)), place)
            if mount.get("readOnly"):
                self.host.call("mount", "-o", "remount,bind,ro", place)
        if container["securityContext"]["readOnlyRootFilesystem"]:
            self.host.call("mount", "-o", "remount,ro", str(root))
        environment = {"PATH": "/opt/weft:/usr/bin:/bin", "HOSTNAME": self.name, "JOB_COMPLETION_INDEX": str(self.index),
                       "KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
        environment |= {entry["name"]: self.cluster.value(entry) for entry in container["env"]}
        command = [self.expanded(part, environment) for part in container["command"]]
        user = f"{spec['securityContext']['runAsUser']}:{spec['securityContext']['runAsGroup']}"
        return self.host.command(["unshare", "--pid", "--fork", "--kill-child", f"--mount-proc={root}/proc", "--",
                                  "chroot", f"--userspec={user}", str(root), "env", "-i", "-C", container["workingDir"],
                                  *[f"{name}={value}" for name, value in environment.items()], *command])

    @staticmethod
    def expanded(text, environment):
        """$(NAME) as Kubernetes does it; $$(NAME) stays $(NAME)."""
        return re.sub(r"\$?\$\(([^)]*)\)", lambda m: m[0][1:] if m[0].startswith("$$") else environment.get(m[1], m[0]), text)

    def send_signal(self, number):
        """Signals process 1 of the pod: nsenter's grandchild."""
        for outer in children_of(self.program.pid):
            for inner in children_of(outer):
                os.kill(inner, number)

    def is_healthy(self):
        """Returns whether the liveness probe succeeds."""
        container = self.cluster.pod_spec["containers"][0]
        probe = container["livenessProbe"]["httpGet"]
        port = {port["name"]: port["containerPort"] for port in container["ports"]}[probe["port"]]
        status, _, _ = self.host.run(["python3", "-c", "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=5)",
                                      f"http://{self.host.address}:{port}{probe['path']}"])
        return status == 0

    def output(self):
        return self.log.read_text(errors="replace")

    def end(self):
        self.cluster.network.vanish(self.host)
        self.program.wait()


class Cluster:
    def __init__(self, manifest, folder, name_delay=0.0, late=None):
        """`folder` keeps the volumes' files from one Cluster to the next; `late`: index -> seconds by which that pod starts late."""
        self.documents, self.folder, self.name_delay, self.late = documents(manifest), Path(folder), name_delay, late or {}
        job, jobset = one(self.documents, "Job"), one(self.documents, "JobSet")
        if jobset:
            hosts = jobset["spec"]["replicatedJobs"][0]
            self.job, self.host_stem = hosts["template"]["spec"], f"{jobset['metadata']['name']}-{hosts['name']}-0"
            self.service = jobset["spec"]["network"]["subdomain"]
        else:
            self.job, self.host_stem = job["spec"], job["metadata"]["name"]
            self.service = self.job["template"]["spec"]["subdomain"]
            self.check_service()
        self.pod_spec = self.job["template"]["spec"]
        self.network, self.pods, self.done, self.failures, self.replaced = Network(0), {}, set(), {}, 0
        self.begin = time.monotonic()

    def check_service(self):
        service, labels = one(self.documents, "Service"), self.job["template"]["metadata"]["labels"]
        assert service["metadata"]["name"] == self.service and service["spec"]["clusterIP"] == "None", service
        assert service["spec"]["publishNotReadyAddresses"], "names would appear only with readiness"
        assert service["spec"]["selector"].items() <= labels.items(), (service, labels)

    def volume(self, volume):
        if "configMap" in volume:
            data = [d for d in self.documents if d["kind"] == "ConfigMap" and d["metadata"]["name"] == volume["configMap"]["name"]][0]["data"]
            place = self.folder / volume["name"]
            place.mkdir(exist_ok=True)
            for name, text in data.items():
                (place / name).write_text(text)
            return place
        place = self.folder / volume["persistentVolumeClaim"]["claimName"]
        place.mkdir(exist_ok=True)
        os.chown(place, 0, self.pod_spec["securityContext"]["fsGroup"])
        place.chmod(0o2775)
        return place

    def value(self, entry):
        if "value" in entry:
            return entry["value"]
        wanted = entry["valueFrom"]["secretKeyRef"]
        secret = [d for d in self.documents if d["kind"] == "Secret" and d["metadata"]["name"] == wanted["name"]][0]
        return secret["stringData"][wanted["key"]]

    def publish(self, now_in=None):
        """Gives each pod the names that the cluster's name server knows now; the kubelet adds a pod's own name."""
        now = time.monotonic()
        pods = list(self.pods.values()) + ([now_in] if now_in else [])
        known = {f"{pod.name}.{self.service}": pod.host.address for pod in pods if now - pod.started >= self.name_delay}
        for pod in pods:
            own = {f"{pod.name}.{self.service}": pod.host.address, pod.name: pod.host.address}
            names = known | own
            if getattr(pod, "names", None) != names:
                pod.names = names
                self.network.name_hosts(names, on=pod.host)

    def action(self, status):
        """The action of the Job's rules for an exit status."""
        for rule in self.job["podFailurePolicy"]["rules"]:
            if status in rule.get("onExitCodes", {}).get("values", []):
                return rule["action"]
        return "Count"

    def step(self):
        """One step of the Job's controller and the name server."""
        for index in range(self.job["completions"]):
            if index not in self.pods and index not in self.done and time.monotonic() - self.begin >= self.late.get(index, 0.0):
                self.pods[index] = Pod(self, index)
        for index, pod in list(self.pods.items()):
            status = pod.program.poll()
            if status is None:
                continue
            self.lose(index)
            if status == 0:
                self.done.add(index)
                continue
            action = self.action(status)
            if action == "FailJob":
                raise AssertionError(f"the Job failed, by pod {index}'s status {status}: {pod.output()}")
            if action == "Count":
                self.count(index, pod)
        self.publish()

    def count(self, index, pod):
        self.failures[index] = self.failures.get(index, 0) + 1
        if self.failures[index] > self.job.get("backoffLimitPerIndex", 0):
            raise AssertionError(f"the Job failed, pod {index} for good: {pod.output()}")

    def lose(self, index):
        """Ends the pod, whatever it is doing."""
        self.pods.pop(index).end()
        self.replaced += 1

    def run(self, seconds, until=lambda: False):
        """Runs until all pods are done, or until() is true."""
        end = time.monotonic() + seconds
        while len(self.done) < self.job["completions"] and not until():
            if time.monotonic() > end:
                raise AssertionError(f"not done after {seconds} s:\n{self.outputs()}")
            self.step()
            time.sleep(0.05)

    def outputs(self):
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("log.*")))

    def close(self):
        self.network.close()
        for pod in self.pods.values():
            pod.program.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
