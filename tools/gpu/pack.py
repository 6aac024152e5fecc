"""The folder that `tools/gpu_check --pack` makes."""
import re
import shutil
import subprocess

# Libraries that the other machine has: the system's and PyTorch's.
NOT_PACKED = re.compile(r"lib(c|m|dl|rt|util|pthread|gcc_s|stdc\+\+|gomp|torch\w*|c10\w*|cu\w+|nccl|nv\w+)\.so")


def write_text(root, path):
    """The text to train on: the repository's pages."""
    path.write_bytes(b"".join(page.read_bytes() for page in sorted(root.glob("docs/*.md"))))


def pack(root, folder):
    """Copies what a check runs and reads, from the repository and its build-cuda/, with the libraries it needs besides PyTorch's."""
    build = root / "build-cuda"
    subprocess.run(["cmake", "--build", build, "--target", "weft", "nccl_one_rank", "count_calls"], check=True)
    (folder / "libs").mkdir(parents=True)
    for name, symbols in (("weft", "--strip-debug"), ("nccl_one_rank", "--strip-all"), ("libcount_calls.so", "--strip-all")):
        subprocess.run(["strip", symbols, "-o", folder / name, build / name], check=True)
    listed = subprocess.run(["ldd", build / "weft", build / "nccl_one_rank"], check=True, capture_output=True, text=True).stdout
    for name, path in set(re.findall(r"(\S+) => (/(?:usr/)?lib\S*)", listed)):
        if not NOT_PACKED.match(name):
            shutil.copy(path, folder / "libs" / name)
    shutil.copytree(root / "recipes", folder / "recipes")
    shutil.copytree(root / "tools/gpu", folder / "gpu", ignore=shutil.ignore_patterns("*.cpp", "pack.py", "__pycache__"))
    shutil.copy(root / "tools/gpu_check", folder)
    write_text(root, folder / "text.txt")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size / 1e6:.0f} MB; on the machine with the GPU: {folder.name}/gpu_check --out results")
