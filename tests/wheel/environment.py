"""The wheel as users get it: packed by tools/wheel, installed without a network into a clean virtual environment, and used there, as
`nobody` when started by root.

The environment's torch is the one in weft's cache, by links: the LibTorch that weft links, and the Python parts that tools/bootstrap
--tests unpacks. Unlike one that pip installs, it lacks CUDA's libraries but two: for those of them that importing torch loads, empty
ones are made, which no CPU call enters. Of pyarrow there are only the libraries.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Environment:
    """A virtual environment with weft and a torch in a world-readable folder."""

    peers = ("transformers", "safetensors", "accelerate", "pytorch_lightning", "lightning_fabric", "lightning_utilities", "torchmetrics", "fsspec",
             "psutil", "torchvision", "PIL", "pillow")
    used_by_peers = ("huggingface_hub", "tokenizers", "regex", "requests", "urllib3", "idna", "certifi", "tqdm", "packaging", "yaml",
                     "_yaml", "pyyaml")

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft-wheel-test-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self.home, self.venv = self.folder / "home", self.folder / "venv"
        self.site = self.venv / "lib/python3.11/site-packages"
        self.mount_point = pathlib.Path(tempfile.mkdtemp(prefix="weft-wheel-test-cache-", dir="/var/tmp"))

    def set_up(self, build, compiler, cache):
        self.home.mkdir()
        self.as_user = []
        if os.geteuid() == 0:
            self.as_user = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]
            shutil.chown(self.home, "nobody")
        self.wheel = pathlib.Path(run([ROOT / "tools/wheel", self.folder], env={**os.environ, "WHEEL_BUILD": str(build)}).strip())
        self.python = next(path for path in ("/usr/bin/python3.11", sys.executable) if os.path.exists(path))  # others can read the first
        run([self.python, "-m", "venv", "--without-pip", self.venv])
        run([self.python, "-m", "pip", "--isolated", "--disable-pip-version-check", "--python", self.venv / "bin/python", "install", "--quiet", "--no-compile",
             "--no-deps", "--no-index", self.wheel])
        self.cache = cache
        if os.geteuid() == 0:  # others cannot read root's home. Read-only, and outside the folder that is removed: nothing may delete from it
            run(["mount", "-o", "bind,ro", cache, self.mount_point])
            self.cache = self.mount_point
        self.add_torch(compiler)

    def add_torch(self, compiler):
        libtorch, python_parts = self.cache / "libtorch-2.11.0", self.cache / "test-packages"
        self.torch, self.empty = self.site / "torch", self.folder / "empty"
        (self.torch / "lib").mkdir(parents=True)
        for file in [*(python_parts / "torch").iterdir(), libtorch / "torch/include", libtorch / "torch/share"]:
            if file.name != "lib":
                (self.torch / file.name).symlink_to(file)
        for file in [*(libtorch / "torch/lib").iterdir(), *(python_parts / "torch/lib").iterdir()]:
            (self.torch / "lib" / file.name).symlink_to(file)
        (self.site / "nvidia").symlink_to(libtorch / "nvidia")
        for name in ("torch-2.11.0.dist-info", "torchgen", "functorch", "numpy", "numpy-2.2.6.dist-info", "numpy.libs", "sympy", "mpmath", "filelock",
                     "filelock-4.2.11.dist-info", "networkx", "typing_extensions.py"):
            (self.site / name).symlink_to(python_parts / name)
        self.empty.mkdir()
        run([ROOT / "tests/support/empty_libraries.sh", self.torch / "lib/libtorch_python.so", compiler, self.empty])

    def run(self, *command, status=0, text=None, deadline_s=200, folder=".", **variables):
        """What the command, started by the user in the home folder or one in it, prints on both streams."""
        environment = {"PATH": f"{self.venv}/bin:/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1",
                       "PYTHONDONTWRITEBYTECODE": "1", **variables}
        return run([*self.as_user, *command], status, deadline_s, cwd=self.home / folder, env=environment, input=text)

    def weft(self, *arguments, **options):
        return self.run("python", "-m", "weft", *arguments, **options)

    def remove(self):
        shutil.rmtree(self.folder)  # holds links to the cache, no mount of it
        subprocess.run(["umount", self.mount_point], stderr=subprocess.DEVNULL)
        self.mount_point.rmdir()  # fails if anything is still mounted there


def run(command, status=0, deadline_s=200, **options):
    done = subprocess.run([str(part) for part in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=deadline_s, **options)
    if done.returncode != status:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def main_in_mounts_of_its_own(script, arguments):
    """Starts the script again, with mounts that end with it, unless this is that."""
    os.umask(0o022)
    if os.geteuid() == 0 and "WEFT_WHEEL_TEST_UNSHARED" not in os.environ:
        os.environ["WEFT_WHEEL_TEST_UNSHARED"] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, "-B", script, *arguments])
