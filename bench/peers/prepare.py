"""A Python that can run the peer: a virtual environment in weft's cache folder, with pinned packages."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

from measure import BenchError

HERE = pathlib.Path(__file__).resolve().parent
IMPORTS = "import torch, torch.distributed; assert torch.__version__.startswith('2.11.0'), torch.__version__"


def prepare(say, further=()):
    """(python, environment) that can import the peer's torch. Installs missing packages; later calls only check.

    further: names of further requirements files.

    Tries this machine's CUDA toolkit before downloading NVIDIA's packages.
    """
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "weft"
    folder = cache / "peers"
    python = folder / "bin" / "python"
    for requirements in ["requirements.txt", *further]:
        install(python, HERE / requirements, say)
    for libraries in [[]] + [[folder] for folder in toolkit_libraries()]:
        if not why_not(python, environment(libraries)):
            return python, environment(libraries)
    install(python, HERE / "requirements-cuda.txt", say)
    problem = why_not(python, environment([]))
    if problem:
        raise BenchError(f"{python} cannot import torch ({problem}): remove {folder} and run again, or name a Python "
                         "that has torch 2.11.0 and numpy with --python")
    return python, environment([])


def environment(libraries):
    """Environment of both the peer and weft; libraries: folders of a CUDA toolkit."""
    path = ":".join([str(folder) for folder in libraries] + [os.environ.get("LD_LIBRARY_PATH", "")]).strip(":")
    values = dict(os.environ, OMP_NUM_THREADS="1", **({"LD_LIBRARY_PATH": path} if path else {}))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        values.pop(name, None)
    return values


def toolkit_libraries():
    nvcc = shutil.which("nvcc")
    roots = [os.environ.get("CUDA_HOME"), pathlib.Path(nvcc).resolve().parent.parent if nvcc else None, "/usr/local/cuda"]
    folders = [pathlib.Path(root) / "lib64" for root in roots if root]
    return [folder for folder in dict.fromkeys(folders) if (folder / "libcudart.so.13").exists()]


def why_not(python, values):
    """Why the peer's imports fail, in one line; empty if they succeed."""
    try:
        result = subprocess.run([python, "-c", IMPORTS], env=values, capture_output=True, text=True)
    except OSError as error:
        return str(error)
    return "" if result.returncode == 0 else last_line(result.stderr)


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return ((errors or lines)[-1] if lines else "no message").strip()


def install(python, requirements, say):
    """Installs a requirements file. Writes a stamp with its hash last, so an interrupted installation is repeated."""
    folder = python.parent.parent
    stamp = folder / f".{requirements.stem}"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    say(f"installing the peer's packages of {requirements.name} into {folder} (once; a few GB)")
    base = python_3_11()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        run_or_fail([base, "-m", "venv", "--without-pip", folder], "make a virtual environment")
        run_or_fail([base, "-m", "pip", "--python", python, "install", "--no-deps", "--require-hashes", "--only-binary=:all:",
                     "--no-cache-dir", "--disable-pip-version-check", "--quiet", "--requirement", requirements],
                    "install the peer's packages")
        stamp.write_text(wanted)
    except OSError as error:
        raise BenchError(f"cannot write {folder} ({error.strerror}): set XDG_CACHE_HOME to a folder you can write") from error


def run_or_fail(command, what):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        raise BenchError(f"could not {what} ({last_line(result.stderr or result.stdout)}): check the network, python3-pip and "
                         "the disk (6 GB), or name a Python that has torch 2.11.0 and numpy with --python")


def python_3_11():
    """Path of a Python 3.11 (Debian 12's), which the pinned wheels need."""
    if os.uname().machine != "x86_64":
        raise BenchError(f"the peer's pinned packages are for x86_64, this is {os.uname().machine}: name a Python that has "
                         "torch 2.11.0 and numpy with --python")
    found = sys.executable if sys.version_info[:2] == (3, 11) else shutil.which("python3.11")
    if not found:
        raise BenchError("the peer's pinned packages need Python 3.11: install python3.11, or name a Python that has torch "
                         "2.11.0 and numpy with --python")
    return found
