"""What a check runs on: the programs of a build or of a packed folder, the device, the text and the sizes."""
import dataclasses
import importlib.util
import json
import os
import pathlib
import shutil

from rows import write_images
from run import CommandFailed, NotRun

# GPT-2's smallest: 124 M parameters with the head's weights tied to the embedding's, 163 M without.
LARGE = dict(layers=12, heads=12, width=768, context=1024, vocabulary=50304)
SMALL = dict(layers=2, heads=3, width=48, context=32, vocabulary=256)
# Little work, for dry runs and under compute-sanitizer, by recipe.
LITTLE = {
    "gpt": ["model.layers=2", "model.heads=3", "model.width=48", "model.context=32", "batch.global=4"],
    "llama": ["model.layers=2", "model.heads=4", "model.kv_heads=2", "model.width=48", "model.ffn=96", "model.context=32",
              "batch.global=4"],
    "cifar10": ["model.depth=8", "batch.global=8"],
}


def torch_folder():
    """Where this Python's PyTorch is, which is LibTorch's; None without one."""
    found = importlib.util.find_spec("torch")
    return found and pathlib.Path(found.origin).parent


def library_folders(packed, work):
    """Folders of the packed libraries, which it unpacks, and of those of PyTorch, for LD_LIBRARY_PATH."""
    shutil.unpack_archive(packed / "libs.tar.gz", work / "libs")
    torch = torch_folder()
    return ":".join(map(str, [work / "libs", *([torch / "lib", *torch.parent.glob("nvidia/*/lib")] if torch else [])]))


def settings_of(sizes, **others):
    return [f"model.{key}={value}" for key, value in sizes.items()] + [f"{key}={value}" for key, value in others.items()]


@dataclasses.dataclass
class Place:
    root: pathlib.Path  # holds recipes/
    build: pathlib.Path
    packed: bool
    dry: bool  # on the CPU, with little work
    work: pathlib.Path
    text: pathlib.Path

    def __post_init__(self):
        self.device = "cpu" if self.dry else "cuda"
        self.environment = os.environ | ({"LD_LIBRARY_PATH": library_folders(self.build, self.work)} if self.packed else {})

    def program(self, name):
        found = [path for path in (self.build / name, self.build / "tests" / name) if path.is_file()]
        if not found:
            raise NotRun(f"{self.build / name} is not built")
        return found[0]

    def needs_gpu(self):
        if self.dry:
            raise NotRun("it needs a GPU")

    def write_images(self):
        if not (self.work / "images").exists():
            write_images(self.work / "images", 50 if self.dry else 500)

    def recipe(self, recipe, settings):
        """Words of a command that name the recipe, on this place's data and, in a dry run, with little work."""
        data = f"data.path={self.work / 'images' if recipe == 'cifar10' else self.text}"
        little = [*LITTLE[recipe], "run.threads=1"] if self.dry else []
        words = [word for setting in (data, *little, *settings) for word in ("--set", setting)]
        return [self.root / f"recipes/{recipe}.toml", *words]

    def train(self, run, name, recipe, settings, device=None, steps=6, before=(), more=(), environment=None):
        """Returns the summary of a run."""
        device, summary = device or self.device, self.work / f"{name}.json"
        settings = [word for word in settings if device == "cuda" or word != "run.graph=true"]  # the CPU has no graphs
        settings += [f"run.steps={steps}", f"run.device={device}"]
        settings += [f"optimizer.warmup={min(1, steps - 1)}"] if recipe != "cifar10" else []
        settings += ["run.threads=2"] if device == "cpu" and not self.dry else []
        run.command([*before, self.program("weft"), "train", *self.recipe(recipe, settings), "--summary", summary, *more],
                    self.environment | (environment or {}))
        try:
            found = json.loads(summary.read_text())
            float(found["loss"])
            return found
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CommandFailed(f"the summary of {name}: {error}") from None


def relative_difference(value, expected):
    return abs(value - expected) / abs(expected) if value is not None and expected else float("inf")


def attempt(run, name, work):
    """Runs `work`; what fails in it is a row, so that the rows after it are tried too."""
    try:
        work()
    except (CommandFailed, NotRun, KeyError, TypeError, ValueError, OSError) as error:
        run.fault(name, error)
