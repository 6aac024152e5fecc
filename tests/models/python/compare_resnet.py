"""Logits, gradients and running statistics of weft's ResNets equal those of torchvision's with the same weights.

usage: compare_resnet.py FOLDER    (FOLDER: what resnet_sample wrote)
"""
import pathlib
import sys

import safetensors
import torch
import torchvision

CASES = 3
TOLERANCE = 1e-5  # of the largest number of a tensor, of logits
LOOSE = 1e-4  # of gradients and statistics, which a hundred norms over few values have gone through


def difference(got, expected, least=1e-3):
    assert torch.isfinite(got).all(), "not all numbers are finite"
    return ((got - expected).abs().max() / expected.abs().max().clamp(min=least)).item()


def part(tensors, prefix):
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def compare(path):
    """Return the largest differences: logits in evaluation, in training, gradients, statistics."""
    with safetensors.safe_open(path, framework="pt") as file:
        options, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
    model = getattr(torchvision.models, options["name"])(num_classes=int(options["classes"]))
    missing = model.load_state_dict(part(tensors, "weight."), strict=False)
    assert not missing.unexpected_keys and all(key.endswith("num_batches_tracked") for key in missing.missing_keys), missing
    model.eval()
    evaluated = difference(tensors["evaluated"], model(tensors["images"]).detach())
    model.train()
    logits = model(tensors["images"])
    torch.nn.functional.cross_entropy(logits, tensors["target"], reduction="sum").backward()
    gradients, after = part(tensors, "gradient."), part(tensors, "after.")
    assert gradients.keys() == dict(model.named_parameters()).keys(), "other parameters"
    buffers = dict(model.named_buffers())
    # Biases that a following norm cancels have gradients that are only rounding errors.
    least = 1e-2 * max(parameter.grad.abs().max().item() for parameter in model.parameters())
    return (evaluated, difference(tensors["logits"], logits.detach()),
            max(difference(gradients[name], parameter.grad, least) for name, parameter in model.named_parameters()),
            max(difference(value, buffers[name]) for name, value in after.items()))


def main():
    paths = sorted(pathlib.Path(sys.argv[1]).glob("*.safetensors"))
    bad = len(paths) != CASES
    for path in paths:
        evaluated, logits, gradients, statistics = compare(path)
        print(f"{path.stem}: logits differ by {evaluated:.1e} in evaluation, {logits:.1e} in training, gradients by {gradients:.1e}, "
              f"statistics by {statistics:.1e}")
        bad = bad or not (evaluated <= TOLERANCE and logits <= 10 * TOLERANCE and gradients <= LOOSE and statistics <= LOOSE)
    sys.exit(bad)


main()
