"""Cuts modules of torch.nn into the blocks that weft shards, schedules and places on the stages of a pipeline."""
from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import UninitializedParameter
from torch.utils.weak import WeakTensorKeyDictionary

from weft import _weft
from weft.errors import InputError, kind, shown

_trained = WeakTensorKeyDictionary()  # parameters of trainers


def blocks_of(model):
    """(name, module, prefix of its parameters' names) of each block, in the order they run.

    A list of modules has a block for each; so has an nn.Sequential, in which modules without parameters join the one before. Any
    other module is one block.
    """
    if isinstance(model, torch.nn.Sequential) and type(model).forward is torch.nn.Sequential.forward:
        return _sequence(model)
    if isinstance(model, torch.nn.Module) and not isinstance(model, torch.nn.ModuleList):
        return [("all", _block(model), "")]
    modules = list(model) if isinstance(model, (list, tuple, torch.nn.ModuleList)) else [model]
    if not modules:
        raise InputError("blocks: an empty list is no block; give a list of torch.nn.Modules with forward(), or one")
    return [(str(index), _block(module), str(index)) for index, module in enumerate(modules)]


def _block(module):
    """The module, if it can be called."""
    if not isinstance(module, torch.nn.Module) or getattr(module.forward, "__func__", None) is torch.nn.Module.forward:
        raise InputError(f"blocks: {kind(module)} is no block; give a list of torch.nn.Modules with forward(), or one")
    return module


def chain(module: torch.nn.Module, example: Any) -> torch.nn.Sequential:
    """`module`'s children as an nn.Sequential, if it only calls them one after the other; its parameters keep their names.

    `example` is a batch, on which both must have equal outputs: a module that does more than call its children is refused.
    """
    if not _block(module)._modules:
        raise InputError(f"chain: {kind(module)} has no children; give a torch.nn.Module that has")
    children = torch.nn.Sequential(OrderedDict(module.named_children()))
    own = [name for name, _ in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]]
    if own:
        raise InputError(f"chain: {type(module).__name__} has tensors of its own ({own[0]}); give weft.Trainer a list of modules instead")
    modes = {part: part.training for part in module.modules()}
    try:
        for mode in (False, True):
            module.train(mode)
            expected = _output(module, module, example)
            try:
                found = _output(children, module, example)
            except Exception as error:
                raise _no_chain(module, f"which fail one after the other: {_first_line(error)}") from error
            if type(found) is not type(expected) or not all(map(_same, _tuple(found), _tuple(expected))):
                raise _no_chain(module, f"whose outputs are others in {'training' if mode else 'evaluation'}")
    finally:
        for part, training in modes.items():
            part.training = training
    return children


def _output(called, module, example):
    """called(example), with the same random numbers each time; `module`'s buffers are as before."""
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    had = [(part._buffers, dict(part._buffers)) for part in module.modules()]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            return called(example)
        finally:
            for held, kept in had:
                held.clear()
                held.update(kept)
            for buffer, value in buffers:
                buffer.copy_(value)


def _same(found, expected):
    if not isinstance(found, torch.Tensor) or not isinstance(expected, torch.Tensor):
        raise InputError(f"chain: the output is {kind(expected)}; it must be a tensor, or a tuple of them")
    equal = (found == expected) | ((found != found) & (expected != expected)) if found.shape == expected.shape else None
    return found.dtype == expected.dtype and equal is not None and bool(equal.all())


def _no_chain(module, reason):
    return InputError(f"chain: {type(module).__name__}.forward does more than call its children in order, {reason}; "
                      "give weft.Trainer a list of modules instead")


