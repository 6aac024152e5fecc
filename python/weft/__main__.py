"""python -m weft ARGUMENTS: replaces this process by the command, on the libraries of the installed torch (and pyarrow)."""
import os
import sys

from weft import cmake_prefix
from weft.version import ARROW, TORCH, __version__


def fail(message):
    sys.exit(f"weft: {message}")


def package_folder(name, file, beside):
    """The folder of a package that has `file`, without importing it: the one `beside` weft, where the command looks by itself, or another."""
    folder = os.path.join(beside, name)
    if os.path.exists(os.path.join(folder, file)):
        return folder
    from importlib.util import find_spec  # 5 ms

    spec = find_spec(name)
    folder = os.path.dirname(spec.origin) if spec and spec.origin else None
    return folder if folder and os.path.exists(os.path.join(folder, file)) else None


def torch_folder(beside):
    """torch's folder. Fails if it is not of the version that weft was built for."""
    wanted = f"pip install 'torch=={TORCH}.*'"
    folder = package_folder("torch", "lib/libtorch_cpu.so", beside)
    if not folder:
        fail(f"torch is not installed for {sys.executable}: {wanted}")
    with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
        version = next((line.split("'")[1] for line in file if line.startswith("__version__ = '")), "")
    if not version.startswith(f"{TORCH}."):
        fail(f"weft {__version__} runs on torch {TORCH}, but {folder} is torch {version or 'of an unknown version'}: {wanted}")
    return folder


def command():
    """The command's program, and the LD_LIBRARY_PATH that it needs, or None: as it is."""
    prefix = cmake_prefix()
    beside = os.path.dirname(prefix)
    libraries = [os.path.join(torch_folder(beside), "lib")]
    program = os.path.join(prefix, "bin", "weft")
    arrow = package_folder("pyarrow", ARROW, beside) if ARROW else None
    if arrow:
        program += "-buckets"
        libraries.append(arrow)
    elsewhere = [folder for folder in libraries if not folder.startswith(f"{beside}{os.sep}")]
    paths = elsewhere + [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
    return program, ":".join(paths) if elsewhere else None


def main():
    program, paths = command()
    if paths:
        os.environ["LD_LIBRARY_PATH"] = paths
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        fail(f"cannot run {program}: {error.strerror}; install weft again")


if __name__ == "__main__":
    main()
