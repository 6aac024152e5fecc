"""Python's safetensors reads what weft saved, bit for bit, and weft reads what Python saved.

usage: read_sample.py SAMPLE FOLDER    (SAMPLE: the program of sample.cpp; FOLDER: where files may be put)
"""
import hashlib
import os
import subprocess
import sys

import numpy as np
import safetensors
from safetensors.numpy import save_file

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U8": 1}
NAMES = {"Double": "F64", "Float": "F32", "Half": "F16", "BFloat16": "BF16", "Long": "I64", "Byte": "U8"}


def pattern(count):
    return bytes((i * 151 + i // 256 * 7 + 7) % 256 for i in range(count))


def transposed(data, size, rows, columns):
    cells = [data[i * size:(i + 1) * size] for i in range(rows * columns)]
    return b"".join(cells[r * columns + c] for c in range(columns) for r in range(rows))


def digest(tensors):
    """As weft/checkpoint/digest.h says; tensors: name -> float32 array."""
    h = hashlib.sha256()
    for name in sorted(tensors, key=str.encode):
        t = tensors[name]
        h.update(name.encode() + b"\0" + ",".join(map(str, t.shape)).encode() + b"\0" + t.astype("<f4").tobytes())
    return h.hexdigest()


def check(good, what):
    if not good:
        sys.exit(f"read_sample.py: {what}")


def check_values(path):
    with open(path, "rb") as file:
        tensors = dict(safetensors.deserialize(file.read()))
    check(len(tensors) == 4 * len(NAMES) + 2, f"{len(tensors)} tensors")
    for weft_name, dtype in NAMES.items():
        size = SIZES[dtype]
        expected = {
            "matrix": ([37, 53], pattern(37 * 53 * size)),
            "scalar": ([], pattern(size)),
            "empty": ([3, 0], b""),
            "strided": ([7, 5], transposed(pattern(35 * size), size, 5, 7)),
        }
        for kind, (shape, data) in expected.items():
            got = tensors[f"{weft_name}.{kind}"]
            check(got["dtype"] == dtype, f"{weft_name}.{kind} has type {got['dtype']}")
            check(list(got["shape"]) == shape, f"{weft_name}.{kind} has shape {got['shape']}")
            check(bytes(got["data"]) == data, f"{weft_name}.{kind} has other bits")
    return tensors


def check_digest(path, tensors):
    with safetensors.safe_open(path, framework="np") as file:
        metadata = file.metadata()
        weight = file.get_tensor("weight")
    check(metadata["note"] == 'café "quoted"', f"metadata {metadata}")
    bias = np.frombuffer(bytes(tensors["bias"]["data"]), "<u2").astype("<u4") << 16  # bfloat16 is float32's upper half
    weights = {"weight": weight, "bias": bias.view("<f4")}
    check(digest(weights) == metadata["weights_sha256"], "another digest than weft's")


def check_reverse(sample, path):
    arrays = {
        "z": np.linspace(-3, 3, 21, dtype=np.float32).reshape(3, 7),
        "a.half": np.arange(10, dtype=np.float16),
        "a.byte": np.arange(9, dtype=np.uint8),
        "scalar": np.float64(2.5).reshape(()),
        "empty": np.zeros((0, 4), dtype=np.int64),
    }
    save_file(arrays, path, {"by": "python"})
    got = subprocess.run([sample, "digest", path], check=True, capture_output=True, text=True).stdout.strip()
    check(got == digest(arrays), "weft reads other weights than Python saved")


def main():
    sample, folder = sys.argv[1:]
    path = os.path.join(folder, "weft.safetensors")
    subprocess.run([sample, "write", path], check=True)
    tensors = check_values(path)
    check_digest(path, tensors)
    check_reverse(sample, os.path.join(folder, "python.safetensors"))


main()