class Described:
    """Blocks for weft._weft, the functions that they call, which the caller keeps, and names of tensors."""

    def __init__(self, blocks):
        self.blocks, self.functions = [], []
        self.aliases = {}  #: {name: the name under which weft has the tensor}
        self.parameters = []
        self._memory = {}
        self.unsaved = set()  #: names of statistics that are not persistent
        owners = {}  # of each tensor but constant buffers, of which each block has its own
        for index, (name, module, prefix) in enumerate(blocks):
            _refuse(name, module)
            forward = _forward(name, module)
            self.functions.append(forward)
            tensors, uses, unsaved = [], set(), []
            for path, tensor, role, is_persistent in _tensors(module):
                full = f"{prefix}.{path}" if prefix else path
                if not is_persistent:
                    unsaved.append(path)
                    self.unsaved |= {full} if role != "constant" else set()
                if id(tensor) not in owners:
                    tensors.append((path, tensor, role == "parameter"))
                    if role == "parameter":
                        self._add(full, tensor)
                    if role != "constant":
                        owners[id(tensor)] = (index, full)
                    continue
                owner, first = owners[id(tensor)]
                if owner != index and role not in ("parameter", "constant"):
                    raise InputError(f"blocks {blocks[owner][0]} and {name} share a norm whose statistics both would update ('{full}'); give "
                                     "each its own, or make the modules one block")
                self.aliases[full] = first
                if owner != index:
                    uses.add(owner)
            self.blocks.append(_weft.Block(name=f"{name}", prefix=prefix, tensors=tensors, embeddings=_embeddings(module), unsaved=unsaved,
                                           uses=sorted(uses), forward=forward))

    def _add(self, name, parameter):
        if parameter in _trained:
            raise InputError(f"parameter '{name}' is an earlier trainer's, between whose steps it may have a part of its values; make new modules, "
                             "and give them that trainer's state_dict()")
        reason = next((reason for wrong, reason in (
            (isinstance(parameter, UninitializedParameter), "of a lazy module, which has no shape yet; call the module once on a batch"),
            (parameter.is_meta, "on the meta device, where it has no values; make the module on the CPU"),
            (parameter.layout != torch.strided, "sparse; make it a plain tensor"),
            (parameter.device.type != "cpu", f"on {parameter.device}; make the module on the CPU"),
            (parameter.dtype != torch.float32, f"of {parameter.dtype}; call the module's float(): layout.precision sets what it computes in"),
        ) if wrong), None)
        if reason:
            raise InputError(f"parameter '{name}' is {reason}")
        first = self._memory.setdefault(parameter.untyped_storage().data_ptr(), name) if parameter.numel() else name
        if first != name:
            raise InputError(f"parameters '{first}' and '{name}' share memory; make them one parameter, or give each its own")
        self.parameters.append(parameter)

    def make(self, make):
        """make(blocks), after which the parameters are the trainer's that it returns."""
        before = [parameter.data_ptr() for parameter in self.parameters]
        try:
            return make(self.blocks)
        finally:
            if any(parameter.data_ptr() != at for parameter, at in zip(self.parameters, before, strict=True)):
                _trained.update((parameter, True) for parameter in self.parameters)


def loss_function(loss):
    """What weft._weft takes as a loss: None for cross entropy, else a function of the tuple of outputs and the target."""
    if loss is None or isinstance(loss, str):
        if loss in (None, "cross_entropy"):
            return None
        if loss == "mean_squares":
            return _squares
        raise InputError(f"loss is '{loss}'; it must be 'cross_entropy', 'mean_squares', or a function of outputs and target")
    if not callable(loss):
        raise InputError(f"loss is {kind(loss)}; it must be a name, or a function of outputs and target")
    if isinstance(loss, torch.nn.Module) and any(True for _ in loss.parameters()):
        raise InputError("loss has parameters, which nothing would train; make it the last block")

    checked = []  # once, as it costs a walk over the loss's graph

    def summed(outputs, target):
        value = loss(outputs[0] if len(outputs) == 1 else outputs, target)
        total, count = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
        if not isinstance(total, torch.Tensor) or total.dim() != 0 or not total.is_floating_point():
            found = f"{list(total.shape)} of {total.dtype}" if isinstance(total, torch.Tensor) else kind(total)
            raise InputError(f"the loss is {found}; it must be a tensor with one number: the mean over the samples; or (sum, count)")
        if count is None:
            total, count = total * len(target), len(target)
        in_tensor = isinstance(count, torch.Tensor) and count.dim() == 0 and count.dtype == torch.int64
        is_number = in_tensor or isinstance(count, int) and not isinstance(count, bool)
        if not is_number or not (in_tensor and not count.is_cpu or 0 <= count < 2**62):
            raise InputError(f"the loss's count is {shown(count)}; it must be a whole number from 0, or one in an int64 tensor")
        if not total.requires_grad and count != 0 and any(output.requires_grad for output in outputs):
            raise InputError("the loss has no gradient with respect to the outputs: it is detached from them, or made without gradients")
        if total.requires_grad and not checked:
            if (parameter := _untrained(total, outputs)) is not None:
                raise InputError(f"the loss reads a parameter of shape {list(parameter.shape)} that is no block's, which nothing would train; "
                                 "make a module that has it the last block")
            checked.append(True)
        return total, count

    return summed


def _untrained(loss, outputs):
    """The first parameter in the loss's graph, back to the outputs, that is no trainer's."""
    seen = {output.grad_fn for output in outputs}
    nodes = [loss.grad_fn]
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        found = getattr(node, "variable", None)
        if isinstance(found, torch.nn.Parameter) and found not in _trained:
            return found
        nodes += [more for more, _ in node.next_functions]
    return None


