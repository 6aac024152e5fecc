"""Manifests of `weft k8s`: validated against Kubernetes' published schemas, and run pod by pod with only what they give a pod."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft"
sys.path.append(str(CACHE / "kubernetes-validate"))

import kubernetes_validate  # noqa: E402
from pods import Cluster, documents, one  # noqa: E402

WEFT = os.environ["WEFT"]
OLDEST, NEWEST = "1.29", "1.37"  # of Kubernetes: the manifest's minimum, and the newest in the schemas
RECIPE = """
model = { name = "mlp", layers = 1, width = 16 }
data = { name = "fashion-mnist" }
batch = { global = 16 }
optimizer = { name = "sgd", lr = 0.01 }
run = { steps = 60, reproducible_slots = 2, timeout_s = 30 }
save = { folder = "runs/a", every = "50 steps" }
"""
LONG = ["--set", "run.steps=600"]  # long enough to be disturbed


def weft(*arguments, status=0):
    result = subprocess.run([WEFT, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert result.returncode == status, (result.returncode, result.stdout, result.stderr)
    return result.stdout if status == 0 else result.stderr


class KubernetesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weft-kubernetes-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.recipe = self.folder / "mlp.toml"
        self.recipe.write_text(RECIPE)

    def manifest(self, *arguments):
        return weft("k8s", self.recipe, "--image", "weft", *arguments)


class Schemas(KubernetesTest):
    CASES = [
        ["--nodes", 2, "-n", 1, "--claim", "files"],
        ["--nodes", 1, "--gpus", 8, "--storage", "10Gi", "--set", "run.reproducible_slots=0"],
        ["--nodes", 4, "--gpus", 8, "--storage", "1Ti", "--storage-class", "fast", "--data", "corpus:/data", "--env-from-secret", "s3",
         "--service-account", "trainer", "--token-secret", "mine", "--namespace", "team", "--one-pod-a-node", "--set", "batch.global=32",
         "--set", "run.reproducible_slots=0"],
    ]

    def test_kubernetes(self):
        for arguments in self.CASES:
            for document in documents(self.manifest(*arguments)):
                for version in (OLDEST, NEWEST):
                    kubernetes_validate.validate(document, version, strict=True)

    def test_jobset(self):
        """JobSet's own schema is not among them; the Job in it is Kubernetes'."""
        for arguments in self.CASES:
            for document in documents(self.manifest("--jobset", *arguments)):
                job = document
                if document["kind"] == "JobSet":
                    self.assertEqual(document["apiVersion"], "jobset.x-k8s.io/v1alpha2")
                    (hosts,) = document["spec"]["replicatedJobs"]
                    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": document["metadata"], **hosts["template"]}
                for version in (OLDEST, NEWEST):
                    kubernetes_validate.validate(job, version, strict=True)

    def test_a_wrong_one_is_refused(self):
        job = one(documents(self.manifest("--nodes", 2, "-n", 1, "--claim", "files")), "Job")
        job["spec"]["completionMod"] = job["spec"].pop("completionMode")
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(job, OLDEST, strict=True)


class Pods(KubernetesTest):
    def start(self, *arguments, **cluster):
        manifest = self.manifest("--nodes", 2, "-n", 1, "--claim", "files", "--cpus", 1, "--memory", "1Gi", "--shared-memory", "64Mi", *arguments)
        cluster = Cluster(manifest, self.folder, **cluster)
        self.addCleanup(cluster.close)
        return cluster

    def check(self, cluster, *arguments, folder="runs/a"):
        """Compares with the same training, undisturbed, on one machine: with reproducible_slots it has the same bits."""
        expected = weft("train", self.recipe, "-n", 2, *arguments, "--set", f"save.folder={self.folder}/reference", "--resume", "none")
        self.assertEqual(self.last_loss(cluster.outputs()), self.last_loss(expected))
        shutil.rmtree(self.folder / "reference")
        self.assertTrue(any((self.folder / "files" / folder).glob("step-*/complete.json")))

    @staticmethod
    def last_loss(text):
        found = re.findall(r"step +(\d+)/\1 +loss ([0-9.]+)", text)
        assert found, text
        return found[-1]

    def test_names_and_pods_come_late(self):
        cluster = self.start(name_delay=2.0, late={1: 3.0})
        cluster.run(3, until=lambda: 0 in cluster.pods and cluster.pods[0].is_healthy())
        self.assertTrue(cluster.pods[0].is_healthy() and 1 not in cluster.pods, "the kubelet would end a head that waits")
        cluster.run(60)
        self.check(cluster)
        self.assertEqual(cluster.failures, {})

    def test_head_comes_late(self):
        cluster = self.start("--jobset", name_delay=1.0, late={0: 3.0})
        cluster.run(60)
        self.check(cluster)
        self.assertEqual(cluster.failures, {})

    def replace(self, index):
        cluster = self.start(*LONG, name_delay=1.0)
        cluster.run(60, until=(self.folder / "files/runs/a/step-00000050/complete.json").exists)
        cluster.lose(index)
        cluster.run(90)
        self.check(cluster, *LONG)
        return cluster

    def test_a_pod_is_replaced(self):
        self.assertEqual(self.replace(1).failures, {})

    def test_the_head_is_replaced(self):
        """The other pod joins the new head at its new address."""
        self.assertEqual(self.replace(0).failures, {})

    def test_healthy_and_asked_to_stop(self):
        cluster = self.start(*LONG)
        cluster.run(60, until=lambda: len(cluster.pods) == 2 and all(pod.is_healthy() for pod in cluster.pods.values()))
        cluster.run(60, until=(self.folder / "files/runs/a/step-00000050/complete.json").exists)
        for pod in cluster.pods.values():
            pod.send_signal(signal.SIGTERM)
        begin = time.monotonic()
        statuses = [pod.program.wait(timeout=cluster.pod_spec["terminationGracePeriodSeconds"]) for pod in cluster.pods.values()]
        self.assertEqual(statuses, [75, 75], cluster.outputs())
        self.assertLess(time.monotonic() - begin, 10)
        cluster.run(60)  # replaced, and not counted as failed
        self.assertEqual(cluster.failures, {})
        self.check(cluster, *LONG)


if __name__ == "__main__":
    unittest.main()
