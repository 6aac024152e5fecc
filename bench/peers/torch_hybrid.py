"""peers/torch_gpt.py with FSDP2's hybrid sharding: parameters are sharded over the ranks of a host, and replicated over hosts.

usage: torch_hybrid.py TORCH_GPT --mode fsdp2 ...
fully_shard() shards over the last axis of a two-axis mesh and replicates over the first; nothing else differs.
"""
import os
import runpy
import sys

import torch.distributed.device_mesh as device_mesh

over_all = device_mesh.init_device_mesh


def over_hosts(device_type, shape, **options):
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    return over_all(device_type, (shape[0] // local, local), mesh_dim_names=("replicate", "shard"), **options)


device_mesh.init_device_mesh = over_hosts
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
