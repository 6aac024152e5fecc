"""What is installed with weft: torch and pyarrow, and the command over their libraries. Imports none of it."""
import os
import sys

from weft import cmake_prefix
from weft.errors import Error
from weft.version import ARROW, TORCH, __version__

BESIDE = os.path.dirname(cmake_prefix())


def package_folder(name, file):
    """The folder of a package that has `file`, without importing it: the one beside weft, where the command looks by itself, or another."""
    folder = os.path.join(BESIDE, name)
    if os.path.exists(os.path.join(folder, file)):
        return folder
    from importlib.util import find_spec  # 5 ms

    spec = find_spec(name)
    folder = os.path.dirname(spec.origin) if spec and spec.origin else None
    return folder if folder and os.path.exists(os.path.join(folder, file)) else None


def torch_folder():
    """torch's folder. Raises an Error if it is not of the version that weft was built for."""
    wanted = f"pip install 'torch=={TORCH}.*'"
    folder = package_folder("torch", "lib/libtorch_cpu.so")
    if not folder:
        raise Error(f"torch is not installed for {sys.executable}: {wanted}")
    with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
        version = next((line.split("'")[1] for line in file if line.startswith("__version__ = '")), "")
    if not version.startswith(f"{TORCH}."):
        raise Error(f"weft {__version__} runs on torch {TORCH}, but {folder} is torch {version or 'of an unknown version'}: {wanted}")
    return folder


def command():
    """The command's program, and the LD_LIBRARY_PATH that it needs, or None: as it is."""
    libraries = [os.path.join(torch_folder(), "lib")]
    program = os.path.join(cmake_prefix(), "bin", "weft")
    arrow = package_folder("pyarrow", ARROW) if ARROW else None
    if arrow:
        program += "-buckets"
        libraries.append(arrow)
    elsewhere = [folder for folder in libraries if not folder.startswith(f"{BESIDE}{os.sep}")]
    paths = elsewhere + [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
    return program, ":".join(paths) if elsewhere else None
