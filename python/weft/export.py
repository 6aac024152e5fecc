"""Writes a PyTorch model to a file that weft trains (docs/exported.md): python -m weft.export MODULE:NAME --example SHAPE -o FILE.pt2"""
import argparse
import ast
import contextlib
import importlib
import importlib.util
import io
import os
import sys

from weft.errors import Error, InputError, kind
from weft.installed import torch_folder

try:
    torch_folder()  # weft reads what this version exports
except Error as error:
    if __name__ != "__main__":
        raise
    sys.exit(f"weft.export: {error}")
import torch  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

from weft.arguments import path_of  # noqa: E402


def export(model, example, path):
    """Write `model` for weft: as it trains, for any number of samples. `example` is a batch of two samples or more: a tensor, or of
    several inputs a tuple, or a dict by the names of forward's arguments. Returns the model's outputs."""
    path = os.fsdecode(path_of(path))
    program, outputs = exported(model, *arguments_of(example))
    save(program, path, "model")
    return outputs


def export_loss(loss, outputs, target, path):
    """Write `loss`, a module of (outputs, target), for weft: for any number of samples. The examples are of two samples or more."""
    path = os.fsdecode(path_of(path))
    inputs, batch = (*outputs, target) if isinstance(outputs, tuple) else (outputs, target), torch.export.Dim("batch")
    for value in inputs:
        check_batch(value, "an example")
    try:
        program = torch.export.export(loss, inputs, dynamic_shapes=tuple({0: batch} for _ in inputs))
    except Exception as error:
        raise refused("loss", error) from error
    save(program, path, "loss")


def exported(model, inputs, named):
    """The program of a model, and its outputs."""
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"the model is {kind(model)}, not a torch.nn.Module")
    modes = [(part, part.training) for part in model.modules()]
    batch = torch.export.Dim.DYNAMIC
    shapes = {name: {0: batch} for name in named} or tuple({0: batch} for _ in inputs)
    try:
        training = model if model.training else model.train()
        outputs = outputs_of(training, inputs, named)
        program = torch.export.export(training, inputs, named, dynamic_shapes=shapes)
        if len({str(value.shape[0]) for value in taken_by(program).values()}) > 1:  # forward does not tie their numbers of samples
            batch = torch.export.Dim("batch")
            program = torch.export.export(training, inputs, named, dynamic_shapes=tree_map(lambda _: batch, shapes))
    except InputError:
        raise
    except Exception as error:
        raise refused("model", error) from error
    finally:
        for part, mode in modes:
            part.training = mode
    return program, outputs


def taken_by(program):
    """{name: tensor} of a program's inputs, in its order; PyTorch writes names in lower case."""
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    return {name: values[name] for name in program.graph_signature.user_inputs if isinstance(values.get(name), torch.Tensor)}


def save(program, path, what):
    """Writes beside `path`, which has the whole program or what it had before."""
    data = io.BytesIO()  # not the file: PyTorch's writer aborts the process where a disk is full
    try:
        torch.export.save(program, data)
    except Exception as error:
        raise refused(what, error) from error
    part = f"{os.path.realpath(path)}.{os.getpid()}.part"
    try:
        with open(part, "wb") as file:
            file.write(data.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, os.path.realpath(path))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)


def arguments_of(example):
    """The arguments of forward without and with names."""
    named = example if isinstance(example, dict) else {}
    inputs = () if isinstance(example, dict) else example if isinstance(example, tuple) else (example,)
    if not named and not inputs:
        raise InputError("the example is empty; a batch has one tensor at least")
    for place, value in named.items() if named else enumerate(inputs):
        check_batch(value, f"input {place!r} of the example" if isinstance(example, (dict, tuple)) else "the example")
        if len(value) != len(next(iter(named.values())) if named else inputs[0]):
            raise InputError(f"the example's inputs have different numbers of samples: {[len(tensor) for tensor in named.values() or inputs]}")
    return tuple(value.contiguous() for value in inputs), {name: value.contiguous() for name, value in named.items()}


def check_batch(batch, what):
    if not isinstance(batch, torch.Tensor):
        raise InputError(f"{what} is {kind(batch)}, not a tensor")
    if batch.dim() == 0 or len(batch) < 2:
        raise InputError(f"{what} has shape {list(batch.shape)}: a batch of two samples or more is needed")


def outputs_of(model, inputs, named):
    """The model's output tensors, with buffers (BatchNorm's statistics) and PyTorch's random numbers left as they were."""
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            outputs = torch.func.functional_call(model, {name: buffer.clone() for name, buffer in model.named_buffers()}, inputs, named)
    except Exception as error:
        hint = "; of several inputs the example is a tuple or a dict" if "required positional argument" in str(error) else ""
        shapes = ", ".join(f"{value.dtype} {list(value.shape)}" for value in named.values() or inputs)
        raise InputError(f"the model does not take the example, {shapes}: {reason(error)}{hint}") from error
    tensors = [value for value in tree_leaves(outputs) if value is not None]
    wrong = [value for value in tensors if not isinstance(value, torch.Tensor)] if tensors else [outputs]
    if wrong:
        raise InputError(f"the model returns {kind(wrong[0])}; weft needs a tensor, or a tuple or dict of tensors")
    return tensors


