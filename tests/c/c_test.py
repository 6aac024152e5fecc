#!/usr/bin/env -S python3 -B
"""libweft_c.so: what it exports, the bits that it trains to, and the example.

usage: c_test.py WEFT LIBRARY SAME_BITS EXAMPLE; runs from the repository's root
"""

import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "exported" / "programs"

IMAGES = 'data = {{ name = "images", path = "{folder}/images" }}\n'
TEXT = 'data = {{ name = "text", path = "{folder}/text" }}\n'
GPT = 'model = {{ name = "gpt", layers = 2, heads = 2, width = 16, context = 16 }}\n' + TEXT
MLP = 'model = {{ name = "mlp", layers = 2, width = 16, image_size = 16, classes = 5 }}\n' + IMAGES
ADAMW = 'optimizer = {{ name = "adamw", lr = 1e-2, warmup = 2, decay = "cosine", clip = 1.0 }}\n'
SLOTS = "run = {{ steps = 4, threads = 1, reproducible_slots = 4 }}\n"
EXPORTED_IMAGES = f'model = {{{{ name = "exported", path = "{PROGRAMS}/images.pt2", image_size = 16, classes = 5 }}}}\n' + IMAGES
EXPORTED_TOKENS = (
    f'model = {{{{ name = "exported", path = "{PROGRAMS}/tokens.pt2", inputs = "tokens", context = 16, vocabulary = 64 }}}}\n'
    'data = {{ name = "tokens", path = "{folder}/tokens", tokenizer = "uint16" }}\n'
)
# name, ranks, recipe
RECIPES = [
    ("mlp", 1, MLP + ADAMW + SLOTS + "batch = {{ global = 16 }}\n"),
    ("mlp, ZeRO-1", 2, MLP + ADAMW + SLOTS + 'batch = {{ global = 16, micro = 4 }}\nlayout = {{ shard_level = "optimizer" }}\n'),
    ("gpt, bf16", 2, GPT + ADAMW + SLOTS + 'batch = {{ global = 16 }}\nlayout = {{ shard_level = "parameters", precision = "bf16" }}\n'),
    ("gpt, pipeline", 2, GPT + ADAMW + SLOTS + "batch = {{ global = 16 }}\nlayout = {{ pp = 2 }}\n"),
    ("exported images", 2, EXPORTED_IMAGES + ADAMW + SLOTS + "batch = {{ global = 16 }}\n"),
    ("exported tokens", 1, EXPORTED_TOKENS + ADAMW + SLOTS + 'batch = {{ global = 16 }}\nlayout = {{ recompute = "blocks" }}\n'),
]


def write_data(folder):
    (folder / "text").write_text("".join(f"{i * i} is the square of {i}. " for i in range(400)), encoding="utf-8")
    (folder / "tokens").write_bytes(b"".join(struct.pack("<H", i * i % 61) for i in range(4000)))
    images = folder / "images"
    images.mkdir()
    pixels = bytes(i * i % 251 for i in range(64 * 16 * 16))
    for part in ("train", "t10k"):
        (images / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, 64, 16, 16) + pixels)
        (images / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, 64) + bytes(i % 5 for i in range(64)))


class CTest(unittest.TestCase):
    def run_ranks(self, ranks, *command):
        alone = {"OMP_NUM_THREADS": "1", **os.environ}
        done = subprocess.run([WEFT, "run", "-n", str(ranks), "--", *command], capture_output=True, text=True, timeout=120, env=alone)
        self.assertEqual(done.returncode, 0, f"{command} on {ranks}: {done.stdout}{done.stderr}")
        return re.sub(r"^\[?rank \d+\]?:? ?", "", done.stdout, flags=re.MULTILINE)

    def test_symbols(self):
        """The library exports the functions of weft.h, each with the version that cmake/weft_c.map gives it, and nothing else."""
        text = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
        exported = {name for kind, name in re.findall(r"^\S+ (\w) (\S+)$", text, re.MULTILINE) if kind != "A"}
        header = set(re.findall(r"\b(weft_\w+)\(", (ROOT / "weft/c/weft.h").read_text()))
        listed = set()
        for version, names in re.findall(r"^(WEFT_\S+) \{\s*global:(.*?)\blocal:", (ROOT / "cmake/weft_c.map").read_text(), re.M | re.S):
            listed |= {f"{name}@@{version}" for name in re.findall(r"\w+", names)}
        self.assertEqual(exported, listed)
        self.assertEqual({name.partition("@")[0] for name in exported}, header)

    def test_fortran_module(self):
        """weft.f90 has the functions, arguments and constants of weft.h."""
        header = re.sub(r"//[^\n]*", "", (ROOT / "weft/c/weft.h").read_text())
        module = (ROOT / "weft/c/weft.f90").read_text()
        in_c = {name: re.findall(r"(\w+)(?=,|$)", re.sub(r"^void$", "", arguments))
                for name, arguments in re.findall(r"^(?:const char\* |int |void )(weft_\w+)\(([^)]*)\);", header, re.MULTILINE)}
        in_fortran = {name: re.findall(r"\w+", arguments)
                      for name, arguments in re.findall(r"^ +(?:.*function|subroutine) (weft_\w+)\(([^)]*)\) bind", module, re.MULTILINE)}
        self.assertEqual(in_fortran, in_c)
        constants = re.findall(r"\b(WEFT_\w+) = (\d+)", header)
        self.assertEqual(re.findall(r"\b(weft_\w+) = (\d+)", module), [(name.lower(), value) for name, value in constants])

    def test_same_bits_as_train(self):
        for name, ranks, recipe in RECIPES:
            with self.subTest(name), tempfile.TemporaryDirectory(prefix="weft-c-") as folder:
                write_data(Path(folder))
                path = Path(folder, "r.toml")
                path.write_text(recipe.format(folder=folder), encoding="utf-8")
                self.assertEqual(self.run_ranks(ranks, SAME_BITS, path, folder).count("0x"), 8)

    def test_example(self):
        alone, two = (self.run_ranks(ranks, EXAMPLE) for ranks in (1, 2))
        self.assertEqual(alone, two)
        self.assertRegex(alone, r"step 100: loss 0\.\d+\nunseen: (5\d|6\d) of 64 right\n$")


if __name__ == "__main__":
    WEFT, LIBRARY, SAME_BITS, EXAMPLE = sys.argv[1:5]
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
