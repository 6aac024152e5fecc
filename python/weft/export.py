"""Writes a PyTorch model to a file that weft trains (docs/exported.md): python -m weft.export MODULE:NAME --example SHAPE -o FILE.pt2"""
import argparse
import ast
import importlib
import importlib.util
import os
import sys

import torch


def export(model, example, path):
    """Write `model` for weft: as it trains, for any number of samples. `example` is a batch of two samples or more."""
    program = torch.export.export(model.train(), (example,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.export.save(program, path)


def export_loss(loss, outputs, target, path):
    """Write `loss`, a module of (outputs, target), for weft: for any number of samples. The examples are of two samples or more."""
    inputs, batch = (*outputs, target) if isinstance(outputs, tuple) else (outputs, target), torch.export.Dim("batch")
    torch.export.save(torch.export.export(loss, inputs, dynamic_shapes=tuple({0: batch} for _ in inputs)), path)


class UsageError(Exception):
    """What the command line prints, as one line."""


def reason(error):
    """The first line of an exception, with its type where the line alone says little."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def named(name):
    """What MODULE:NAME names; MODULE is importable, or a .py file."""
    module, colon, attribute = name.rpartition(":")
    if not colon or not module or not attribute:
        raise UsageError(f"'{name}' is not MODULE:NAME, such as torchvision.models:resnet18 or nets.py:make")
    try:
        if module.endswith(".py"):
            sys.path.insert(0, os.path.dirname(os.path.abspath(module)))
            spec = importlib.util.spec_from_file_location(os.path.basename(module)[:-3], module)
            found = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = found
            spec.loader.exec_module(found)
        else:
            found = importlib.import_module(module)
    except Exception as error:
        raise UsageError(f"cannot import {module}: {reason(error)}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{module} has no '{attribute}'")
        found = getattr(found, part)
    return found


def called(function, name, arguments):
    """function(**arguments), a failure of which is the caller's."""
    try:
        return function(**arguments)
    except Exception as error:
        raise UsageError(f"{name}() failed: {reason(error)}") from error


def make_model(name, arguments):
    """The model that MODULE:NAME is or, called, returns."""
    found = named(name)
    if isinstance(found, torch.nn.Module):
        if arguments:
            raise UsageError(f"{name} is a model already: --arg is for functions and classes that make one")
        return found
    if not callable(found):
        raise UsageError(f"{name} is a {type(found).__name__}: name a model, or a function or class that makes one")
    model = called(found, name, arguments)
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"{name}() returned a {type(model).__name__}, not a torch.nn.Module")
    return model


def make_example(text):
    """A batch of two samples from [int64:]SIZExSIZE..., or the batch that MODULE:NAME is or, called, returns."""
    kind, _, shape = text.rpartition(":")
    sizes = shape.split("x")
    if kind in ("", "float32", "int64") and all(size.isdecimal() and int(size) > 0 for size in sizes):
        return torch.zeros([2, *map(int, sizes)], dtype=getattr(torch, kind or "float32"))
    if not kind or kind in ("float32", "int64"):
        raise UsageError(f"--example '{text}' is no shape of one sample, such as 3x32x32 for images or int64:128 for token ids, and no MODULE:NAME")
    found = named(text)
    batch = called(found, text, {}) if callable(found) else found
    if not isinstance(batch, torch.Tensor):
        raise UsageError(f"--example {text} is a {type(batch).__name__}, not a tensor")
    if batch.dim() == 0 or len(batch) < 2:
        raise UsageError(f"--example {text} has shape {list(batch.shape)}: a batch of two samples or more is needed")
    return batch


def argument(text):
    """KEY=VALUE, the value a Python literal, otherwise text."""
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    try:
        return key, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return key, value


def sizes(shape):
    """Shape of a batch, for people."""
    return f"[{', '.join(['samples', *map(str, shape[1:])])}]"


def model_key(path, example, outputs):
    """The recipe's `model` for the file, as the shapes tell it."""
    inputs, shape = example.shape[1:], outputs.shape[1:]
    if example.dtype == torch.int64 and len(inputs) == 1 and len(shape) == 2:
        keys = f'inputs = "tokens", context = {inputs[0]}, vocabulary = {shape[1]}'
    elif len(inputs) == 3 and len(shape) == 1:
        keys = f"channels = {inputs[0]}, image_size = {inputs[1]}, classes = {shape[0]}"
    else:
        keys = 'inputs = "arrays"'
    return f'model = {{ name = "exported", path = "{path}", {keys} }}\n'


def forward(model, example):
    """The model's first output for the example."""
    try:
        with torch.no_grad():
            outputs = model(example)
    except Exception as error:
        raise UsageError(f"the model does not take the example, {example.dtype} {list(example.shape)}: {reason(error)}") from error
    first = outputs[0] if isinstance(outputs, (tuple, list)) and outputs else outputs
    if not isinstance(first, torch.Tensor):
        raise UsageError(f"the model returns a {type(outputs).__name__}; weft needs a tensor")
    return first


def write(model, example, path):
    """Exports to `path` and returns what the command prints."""
    try:
        export(model, example, path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    except Exception as error:
        forward(model, example)  # where the model fails by itself, that is what to say
        raise UsageError(f"torch.export refuses the model: {reason(error)}; see docs/exported.md, and --traceback") from error
    outputs = forward(model, example)  # not before: it moves BatchNorm's statistics
    count = sum(parameter.numel() for parameter in model.parameters())
    return (f"{path}: {count} parameters, {example.dtype} {sizes(example.shape)} to {sizes(outputs.shape)}\n"
            f"{model_key(path, example, outputs)}")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m weft.export", description="Writes a PyTorch model to a file that weft trains.")
    parser.add_argument("model", metavar="MODULE:NAME", help="a torch.nn.Module, or a function or class that makes one; MODULE may be a .py file")
    parser.add_argument("--example", required=True, metavar="SHAPE",
                        help="shape of one sample: 3x32x32 for float32 images, int64:128 for token ids; or MODULE:NAME of a batch or a function that returns one")
    parser.add_argument("-o", "--output", required=True, metavar="FILE.pt2", help="the file to write")
    parser.add_argument("--arg", type=argument, action="append", default=[], metavar="KEY=VALUE", help="argument of the function, repeatable")
    parser.add_argument("--seed", type=int, default=0, help="of PyTorch's random numbers, for initial weights (default: 0)")
    parser.add_argument("--traceback", action="store_true", help="show where an error comes from")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    path = options.output
    torch.manual_seed(options.seed)
    try:
        if not path.endswith(".pt2"):
            raise UsageError(f"-o {path}: the name must end in .pt2")
        if os.path.isdir(path) or not os.access(os.path.dirname(path) or ".", os.W_OK):
            raise UsageError(f"-o {path}: no file can be written there")
        sys.stdout.write(write(make_model(options.model, dict(options.arg)), make_example(options.example), path))
    except UsageError as error:
        if options.traceback:
            raise
        sys.exit(f"weft.export: {error}")


if __name__ == "__main__":
    main()
