"""Counts the operators of a step of peers/torch_gpt.py: torch_counts.py TORCH_GPT LAYERS WIDTH HEADS CONTEXT MICRO MICRO_BATCHES.

With fused AdamW and gradients clipped, as weft's. Views are left out: they run no kernel. Prints one line of JSON.
"""
import json
import pathlib
import sys
import types

import torch
from torch.utils._python_dispatch import TorchDispatchMode

NO_KERNEL = {"aten::empty.memory_format", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"}


class Counter(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, op, _types, args=(), kwargs=None):
        returns = op._schema.returns
        is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in returns)
        if not is_view and op._schema.name not in NO_KERNEL and str(op._schema.name + "." + op._schema.overload_name) not in NO_KERNEL:
            self.count += 1
        return op(*args, **(kwargs or {}))


def main():
    source = pathlib.Path(sys.argv[1]).read_text()
    layers, width, heads, context, micro, micro_batches = map(int, sys.argv[2:])
    peer = {"__name__": "peer"}
    exec(compile(source[:source.rindex("\nmain()")], sys.argv[1], "exec"), peer)
    torch.set_num_threads(1)
    options = types.SimpleNamespace(mode="none", vocab=256, ctx=context, dim=width, heads=heads, layers=layers, dtype="fp32", compile="",
                                    compile_mode="", fused=-1, save_init="", micro=1)
    model, optimizer, step = peer["build"](options, 0, 1)
    batches = [torch.randint(256, (2, micro, context)) for _ in range(micro_batches)]
    for counted in (False, True):
        with Counter() as counter:
            for x, y in batches:
                step(x, y)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if counted:
            print(json.dumps({"launches": counter.count}))


main()
