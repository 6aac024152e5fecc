"""The image of container/Dockerfile, built by buildah without a daemon on a Debian made here, and a training in it.

weft itself is not rebuilt in it: its tree comes from the build under test. All files are in a temporary folder, except the clean
Debian in weft's cache folder. Needs root, buildah, debootstrap and Debian's mirror.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from hosts import children_of, die_with_parent

SOURCE = Path(__file__).resolve().parents[2]
MOST_MEGABYTES = 900
RECIPE = """
model = { name = "mlp", layers = 1, width = 16 }
data = { name = "fashion-mnist" }
batch = { global = 16 }
optimizer = { name = "sgd", lr = 0.01 }
run = { steps = 40, reproducible_slots = 2 }
save = { folder = "runs/a", every = "10 steps" }
"""
LAST = r"step +40/40 +loss ([0-9.]+)"


def call(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600, **options)
    assert result.returncode == 0, f"{command}: {result.returncode}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
    return result.stdout.strip()


class ContainerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="weft-container-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        (cls.folder / "tmp").mkdir()
        cls.make_base()
        cls.make_image()
        cls.container = cls.buildah("from", "weft")
        cls.root = Path(cls.buildah("mount", cls.container))

    @classmethod
    def buildah(cls, *arguments):
        storage = ["--root", cls.folder / "storage", "--runroot", cls.folder / "run", "--storage-driver", "vfs"]
        environment = {**os.environ, "TMPDIR": str(cls.folder / "tmp"), "BUILDAH_ISOLATION": "chroot"}
        return call("buildah", *storage, *arguments, env=environment)

    @classmethod
    def make_base(cls):
        clean, archive = call(SOURCE / "tests/install/clean_debian"), cls.folder / "base.tar"
        call("tar", "-C", clean, "--exclude=./var/cache/apt/archives/*.deb", "--exclude=./var/lib/apt/lists/*", "-cf", archive, ".")
        container = cls.buildah("from", "scratch")
        cls.buildah("add", "-q", container, archive, "/")
        cls.buildah("commit", "-q", "--rm", container, "base")
        archive.unlink()

    @classmethod
    def make_image(cls):
        context = cls.folder / "context"
        for name in ("container", "tools"):
            shutil.copytree(SOURCE / name, context / name)
        shutil.copy(SOURCE / ".dockerignore", context)
        call(SOURCE / "container/make_tree", Path(os.environ["WEFT"]).parent, context / "build/image")
        cls.buildah("build", "-q", "-f", context / "container/Dockerfile", "-t", "weft", "--build-arg", "BASE=localhost/base",
                    "--build-arg", "TREE=build/image", "--build-arg", "PACKAGES=dataset-fashion-mnist", context)
        shutil.rmtree(context)

    def test_size_and_settings(self):
        image = json.loads(self.buildah("inspect", "--type", "image", "weft"))["OCIv1"]["config"]
        self.assertEqual((image["User"], image["WorkingDir"], image["Entrypoint"]), ("1000:1000", "/work", ["weft"]))
        megabytes = int(call("du", "-s", "--apparent-size", "--block-size=1000000", self.root).split()[0])
        self.assertLess(megabytes, MOST_MEGABYTES)
        self.assertGreater(megabytes, 300)  # LibTorch is in it
        self.assertFalse((self.root / "source").exists() or (self.root / "opt/weft").exists())
    def work(self):
        work = Path(tempfile.mkdtemp(dir=self.folder))
        (work / "mlp.toml").write_text(RECIPE)
        os.chown(work, 1000, 1000)
        return work

    def files(self):
        """All files in the container, except /proc and the volume."""
        output = call("find", self.root, "-xdev", "-path", self.root / "proc", "-prune", "-o", "-path", self.root / "work", "-prune", "-o",
                      "-type", "d", "-printf", "%p\n", "-o", "-printf", "%p %s %T@\n")
        return set(output.splitlines())

    def test_trains(self):
        work, before = self.work(), self.files()
        output = self.buildah("run", "-v", f"{work}:/work", self.container, "--", "weft", "train", "mlp.toml", "-n", 2)
        expected = call(os.environ["WEFT"], "train", work / "mlp.toml", "-n", 2, "--set", f"save.folder={work}/reference")
        self.assertEqual(re.findall(LAST, output), re.findall(LAST, expected), output)
        self.assertTrue(re.findall(LAST, output), output)
        saved = work / "runs/a/step-00000040/complete.json"
        self.assertEqual(saved.stat().st_uid, 1000)
        self.assertEqual(self.files() - before, set())
        self.assertEqual(sorted(path.name for path in work.iterdir()), ["mlp.toml", "reference", "runs"])

    def test_saves_when_asked_to_stop(self):
        """As process 1, for which signals have no default action."""
        work = self.work()
        call("mount", "--bind", work, self.root / "work")
        self.addCleanup(call, "umount", self.root / "work")
        command = ["unshare", "--pid", "--mount", "--fork", "--kill-child", f"--mount-proc={self.root}/proc", "chroot", "--userspec=1000:1000", self.root,
                   "env", "-i", "-C", "/work", "weft", "train", "mlp.toml", "-n", "2", "--set", "run.steps=1000000"]
        with subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=die_with_parent) as run:
            end = time.monotonic() + 60
            while not (work / "runs/a/step-00000010/complete.json").exists() and time.monotonic() < end and run.poll() is None:
                time.sleep(0.05)
            for pid in children_of(run.pid):
                os.kill(pid, signal.SIGTERM)
            status = run.wait(30)
            self.assertEqual(status, 75, run.stderr.read())


if __name__ == "__main__":
    unittest.main()
