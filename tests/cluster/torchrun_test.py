"""weft train under PyTorch 2.11's torchrun, an agent on each of two hosts: its ranks join torchrun's store.

torchrun comes from tools/bootstrap --tests: the Python parts of PyTorch's wheel, on the wheel's libraries that weft itself links.
"""

import os
import pathlib
import shutil
import subprocess
import time

from launched import WEFT, HostsTest, Started

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "weft"
PACKAGES, LIBTORCH = CACHE / "test-packages", CACHE / "libtorch-2.11.0"
PYTHON_PART = PACKAGES / "torch" / "lib" / "libtorch_python.so"


def empty_libraries(folder, path):
    """Makes empty stand-ins for missing CUDA libraries that the Python part links but no CPU call enters."""
    listed = subprocess.run(["ldd", PYTHON_PART], env=dict(os.environ, LD_LIBRARY_PATH=path), capture_output=True, text=True, check=True)
    folder.mkdir()
    for line in listed.stdout.splitlines():
        name, _, where = line.strip().partition(" => ")
        if where.startswith("not found"):
            subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", f"-Wl,-soname,{name}", "-o", folder / name], check=True)


class TorchrunTest(HostsTest):
    def setUp(self):
        super().setUp()
        self.assertTrue(PYTHON_PART.exists(), f"no {PYTHON_PART}: run tools/bootstrap --tests")
        path = f"{LIBTORCH}/torch/lib:{LIBTORCH}/nvidia/cu13/lib"
        empty_libraries(self.folder / "empty", path)
        self.environment = {"PYTHONPATH": PACKAGES, "LD_LIBRARY_PATH": f"{path}:{self.folder}/empty", "TORCH_USE_RTLD_GLOBAL": 1,
                            "OMP_NUM_THREADS": 1}
        self.python = shutil.which("python3.11") or shutil.which("python3")

    def torchrun(self, node, *words, ranks=2):
        command = [self.python, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", str(ranks), "--rdzv-backend", "c10d",
                   "--rdzv-endpoint", "host0:29500", "--rdzv-id", "weft", *words]
        self.started.append(Started(self.hosts[node], command, self.folder, self.environment))
        return self.started[-1]

    def train(self, node, recipe, *words, launcher=()):
        # LD_LIBRARY_PATH is for Python: weft finds its own libraries.
        return self.torchrun(node, *launcher, "--no-python", "env", "-u", "LD_LIBRARY_PATH", WEFT, "train", recipe, *words)

    def test_same_bits_as_one_host(self):
        recipe = self.recipe("both")
        agents = [self.train(node, recipe, "--save", "both.safetensors") for node in range(2)]
        self.assertEqual([agent.wait() for agent in agents], [0, 0], agents[0].text() + agents[1].text())
        self.train_alone("one", 2)
        self.assertEqual((self.folder / "both.safetensors").read_bytes(), (self.folder / "one.safetensors").read_bytes())

    def test_torchrun_restarts_and_weft_resumes(self):
        recipe = self.recipe("again", steps=300)
        agents = [self.train(node, recipe, launcher=["--max-restarts", "2", "--monitor-interval", "0.1"]) for node in range(2)]
        self.wait_for_save()
        _, text, _ = self.hosts[1].run(["pgrep", "-f", f"^{WEFT} train again.toml"])
        self.hosts[1].run(["kill", "-9", text.split()[0]])
        self.assertEqual([agent.wait(90) for agent in agents], [0, 0], agents[0].text() + agents[1].text())
        self.assertIn("resuming from", agents[0].text() + agents[1].text())

    def wait_for_save(self):
        """Waits for a save on either host: torchrun chooses which one has rank 0."""
        end = time.monotonic() + 60
        while not any("saved again/step-" in agent.text() for agent in self.started):
            self.assertLess(time.monotonic(), end, "".join(agent.text() for agent in self.started))
            time.sleep(0.05)