def refused(what, error):
    hint = "; give the model its mask, as in docs/exported.md, Hugging Face" if "lazy_load_decompositions" in str(error) else "; see docs/exported.md"
    return InputError(f"torch.export refuses the {what}: {reason(error)}{hint}")


def reason(error):
    """The type and first line of an exception, and the lines that say which constraints of torch.export are violated."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    first = lines[0].split(" For more information, run with")[0]
    why = [line[2:].split(". If you're using")[0] for line in lines if line.startswith("- ") and first.startswith("Constraints violated")]
    text = " ".join([first, *dict.fromkeys(why)])
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def named(name):
    """What MODULE:NAME names; MODULE is importable, or a .py file."""
    module, colon, attribute = name.rpartition(":")
    if not colon or not module or not attribute:
        raise InputError(f"'{name}' is not MODULE:NAME, such as torchvision.models:resnet18 or nets.py:make")
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
        raise InputError(f"cannot import {module}: {reason(error)}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise InputError(f"{module} has no '{attribute}'")
        found = getattr(found, part)
    return found


def called(function, name, arguments):
    """function(**arguments), a failure of which is the caller's."""
    try:
        return function(**arguments)
    except Exception as error:
        raise InputError(f"{name}() failed: {reason(error)}") from error


def make_model(name, arguments):
    """The model that MODULE:NAME is or, called, returns."""
    found = named(name)
    if isinstance(found, torch.nn.Module):
        if arguments:
            raise InputError(f"{name} is a model already: --arg is for functions and classes that make one")
        return found
    if not callable(found):
        raise InputError(f"{name} is a {type(found).__name__}: name a model, or a function or class that makes one")
    model = called(found, name, arguments)
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"{name}() returned a {type(model).__name__}, not a torch.nn.Module")
    return model


def make_example(text):
    """A batch of two samples from [int64:]SIZExSIZE..., or the batch that MODULE:NAME is or, called, returns."""
    kind, _, shape = text.rpartition(":")
    sizes = shape.split("x")
    if kind in ("", "float32", "int64") and all(size.isdecimal() and int(size) > 0 for size in sizes):
        return torch.zeros([2, *map(int, sizes)], dtype=getattr(torch, kind or "float32"))
    if not kind or kind in ("float32", "int64"):
        raise InputError(f"--example '{text}' is no shape of one sample, such as 3x32x32 for images or int64:128 for token ids, and no MODULE:NAME")
    found = named(text)
    return called(found, text, {}) if callable(found) else found


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


def model_key(path, examples, outputs):
    """The recipe's `model` for the file, as the shapes tell it."""
    inputs, shape = examples[0].shape[1:], outputs.shape[1:]
    if len(examples) > 1:
        keys = 'inputs = "arrays"'
    elif examples[0].dtype == torch.int64 and len(inputs) == 1 and len(shape) == 2:
        keys = f'inputs = "tokens", context = {inputs[0]}, vocabulary = {shape[1]}'
    elif len(inputs) == 3 and len(shape) == 1:
        keys = f"channels = {inputs[0]}, image_size = {inputs[1]}, classes = {shape[0]}"
    else:
        keys = 'inputs = "arrays"'
    return f'model = {{ name = "exported", path = "{path}", {keys} }}\n'


def write(model, example, path):
    """Exports to `path` and returns what the command prints."""
    program, (outputs, *_) = exported(model, *arguments_of(example))
    save(program, path, "model")
    inputs = taken_by(program)
    count = sum(parameter.numel() for parameter in model.parameters())
    taken = ", ".join(f"{f'{name} ' if len(inputs) > 1 else ''}{value.dtype} {sizes(value.shape)}" for name, value in inputs.items())
    return f"{path}: {count} parameters, {taken} to {sizes(outputs.shape)}\n{model_key(path, list(inputs.values()), outputs)}"


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
            raise InputError(f"-o {path}: the name must end in .pt2")
        if os.path.isdir(path) or not os.access(os.path.dirname(path) or ".", os.W_OK):
            raise InputError(f"-o {path}: no file can be written there")
        sys.stdout.write(write(make_model(options.model, dict(options.arg)), make_example(options.example), path))
    except InputError as error:
        if options.traceback:
            raise
        sys.exit(f"weft.export: {error}{'; --traceback shows where' if error.__cause__ else ''}")


if __name__ == "__main__":
    main()
