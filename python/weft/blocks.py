"""Cuts modules of torch.nn into the blocks that weft shards, schedules and places on the stages of a pipeline."""
from collections import OrderedDict

import torch
from torch.nn.modules.batchnorm import _NormBase

from weft import _weft
from weft.errors import InputError

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def blocks_of(model):
    """(name, module, prefix of its parameters' names) of each block, in the order they run.

    A list of modules has a block for each; so has an nn.Sequential, in which modules without parameters join the one before. Any
    other module is one block.
    """
    if isinstance(model, torch.nn.Sequential) and type(model).forward is torch.nn.Sequential.forward:
        return _sequence(model)
    if isinstance(model, torch.nn.Module) and not isinstance(model, torch.nn.ModuleList):
        return [("all", model, "")]
    modules = list(model)
    wrong = next((module for module in modules if not isinstance(module, torch.nn.Module)), None)
    if wrong is not None or not modules:
        raise InputError(f"blocks: {_kind(wrong) if modules else 'an empty list'} is no block; give a list of torch.nn.Modules, or one")
    return [(str(index), module, str(index)) for index, module in enumerate(modules)]


def chain(module, example):
    """`module`'s children as an nn.Sequential, if it only calls them one after the other; its parameters keep their names.

    `example` is a batch, on which both must have equal outputs: a module that does more than call its children is refused.
    """
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
            if type(found) is not type(expected) or not all(map(torch.equal, _tuple(found), _tuple(expected))):
                raise _no_chain(module, f"whose outputs are others in {'training' if mode else 'evaluation'}")
    finally:
        for part, training in modes.items():
            part.training = training
    return children


def _output(called, module, example):
    """called(example), with the same random numbers each time; `module`'s buffers are as before."""
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            return called(example)
        finally:
            for buffer, value in buffers:
                buffer.copy_(value)


def _no_chain(module, reason):
    return InputError(f"chain: {type(module).__name__}.forward does more than call its children in order, {reason}; "
                      "give weft.Trainer a list of modules instead")


def describe(blocks):
    """The blocks for weft._weft, and by name the other names of tensors that several modules have."""
    owners, described, aliases = {}, [], {}
    for index, (name, module, prefix) in enumerate(blocks):
        dotted = f"{prefix}." if prefix else ""
        tensors, uses, local = [], set(), {}
        for path, tensor, is_parameter in _tensors(module):
            full = dotted + path
            key = id(tensor)
            if key in local or key in owners:
                owner, first = local.get(key) or owners[key]
                if owner != index and not is_parameter and path.rpartition(".")[2] in STATISTICS:
                    raise InputError(f"blocks {blocks[owner][0]} and {name} share a norm whose statistics both would update ('{full}'); give "
                                     "each its own, or make the modules one block")
                aliases[full] = first
                if owner != index:
                    uses.add(owner)
                continue
            local[key] = (index, full)
            tensors.append((path, tensor, is_parameter))
        owners.update(local)
        _refuse(name, module)
        described.append(_weft.Block(name=f"{name}", prefix=prefix, tensors=tensors, embeddings=_embeddings(module), uses=sorted(uses),
                                     forward=_forward(name, module)))
    return described, aliases


def loss_function(loss):
    """What weft._weft takes as a loss: None for cross entropy, else a function of the tuple of outputs and the target."""
    if loss is None or isinstance(loss, str):
        if loss in (None, "cross_entropy"):
            return None
        if loss == "mean_squares":
            return _squares
        raise InputError(f"loss is '{loss}'; it must be 'cross_entropy', 'mean_squares', or a function of outputs and target")
    if not callable(loss):
        raise InputError(f"loss is {_kind(loss)}; it must be a name, or a function of outputs and target")
    if isinstance(loss, torch.nn.Module) and any(True for _ in loss.parameters()):
        raise InputError("loss has parameters, which nothing would train; make it the last block")

    def summed(outputs, target):
        value = loss(outputs[0] if len(outputs) == 1 else outputs, target)
        total, count = value if isinstance(value, tuple) else (value * len(target), len(target))
        if not isinstance(total, torch.Tensor) or total.dim() != 0:
            raise InputError("the loss must be a tensor with one number: the mean over the samples; or (sum, count)")
        return total, count

    return summed


def _squares(outputs, target):
    if outputs[0].shape != target.shape:
        raise InputError(f"loss mean_squares: outputs are {list(outputs[0].shape)}, the target is {list(target.shape)}; they must have one shape")
    return torch.nn.functional.mse_loss(outputs[0], target, reduction="sum"), target.numel()


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
    for path, parameter in module.named_parameters(remove_duplicate=False):
        yield path, parameter, True
    for path, buffer in module.named_buffers(remove_duplicate=False):
        yield path, buffer, False


def _embeddings(module):
    kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    return [f"{path}.weight" if path else "weight" for path, part in module.named_modules() if isinstance(part, kinds)]


def _refuse(name, module):
    for path, part in module.named_modules():
        if isinstance(part, _NormBase) and part.track_running_stats and part.momentum is None:
            raise InputError(f"block {name}: '{path}' is a {type(part).__name__} without momentum, whose statistics are means over all "
                             "forwards so far, which layouts count differently; give it a momentum")


def _forward(name, module):
    def forward(inputs, training):
        if training:
            return _tuple(module(*inputs))
        modes = [(part, part.training) for part in module.modules()]
        try:
            module.eval()
            return _tuple(module(*inputs))
        finally:
            for part, mode in modes:
                part.training = mode

    return forward


def _tuple(outputs):
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


def _kind(value):
    return f"a {type(value).__name__}"


def _first_line(error):
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
