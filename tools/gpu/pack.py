"""The folder that `tools/gpu_check --pack` makes."""
import re
import shutil
import subprocess
import tarfile

# Of the target gpu_check: programs that are packed, with what is stripped. weft keeps its names, which counts.py reads.
PROGRAMS = {"weft": "--strip-debug", "nccl_one_rank": "--strip-all", "libcount_calls.so": "--strip-all", "tests/test_device": "--strip-all"}
# Libraries that the other machine has: the system's and PyTorch's.
NOT_PACKED = re.compile(r"lib(c|m|dl|rt|util|pthread|gcc_s|stdc\+\+|gomp|torch\w*|c10\w*|cu\w+|nccl|nv\w+)\.so")


def write_text(root, path):
    """The text to train on: the repository's pages."""
    path.write_bytes(b"".join(page.read_bytes() for page in sorted(root.glob("docs/*.md"))))


def pack(root, build, folder):
    """Copies what a check runs and reads, from the repository and its build-cuda/, with the libraries it needs besides PyTorch's."""
    if not (build / "CMakeCache.txt").exists():
        raise OSError(f"{build} is no build folder: make one by tools/configure cuda")
    subprocess.run(["cmake", "--build", build, "--target", "gpu_check"], check=True)
    folder.mkdir(parents=True)
    for name, symbols in PROGRAMS.items():
        subprocess.run(["strip", symbols, "-o", folder / name.rpartition("/")[2], build / name], check=True)
    listed = subprocess.run(["ldd", *(build / name for name in PROGRAMS)], check=True, capture_output=True, text=True).stdout
    with tarfile.open(folder / "libs.tar.gz", "w:gz", dereference=True) as archive:
        for name, path in sorted(set(re.findall(r"(\S+) => (/(?:usr/)?lib\S*)", listed))):
            if not NOT_PACKED.match(name):
                archive.add(path, name)
    shutil.copytree(root / "recipes", folder / "recipes")
    shutil.copytree(root / "tools/gpu", folder / "gpu", ignore=shutil.ignore_patterns("*.cpp", "pack.py", "__pycache__"))
    shutil.copy(root / "tools/gpu_check", folder)
    write_text(root, folder / "text.txt")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size / 1e6:.0f} MB; on the machine with the GPU: {folder.name}/gpu_check --out results")