def _squares(outputs, target):
    if outputs[0].shape != target.shape:
        raise InputError(f"loss mean_squares: outputs are {list(outputs[0].shape)}, the target is {list(target.shape)}; they must have one shape")
    return torch.nn.functional.mse_loss(outputs[0], target.to(outputs[0].dtype), reduction="sum"), target.numel()


def _sequence(model):
    own = next((name for name, _ in [*model.named_parameters(recurse=False), *model.named_buffers(recurse=False)]), None)
    if own:
        raise InputError(f"'{own}' is registered at the nn.Sequential itself, but only its modules run; register it at the module that reads it")
    if model._forward_hooks or model._forward_pre_hooks or model._backward_hooks or model._backward_pre_hooks:
        raise InputError("a hook is registered at the nn.Sequential itself, but only its modules run; register it at one of them")
    groups = []
    for name, module in model._modules.items():  # with those that come again, which named_children() leaves out
        if not groups or any(True for _ in module.parameters()):
            groups.append([])
        groups[-1].append((name, module))
    if not groups:
        raise InputError("the nn.Sequential is empty")
    return [(group[0][0], torch.nn.Sequential(OrderedDict(group)), "") for group in groups]


def _tensors(module):
    """(path, tensor, role, whether it is persistent): roles are "parameter", "statistic", "count" and "constant", as in C++."""
    for path, parameter in module.named_parameters(remove_duplicate=False):
        yield path, parameter, "parameter", True
    for prefix, part in module.named_modules(remove_duplicate=False):
        for name, buffer in part._buffers.items():
            if buffer is not None:
                yield f"{prefix}.{name}" if prefix else name, buffer, _role_of_buffer(name, buffer), name not in part._non_persistent_buffers_set


def _role_of_buffer(name, buffer):
    if name.startswith("running_") and buffer.is_floating_point():
        return "statistic"
    return "count" if name == "num_batches_tracked" else "constant"


def _embeddings(module):
    kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    return [f"{path}.weight" if path else "weight" for path, part in module.named_modules() if isinstance(part, kinds)]


def _refuse(name, module):
    for path, part in module.named_modules():
        if isinstance(part, _NormBase) and part.track_running_stats and part.momentum is None:
            raise InputError(f"block {name}: '{path}' is {kind(part)} without momentum, whose statistics are means over all "
                             "forwards so far, which layouts count differently; give it a momentum")


def _forward(name, module):
    parts = [(path, part, {**part._parameters, **part._buffers}, dict(part._modules)) for path, part in module.named_modules()]
    known = {id(tensor) for _, _, had, _ in parts for tensor in had.values()}

    def called(inputs):
        outputs = _tuple(module(*inputs))
        for path, part, had, children in parts:
            if part._modules != children:
                _refuse_others(f"block {name}: '{path + '.' if path else ''}", part, children, known)
            for tensors in (part._parameters, part._buffers):
                for key, value in tensors.items():
                    if value is not had.get(key):
                        _take_back(f"block {name}: its forward replaced '{path + '.' if path else ''}{key}'", part, tensors, key, had)
        return outputs

    def forward(inputs, training):
        if training:
            return called(inputs)
        modes = [(part, part.training) for part in module.modules()]
        try:
            module.eval()
            return called(inputs)
        finally:
            for part, mode in modes:
                part.training = mode

    return forward


def _refuse_others(where, part, children, known):
    """Refuses a module that was set after the start, if it has tensors to train or save."""
    for key, child in part._modules.items():
        if child is None or child is children.get(key):
            continue
        for path, tensor, role, is_persistent in _tensors(child):
            if is_persistent and id(tensor) not in known:
                raise InputError(f"{where}{key}' was set after the trainer was made, which would not train or save its '{path}'; set it before that, or "
                                 "make a new trainer of new modules")


def _take_back(replaced, part, tensors, key, had):
    """The values of a buffer that forward replaced, in the buffer that weft knows, where it treats them as any change."""
    old, new = had.get(key), tensors[key]
    if key in part._non_persistent_buffers_set and (old is None or _role_of_buffer(key, old) == "constant"):
        had[key] = new  # a cache of the module's own
        return
    if tensors is part._parameters or old is None or new is None or new.shape != old.shape or new.dtype != old.dtype:
        raise InputError(f"{replaced}, where weft would not see it: change its values in place, or, of a cache, make it a buffer with "
                         "persistent=False")
    with torch.no_grad():
        old.copy_(new)
    tensors[key] = old


def _tuple(outputs):
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


def _first_line(error):
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
