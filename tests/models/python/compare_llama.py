"""Logits and gradients of weft's llama equal those of transformers' LlamaForCausalLM with the same weights.

usage: compare_llama.py FOLDER    (FOLDER: what llama_sample wrote)
"""
import ast
import pathlib
import sys

import safetensors
import torch
from transformers import LlamaConfig, LlamaForCausalLM

CASES = 5
TOLERANCE = 1e-5  # of the largest number of a tensor


def difference(got, expected):
    assert torch.isfinite(got).all(), "not all numbers are finite"
    return ((got - expected).abs().max() / expected.abs().max().clamp(min=1.0)).item()


def part(tensors, prefix):
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def load(path):
    with safetensors.safe_open(path, framework="pt") as file:
        options = {key: ast.literal_eval(value) for key, value in file.metadata().items()}
        return options, {name: file.get_tensor(name) for name in file.keys()}


def compare(path):
    """Return the largest difference of the logits and of the gradients."""
    options, tensors = load(path)
    model = LlamaForCausalLM(LlamaConfig(**options, attn_implementation="eager"))
    weights = part(tensors, "weight.")
    if options["tie_word_embeddings"]:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    model.load_state_dict(weights, strict=True)
    logits = model(tensors["ids"]).logits
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), tensors["target"].flatten(), reduction="sum").backward()
    gradients = part(tensors, "gradient.")
    assert gradients.keys() == dict(model.named_parameters()).keys(), "other parameters"
    return (difference(tensors["logits"], logits.detach()),
            max(difference(gradients[name], parameter.grad) for name, parameter in model.named_parameters()))


def main():
    paths = sorted(pathlib.Path(sys.argv[1]).glob("*.safetensors"))
    bad = len(paths) != CASES
    for path in paths:
        logits, gradients = compare(path)
        print(f"{path.stem}: logits differ by {logits:.1e}, gradients by {gradients:.1e}")
        bad = bad or not (logits <= TOLERANCE and gradients <= TOLERANCE)
    sys.exit(bad)


main()
