"""Workloads, as the peer's command and as weft's recipe: a GPT, a Llama or a ResNet."""
import dataclasses
import json
import pathlib
import random

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Gpt:
    """The GPT of peers/torch_gpt.py, on tinyshakespeare, with AdamW."""
    context: int
    width: int
    layers: int
    heads: int
    compiled: bool = False  # compiles the peer with torch.compile

    measure, rate, peer_environment = "tokens/s", "tokens_per_s", {}
    is_started_by_torchrun = True

    @property
    def parameters(self):
        return self.layers * (12 * self.width + 13) * self.width + (2 * 256 + self.context + 2) * self.width

    @property
    def requirements(self):
        return ["requirements-compile.txt"] if self.compiled else []

    def sizes(self):
        return ["--ctx", self.context, "--dim", self.width, "--layers", self.layers, "--heads", self.heads]

    def peer_command(self, shared, folder, mode, micro_batches):
        return ([shared / "peers" / "torch_gpt.py", "--mode", mode, "--micro", micro_batches, "--text", corpus(shared),
                 *self.sizes()] + ["--compile"] * self.compiled)

    def weft_sections(self, shared, folder):
        return (f'model = {{ name = "gpt", layers = {self.layers}, heads = {self.heads}, width = {self.width}, '
                f'context = {self.context}, vocabulary = 256 }}\n'
                f'data = {{ name = "text", path = {quoted(corpus(shared))}, evaluation = 0.001 }}\n'
                'optimizer = { name = "adamw", lr = 3e-4, weight_decay = 0.01 }\n')

    def make_files(self, folder, run_python):
        """Those that the recipe reads, unless they are there."""

    def differences(self, weft):
        """(what, found in weft's report, what it must be)"""
        tokens = weft["tokens_per_s"] / weft["samples_per_s"] if weft["samples_per_s"] else self.context
        return [("weft's tokens per sample", round(tokens), self.context)]


@dataclasses.dataclass(frozen=True)
class JaxGpt(Gpt):
    """The same GPT in peers/jax_gpt.py: one process, one device per rank."""
    is_started_by_torchrun = False
    requirements = ["requirements-jax.txt"]

    def peer_command(self, shared, folder, mode, micro_batches):
        return [shared / "peers" / "jax_gpt.py", "--mode", mode, "--text", corpus(shared), *self.sizes()]


@dataclasses.dataclass(frozen=True)
class ExportedGpt(Gpt):
    """The modules of weft_gpt.py, exported: their operators without Python."""

    def make_files(self, folder, run_python):
        if not self.file(folder).exists():
            run_python(HERE / "weft_gpt.py", *self.sizes(), "--export", self.file(folder))

    def file(self, folder):
        return folder / f"gpt-{self.width}-{self.layers}-{self.context}.pt2"

    def weft_sections(self, shared, folder):
        _, rest = super().weft_sections(shared, folder).split("\n", 1)
        return (f'model = {{ name = "exported", path = {quoted(self.file(folder))}, context = {self.context}, '
                f'vocabulary = 256, inputs = "tokens" }}\n{rest}')


@dataclasses.dataclass(frozen=True)
class Llama(Gpt):
    """The Llama of torch_llama.py, with one key-value head per three query heads and 8/3 of the width in feed-forward layers."""

    @property
    def parameters(self):
        of_layer = (2 + 2 / 3) * self.width ** 2 + 3 * self.width * (self.width * 8 // 3) + 2 * self.width
        return round(self.layers * of_layer) + (2 * 256 + 1) * self.width

    def peer_command(self, shared, folder, mode, micro_batches):
        assert (mode, micro_batches) == ("ddp", 1), "torch_llama.py supports nothing else"
        return [HERE / "torch_llama.py", "--text", corpus(shared), *self.sizes(), "--kv_heads", self.heads // 3, "--ffn",
                self.width * 8 // 3]

    def weft_sections(self, shared, folder):
        gpt = super().weft_sections(shared, folder)
        return gpt.replace('name = "gpt"', f'name = "llama", kv_heads = {self.heads // 3}, ffn = {self.width * 8 // 3}')


@dataclasses.dataclass(frozen=True)
class Resnet:
    """The ResNet of torch_resnet.py, on grey noise of size x size in three channels, with SGD."""
    depth: int
    size: int
    tuned: bool = False  # a tuned peer: channels last, and malloc keeps freed memory, as in weft

    measure, rate = "images/s", "images_per_s"
    is_started_by_torchrun, requirements = True, []

    def peer_command(self, shared, folder, mode, micro_batches):
        assert (mode, micro_batches) == ("ddp", 1), "torch_resnet.py supports nothing else"
        return ([HERE / "torch_resnet.py", "--depth", self.depth, "--images", self.images(folder)] +
                ["--channels-last"] * self.tuned)

    @property
    def peer_environment(self):
        return {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)} if self.tuned else {}

    def weft_sections(self, shared, folder):
        return (f'model = {{ name = "resnet", depth = {self.depth}, channels = 3, image_size = {self.size} }}\n'
                f'data = {{ name = "images", path = {quoted(self.images(folder))} }}\n'
                'optimizer = { name = "sgd", lr = 0.1, momentum = 0.9, nesterov = true, weight_decay = 5e-4 }\n')

    def make_files(self, folder, run_python):
        self.images(folder)

    def differences(self, weft):
        return []

    def images(self, folder):
        """The IDX files in `folder`: created on first use, always the same."""
        path = folder / f"images-{self.size}"
        if not path.is_dir():
            path.mkdir()
            noise = random.Random(1)
            for part, count in (("train", 1024), ("t10k", 16)):
                pixels, labels = noise.randbytes(count * self.size * self.size), bytes(noise.randrange(10) for _ in range(count))
                write_idx(path / f"{part}-images-idx3-ubyte", (count, self.size, self.size), pixels)
                write_idx(path / f"{part}-labels-idx1-ubyte", (count,), labels)
        return path


def corpus(shared):
    return shared / "data" / "tinyshakespeare.txt"


def quoted(path):
    return json.dumps(str(path))


def write_idx(path, sizes, values):
    header = bytes([0, 0, 8, len(sizes)]) + b"".join(size.to_bytes(4, "big") for size in sizes)
    path.write_bytes(header + values)
