#!/usr/bin/env -S python3 -B
"""tests/wheel/wheel_test.py BUILD COMPILER LAUNCHER CACHE: weft's wheel in a clean environment (environment.py): its contents, its
command, its library for CMake, its exports. Of `import weft`: tests/python.
"""
import base64
import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import unittest
import zipfile

from environment import ROOT, Environment, main_in_mounts_of_its_own, run

HERE = pathlib.Path(__file__).resolve().parent
RECIPE = """
model = {{ {model}, context = 8, vocabulary = 64 }}
data = {{ name = "tokens", path = "{folder}/ids", tokenizer = "uint16", evaluation = 0.5 }}
batch = {{ global = 8 }}
run = {{ steps = 3, threads = 1 }}
"""
OWN = 'name = "gpt", layers = 1, heads = 1, width = 8'
NETS = '''
import numpy, torch
class Net(torch.nn.Sequential):
    def __init__(self, width=16):
        super().__init__(torch.nn.Embedding(64, width), torch.nn.Linear(width, width), torch.nn.Dropout(0.1), torch.nn.Linear(width, 64))
class Fixed(Net):
    def forward(self, ids): return super().forward(ids.view(2, 8))
class Normed(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Flatten(), torch.nn.Linear(72, 5))
def broken(): raise ValueError("no such size\\nand more")
class Words(torch.nn.Module):
    def forward(self, ids): return {"logits": ids.float(), "count": 3}
class Named(Net):
    def forward(self, ids): return {"logits": super().forward(ids), "loss": None, "more": ids.float()}
class Masked(Net):
    def forward(self, ids): return super().forward(ids) * torch.vmap(lambda row: row > 0)(ids)[..., None]
class Two(torch.nn.Module):
    def forward(self, ids, more): return ids * more
made, one, number = Net(), torch.zeros(1, 8, dtype=torch.int64), 3
pair = one, one
def ids(): return torch.zeros(3, 8, dtype=torch.int64)
def both(): return {"more": torch.ones(3, 1), "ids": ids()}
uneven = ids(), torch.ones(2, 1)
class Apart(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(4, 4)
    def forward(self, X, T): return self.line(X)
strided = torch.from_numpy(numpy.ones((3, 8), numpy.float32)[:, :4]), torch.ones(3)
'''
# Arguments of weft.export, and the end of the line that it prints.
REFUSED = [
    (["nets", "--example", "int64:8", "-o", "x.pt2"], "'nets' is not MODULE:NAME, such as torchvision.models:resnet18 or nets.py:make"),
    (["lost.py:Net", "--example", "int64:8", "-o", "x.pt2"], "cannot import lost.py: FileNotFoundError: [Errno 2] No such file"),
    (["nets:Nat", "--example", "int64:8", "-o", "x.pt2"], "nets has no 'Nat'"),
    (["nets:broken", "--example", "int64:8", "-o", "x.pt2"], "nets:broken() failed: ValueError: no such size"),
    (["nets:Net", "--arg", "wdth=8", "--example", "int64:8", "-o", "x.pt2"], "got an unexpected keyword argument 'wdth'"),
    (["nets:made", "--arg", "width=8", "--example", "int64:8", "-o", "x.pt2"], "nets:made is a model already"),
    (["nets:number", "--example", "int64:8", "-o", "x.pt2"], "nets:number is a int"),
    (["nets:ids", "--example", "int64:8", "-o", "x.pt2"], "nets:ids() returned a Tensor, not a torch.nn.Module"),
    (["nets:Net", "--example", "8xeight", "-o", "x.pt2"], "--example '8xeight' is no shape of one sample"),
    (["nets:Net", "--example", "nets:one", "-o", "x.pt2"], "has shape [1, 8]: a batch of two samples or more is needed"),
    (["nets:Net", "--example", "8", "-o", "x.pt2"], "the model does not take the example, torch.float32 [2, 8]: RuntimeError:"),
    (["nets:Net", "--example", "nets:pair", "-o", "x.pt2"], "input 0 of the example has shape [1, 8]: a batch of two samples or more is needed"),
    (["nets:Two", "--example", "nets:uneven", "-o", "x.pt2"], "the example's inputs have different numbers of samples: [3, 2]"),
    (["nets:Two", "--example", "int64:8", "-o", "x.pt2"], "of several inputs the example is a tuple or a dict"),
    (["nets:Words", "--example", "int64:8", "-o", "net.pt2"], "the model returns an int; weft needs a tensor"),
    (["nets:Masked", "--example", "int64:8", "-o", "net.pt2"], "give the model its mask, as in docs/exported.md"),
    (["nets:Fixed", "--example", "int64:8", "-o", "x.pt2"], "your code specialized it to be a constant (2); see docs/exported.md"),
    (["nets:Net", "--example", "int64:8", "-o", "x.bin"], "-o x.bin: the name must end in .pt2"),
    (["nets:Net", "--example", "int64:8", "-o", "lost/x.pt2"], "-o lost/x.pt2: no file can be written there"),
]
# Runs in the environment: all exports in one process, as importing torch takes a second. Prints what each printed.
EXPORTS = '''
import contextlib, io, json, sys
from weft.export import main
for arguments in json.load(sys.stdin):
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            main(arguments)
        print(json.dumps(printed.getvalue()))
    except SystemExit as end:
        print(json.dumps(end.code))
'''
# export() as a function, and what it refuses.
CALLS = '''
import resource
import nets, torch, weft
from weft.export import export, export_loss
model = nets.Net()
model.eval()
export(model, nets.ids(), "net.pt2")
print([part.training for part in model])
def full():
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, limits[1]))  # for a disk that is full
    try:
        export(model, nets.ids(), "net.pt2")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
for call in (full, *(lambda path=path: export(model, nets.ids(), path) for path in (None, "a\\0b", "\\ud800", "n" * 256 + ".pt2", "lost/net.pt2"))):
    try:
        call()
    except weft.InputError as error:
        print(str(error).replace("n" * 256, "n..."))
for call in (lambda: export(nets.Net(), nets.one, "x.pt2"), lambda: export(nets.Net(), nets.pair, "x.pt2"),
             lambda: export_loss(torch.nn.MSELoss(), torch.zeros(1, 2), torch.zeros(1, 2), "x.pt2")):
    try:
        call()
    except weft.InputError as error:
        print(error)
'''
CALLED = ["[False, False, False, False]",
          "cannot write net.pt2: File too large",
          "the path is None; it must be a text or a path, without NUL",
          "the path is 'a\\x00b'; it must be a text or a path, without NUL",
          "the path is '\\ud800'; it must be a text or a path, without NUL",
          "cannot write n....pt2: File name too long",
          "cannot write lost/net.pt2: No such file or directory",
          "the example has shape [1, 8]: a batch of two samples or more is needed",
          "input 0 of the example has shape [1, 8]: a batch of two samples or more is needed",
          "an example has shape [1, 2]: a batch of two samples or more is needed"]


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.at = Environment()
        cls.addClassCleanup(cls.at.remove)
        cls.at.set_up(BUILD, COMPILER, CACHE)
        (cls.at.home / "ids").write_bytes(bytes(byte for i in range(4000) for byte in (i * i % 64, 0)))
        (cls.at.home / "nets.py").write_text(NETS)

    def train(self, model):
        (self.at.home / "r.toml").write_text(RECIPE.format(model=model, folder=self.at.home))
        printed = self.at.weft("train", "r.toml", "-n", "2")
        self.assertRegex(printed, r"(?m)^step +3/3 +loss [0-9]")

    def test_contents(self):
        name = self.at.wheel.name
        self.assertRegex(name, r"^weft-2\.11\.\d+\.\d+\.\d+-cp311-cp311-manylinux_2_\d\d_x86_64\.whl$")
        self.assertLess(self.at.wheel.stat().st_size, 11e6)
        with zipfile.ZipFile(self.at.wheel) as archive:
            files = {entry: archive.read(entry) for entry in archive.namelist()}
        info = re.match(r"weft-[0-9.]+[0-9]", name)[0] + ".dist-info"
        rows = [line.rsplit(",", 2) for line in files[f"{info}/RECORD"].decode().splitlines()]
        self.assertEqual([row[0] for row in rows], list(files))
        for file, digest, size in rows[:-1]:
            expected = base64.urlsafe_b64encode(hashlib.sha256(files[file]).digest()).rstrip(b"=").decode()
            self.assertEqual((digest, size), (f"sha256={expected}", str(len(files[file]))), file)
        self.assertEqual([file for file in files if re.search(r"lib(torch|c10|arrow|parquet|gomp)|(^|/)(ATen|c10|torch)/", file)], [])
        paths = [file for file, data in files.items() if any(str(path).encode() in data for path in (BUILD, CACHE))]
        self.assertEqual(paths, [], "paths of this machine")
        self.assertIn("Requires-Dist: torch==2.11.*\n", files[f"{info}/METADATA"].decode())
        for license in ("LICENSE", "libfmt9.txt", "libarchive-dev.txt", "libssl-dev.txt"):
            self.assertGreater(len(files[f"{info}/licenses/{license}"]), 500)

    def test_version(self):
        own = re.search(r"^project\(weft VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
        printed = self.at.run("python", "-c", "import importlib.metadata as m, weft; print(weft.__version__, m.version('weft'))")
        self.assertEqual(printed.split(), [f"2.11.{own}"] * 2)
        self.assertEqual(self.at.run("weft", "--version"), f"weft {own}, LibTorch 2.11.0\n")

    def test_train(self):
        self.train(OWN)
        self.assertIn("Usage: weft train", self.at.run("weft", "train", "--help"))
        self.assertIn("fashion_mnist", self.at.weft("completion", "bash"))  # the recipes that come with it
        self.assertRegex(self.at.weft("trian", status=2), r"(?m)^weft: .*trian")

    def test_light(self):
        """Starting costs no imports beyond Python's own."""
        printed = self.at.run("python", "-X", "importtime", "-m", "weft", "--version")
        mine = re.findall(r"\|\s+(\S+)$", printed, re.MULTILINE)
        self.assertIn("weft.version", mine)
        self.assertEqual([name for name in mine if name.split(".")[0] in ("torch", "re", "subprocess", "inspect", "email", "json")], [])

    def test_find_package(self):
        build = self.at.home / "build"
        prefix = self.at.run("python", "-c", "import weft; print(weft.cmake_prefix())").strip()
        shutil.copytree(HERE / "project", self.at.home / "project")
        options = [f"-DCMAKE_CXX_COMPILER={COMPILER}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={LAUNCHER}", "-DCMAKE_BUILD_TYPE=Debug"]
        kept = {key: value for key, value in os.environ.items() if key not in ("LIBTORCH_ROOT", "XDG_CACHE_HOME")}
        # As the caller, for the compiler cache.
        run(["cmake", "-S", self.at.home / "project", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DSOURCE={ROOT}/examples/program.cpp",
             *options], env={**kept, "HOME": str(self.at.folder)})
        run(["cmake", "--build", build], env=kept)
        needed = self.at.run("ldd", build / "program")
        self.assertRegex(needed, rf"libtorch_cpu\.so => {self.at.site}/\S*torch/lib/libtorch_cpu\.so")
        self.assertNotIn("not found", needed)
        self.at.run(build / "program")

    def test_export(self):
        page = re.search(r"```python\nimport torch\n\n\n(.*?)```", (ROOT / "docs/exported.md").read_text(), re.DOTALL)[1]
        calls = re.findall(r"def .*|batch = .*|shapes = .*|torch\.export\.export\(.*dynamic_shapes=.*?\)(?=[\n,])", page)
        self.assertEqual(len(calls), 7)
        for call in calls:
            self.assertIn(call, (ROOT / "python/weft/export.py").read_text(), "weft.export and docs/exported.md differ")
        exports = [["nets.py:Net", "--arg", "width=8", "--example", "int64:8", "-o", "net.pt2"],
                   ["nets:made", "--example", "nets:ids", "-o", "made.pt2"],
                   ["nets:Normed", "--example", "1x8x8", "-o", "normed.pt2"],
                   ["nets:Named", "--example", "int64:8", "-o", "named.pt2"],
                   ["torch.nn:Linear", "--arg", "in_features=8", "--arg", "out_features=3", "--example", "8", "-o", "line.pt2"],
                   ["nets:Two", "--example", "nets:both", "-o", "two.pt2"], ["nets:Apart", "--example", "nets:strided", "-o", "apart.pt2"], *(arguments for arguments, _ in REFUSED)]
        printed = self.at.run("python", "-W", "ignore", "-c", EXPORTS, text=json.dumps(exports), TORCH_USE_RTLD_GLOBAL="1",
                              LD_LIBRARY_PATH=str(self.at.empty))
        lines = [json.loads(line) for line in printed.splitlines() if line.startswith('"')]
        net = 'name = "exported", path = "net.pt2", inputs = "tokens"'
        self.assertEqual(lines[0], "net.pt2: 1160 parameters, torch.int64 [samples, 8] to [samples, 8, 64]\n"
                         f'model = {{ {net}, context = 8, vocabulary = 64 }}\n')
        self.assertIn("made.pt2: 2384 parameters, torch.int64 [samples, 8] to [samples, 8, 64]", lines[1])
        self.assertIn("channels = 1, image_size = 8, classes = 5 }", lines[2])
        self.assertIn('path = "named.pt2", inputs = "tokens", context = 8, vocabulary = 64 }', lines[3])
        self.assertIn('model = { name = "exported", path = "line.pt2", inputs = "arrays" }', lines[4])
        self.assertEqual(lines[5], "two.pt2: 0 parameters, more torch.float32 [samples, 1], ids torch.int64 [samples, 8] to [samples, 8]\n"
                         'model = { name = "exported", path = "two.pt2", inputs = "arrays" }\n')
        self.assertEqual(lines[6], "apart.pt2: 20 parameters, x torch.float32 [samples, 4], t torch.float32 [samples] to [samples, 4]\n"
                         'model = { name = "exported", path = "apart.pt2", inputs = "arrays" }\n')
        for (arguments, expected), line in zip(REFUSED, lines[7:], strict=True):
            self.assertIn(expected, line)
            self.assertEqual((line[:13], line.count("\n")), ("weft.export: ", 0), arguments)
        self.assertEqual({path.name for path in self.at.home.glob("*.pt*")}, {f"{name}.pt2" for name in ("net", "made", "normed", "named", "line", "two", "apart")})
        (self.at.home / "apart.toml").write_text('model = { name = "exported", path = "apart.pt2", inputs = "arrays", loss = "mean_squares" }\n'
                                                 'data = { name = "arrays", path = "none" }\nbatch = { global = 2 }\nrun = { steps = 1 }\n')
        self.assertIn("line", self.at.weft("show", "apart.toml"))
        self.train(net)  # also after exports that failed
        self.train('name = "exported", path = "named.pt2", inputs = "tokens"')
        self.assertEqual(self.at.run("python", "-W", "ignore", "-c", CALLS, TORCH_USE_RTLD_GLOBAL="1", LD_LIBRARY_PATH=str(self.at.empty)).splitlines()[-len(CALLED):], CALLED)
        self.assertEqual([path.name for path in self.at.home.glob("*.part")], [])
        self.train(net)  # the file from before the disk was full

    def test_other_torches(self):
        hidden = self.at.folder / "elsewhere" / "torch"
        hidden.parent.mkdir()
        self.at.torch.rename(hidden)
        self.addCleanup(lambda: hidden.rename(self.at.torch))
        self.assertRegex(self.at.weft("--version", status=1), r"^weft: torch is not installed for .*/venv/bin/python: pip install 'torch==2.11.\*'\n$")
        (hidden.parent / "nvidia").symlink_to(self.at.site / "nvidia")
        path_file = self.at.site / "elsewhere.pth"  # as another site's packages, such as the system's, are seen
        path_file.write_text(f"{hidden.parent}\n")
        self.addCleanup(path_file.unlink)
        self.assertEqual(self.at.weft("--version").split()[0], "weft")
        version = hidden / "version.py"
        original = version.readlink()
        version.unlink()
        self.addCleanup(lambda: (version.unlink(), version.symlink_to(original)))
        version.write_text("__version__ = '2.12.1+cpu'\n")
        refusal = r"weft \S+ runs on torch 2\.11, but .*/elsewhere/torch is torch 2\.12\.1\+cpu: pip install 'torch==2\.11\.\*'\n$"
        for arguments, before in [(["-m", "weft", "--version"], "^weft: "), (["-m", "weft.export"], "^weft.export: "),
                                  (["-c", "import weft; weft.Trainer"], "\nweft.errors.Error: "),
                                  (["-c", "import weft; weft.memory('gpt')"], "\nweft.errors.Error: ")]:
            self.assertRegex(self.at.run("python", *arguments, status=1), before + refusal)

    def test_buckets(self):
        (self.at.home / "a.parquet").write_bytes(b"PAR1 damaged PAR1")
        (self.at.home / "p.toml").write_text(f'model = {{ {OWN}, context = 8 }}\nbatch = {{ global = 8 }}\nrun = {{ steps = 3 }}\n'
                                             'data = { name = "parquet", path = "a.parquet", column = "text", evaluation = 0.5 }\n')
        self.assertIn("pip install 'weft[buckets]'", self.at.weft("data", "check", "p.toml", status=3))
        arrow = self.at.site / "pyarrow"
        arrow.symlink_to(self.at.cache / "arrow-26.0.0/pyarrow")
        self.addCleanup(arrow.unlink)
        printed = self.at.weft("data", "check", "p.toml", status=3)
        self.assertIn("a.parquet", printed)
        self.assertNotIn("buckets", printed)


if __name__ == "__main__":
    main_in_mounts_of_its_own(__file__, sys.argv[1:])
    BUILD, COMPILER, LAUNCHER, CACHE = pathlib.Path(sys.argv.pop(1)).resolve(), sys.argv.pop(1), sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
    unittest.main(verbosity=1)
