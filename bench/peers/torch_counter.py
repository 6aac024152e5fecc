"""Counts operators of PyTorch and the peak bytes of the tensors that they see; torch_counts.py says what counts."""
import collections
import weakref

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

COLLECTIVES = ("c10d::", "_c10d_functional::")  # and messages between two ranks, each at both ends
WAITS = {"_local_scalar_dense", "is_nonzero", "nonzero", "equal", "masked_select", "_unique2", "item"}  # the host reads a result
NO_KERNEL = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "resize_", "set_", "lift_fresh",
             "record_stream", "is_same_size", "is_pinned", "wait_tensor", "_wrap_tensor_autograd"}
MIB = 1 << 20


def allocated(size):
    """What CUDA's caching allocator counts for a request, as weft/checked_device/memory.cpp has it."""
    part = -(-size // 512) * 512
    segment = -(-part // (2 * MIB)) * 2 * MIB
    return segment if part >= 10 * MIB and segment - part <= MIB else part


class Counter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.scattered = None  # address of the last reduce-scatter's output
        self.live = weakref.WeakValueDictionary()  # storages by their addresses
        self.restart()

    def restart(self):
        self.counts, self.waits, self.peak_bytes = collections.Counter(), 0, 0

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        if any(issubclass(t, (DTensor, AsyncCollectiveTensor)) for t in types):
            return NotImplemented  # its own dispatch comes back here with its local tensors
        result = op(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves((args, kwargs, result)) if isinstance(leaf, torch.Tensor)]
        if any(tensor.is_meta or isinstance(tensor, FakeTensor) for tensor in tensors):
            return result  # shapes are worked out
        space, name = op._schema.name.split("::")
        if name == "_reduce_scatter_base_":
            self.scattered = args[0].data_ptr()
        elif name == "copy_" and args[0].data_ptr() == self.scattered:
            self.scattered = None
            return result  # Gloo's copy from a tensor of its own; NCCL has none
        is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in op._schema.returns)
        if not is_view and name not in NO_KERNEL and space != "profiler":
            self.counts[f"{space}::{name}"] += 1
        self.waits += name in WAITS
        self.add_up(tensors)
        return result

    def add_up(self, tensors):
        """Takes the sum of all storages that live: after whole operators, without what one holds within."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            self.live[storage._cdata] = storage
        self.peak_bytes = max(self.peak_bytes, sum(allocated(storage.nbytes()) for storage in self.live.values()))

    def report(self):
        return {"launches": sum(self.counts.values()), "waits": self.waits, "peak_bytes": self.peak_bytes, "launches_by": dict(self.counts),
                "collectives": sum(n for name, n in self.counts.items() if name.startswith(COLLECTIVES))}
