"""weft: distributed training in C++ on the LibTorch of the installed torch.

`python -m weft` runs the command. weft.Trainer trains modules of torch.nn; weft.train, memory, simulate, plan and verify take a recipe;
weft.spawn starts ranks; weft.export writes models that train without Python.
"""
import os

from weft.version import __version__

TYPE_CHECKING = False  # as in typing, which takes 4 ms to import
if TYPE_CHECKING:
    from weft.blocks import chain
    from weft.errors import CommandError, CommError, Error, InputError, NumericError, OutOfMemoryError, RankError
    from weft.ranks import rank, spawn, world_size
    from weft.recipes import evaluate, load_recipe, memory, plan, simulate, train, verify
    from weft.trainer import Evaluation, Step, Trainer

# Names and the modules they are in, which are imported at their first use: the command starts without them, and torch.
_LAZY = {
    "Trainer": "trainer", "Step": "trainer", "Evaluation": "trainer", "chain": "blocks",
    "load_recipe": "recipes", "train": "recipes", "memory": "recipes", "simulate": "recipes", "plan": "recipes", "verify": "recipes",
    "evaluate": "recipes", "spawn": "ranks", "rank": "ranks", "world_size": "ranks",
    "Error": "errors", "InputError": "errors", "CommError": "errors", "OutOfMemoryError": "errors", "NumericError": "errors",
    "CommandError": "errors", "RankError": "errors",
}
__all__ = [
    "CommError", "CommandError", "Error", "Evaluation", "InputError", "NumericError", "OutOfMemoryError", "RankError", "Step", "Trainer", "__version__",
    "chain", "cmake_prefix", "evaluate", "load_recipe", "memory", "plan", "rank", "simulate", "spawn", "train", "verify", "world_size",
]


def cmake_prefix() -> str:
    """The folder for CMAKE_PREFIX_PATH, where find_package(weft) looks."""
    return os.path.dirname(os.path.abspath(__file__))


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'weft' has no attribute '{name}'")
    from importlib import import_module

    if _LAZY[name] in ("trainer", "blocks", "ranks"):
        import_module("weft.installed").torch_folder()  # on another torch, the import fails with a symbol's name
    value = getattr(import_module(f"weft.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
