"""weft's optimizers make the steps that PyTorch's and timm's make, and its average of the weights is PyTorch's.

usage: compare_optimizers.py FOLDER    (FOLDER: what optimizer_sample wrote)
"""
import ast
import importlib
import pathlib
import sys
import types

import safetensors
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

CASES = 14
STEPS = 20
TOLERANCE = 1e-6
DECAY = 0.9
ADAM_SHARE = 1.0  # of Muon's rate in the samples: adam_lr / lr


def timm_optimizer(name):
    """Import timm.optim without the models and data sets that `import timm` loads."""
    folder = next(pathlib.Path(path) / "timm" for path in sys.path if (pathlib.Path(path) / "timm").is_dir())
    for package, path in (("timm", folder), ("timm.optim", folder / "optim")):
        if package not in sys.modules:
            sys.modules[package] = types.ModuleType(package)
            sys.modules[package].__path__ = [str(path)]
    return getattr(importlib.import_module(f"timm.optim.{name.lower()}"), name)


def compare(path):
    """Return the largest differences of weights and of averages over all steps."""
    with safetensors.safe_open(path, framework="pt") as file:
        options = {key: ast.literal_eval(value) for key, value in file.metadata().items()}
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    name, weight_decay = options.pop("name"), options.pop("weight_decay")
    weights = {key.removeprefix("begin."): torch.nn.Parameter(value) for key, value in tensors.items() if key.startswith("begin.")}
    assert len(weights) == 3
    make = getattr(torch.optim, name, None) or timm_optimizer(name)
    if name == "Muon":
        # PyTorch's takes only matrices; a kernel becomes rows of all its inputs, and AdamW updates the rest.
        weights = {key: torch.nn.Parameter(weight.detach().flatten(1)) if key != "bias" else weight for key, weight in weights.items()}
        adamw = torch.optim.AdamW([weights["bias"]], weight_decay=0.0)
        optimizers = [(make([weights["matrix"], weights["kernel"]], weight_decay=weight_decay, **options), 1.0), (adamw, ADAM_SHARE)]
    else:
        optimizers = [(make([{"params": [weights["matrix"], weights["kernel"]], "weight_decay": weight_decay},
                             {"params": [weights["bias"]], "weight_decay": 0.0}], **options), 1.0)]
    tensors = {key: value.flatten(1) if name == "Muon" and value.dim() > 1 else value for key, value in tensors.items()}
    module = torch.nn.ParameterDict(weights)
    averaged = AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(DECAY))
    averaged.update_parameters(module)  # the first time it takes them as they are
    worst = [0.0, 0.0]
    for step in range(STEPS):
        for key, weight in weights.items():
            weight.grad = tensors[f"gradient.{step}.{key}"]
        for optimizer, share in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = share * 0.01 / (step + 1)
            optimizer.step()
        averaged.update_parameters(module)
        assert all(torch.isfinite(tensors[f"weight.{step}.{key}"]).all() for key in weights), "not all weights are finite"
        for i, (name, values) in enumerate({"weight": weights, "average": averaged.module}.items()):
            worst[i] = max([worst[i]] + [(tensors[f"{name}.{step}.{key}"] - value).abs().max().item() for key, value in values.items()])
    return worst


def main():
    paths = sorted(pathlib.Path(sys.argv[1]).glob("*.safetensors"))
    bad = len(paths) != CASES
    for path in paths:
        weights, averages = compare(path)
        print(f"{path.stem}: weights differ by {weights:.1e}, averages by {averages:.1e}")
        bad = bad or not max(weights, averages) <= TOLERANCE
    sys.exit(bad)


main()
