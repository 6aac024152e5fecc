"""What a trainer is given, checked."""
import os

import torch

from weft.errors import InputError, kind, shown


def tensors_of(inputs):
    tensors = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    wrong = [value for value in tensors if not isinstance(value, torch.Tensor)]
    if wrong or not tensors:
        raise InputError(f"inputs must be a tensor, or a tuple of tensors, not {kind(wrong[0]) if wrong else 'empty'}")
    for value in tensors:
        plain(value, "an input")
    return tensors


def target_of(target):
    if not isinstance(target, torch.Tensor):
        raise InputError(f"the target must be a tensor, not {kind(target)}")
    return plain(target, "the target")


def plain(value, what):
    """The tensor, if it has values in memory."""
    if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized or value.is_nested:
        form = "nested" if value.is_nested else "quantized" if value.is_quantized else f"on {value.device}" if value.layout == torch.strided else "sparse"
        raise InputError(f"{what} is {form}; give a plain tensor on the CPU")
    return value


def pair_of(batch, what, hint):
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise InputError(f"{what} is {kind(batch)}, not (inputs, target){hint}")
    return batch


def whole_number(value, name, least):
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
        raise InputError(f"{name} is {shown(value)}; it must be a whole number of at least {least}")
    return value


def flag(value, name):
    if not isinstance(value, bool):
        raise InputError(f"{name} is {shown(value)}; it must be True or False")
    return value


def path_of(path):
    """As bytes, which need not be UTF-8."""
    try:
        encoded = os.fsencode(path)
    except (TypeError, UnicodeEncodeError):
        encoded = b"\0"
    if b"\0" in encoded:
        raise InputError(f"the path is {shown(path)}; it must be a text or a path, without NUL")
    return encoded
