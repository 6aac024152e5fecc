"""Runs a command as every rank of a job over hosts that are network namespaces."""
import os
import subprocess
import sys


def on_ranks(network, ranks, argv, folder, own_cores=False):
    """Runs a command as every rank, `ranks` one-thread ranks per host. Returns the first rank's output. `own_cores`: pins each host to its
    own cores, if there are at least as many as hosts."""
    programs = []
    cores = sorted(os.sched_getaffinity(0))
    for host in network.hosts:
        share = len(cores) // len(network.hosts)
        own = cores[host.number * share:(host.number + 1) * share] if own_cores else []
        on_own = ["taskset", "--cpu-list", ",".join(map(str, own))] if own else []
        for local in range(ranks):
            env = {"RANK": host.number * ranks + local, "WORLD_SIZE": ranks * len(network.hosts), "LOCAL_RANK": local,
                   "LOCAL_WORLD_SIZE": ranks, "OMP_NUM_THREADS": 1, "MASTER_ADDR": network.hosts[0].address, "MASTER_PORT": 29500}
            programs.append(host.start([*on_own, *argv], env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    outputs = [program.communicate(timeout=900)[0] for program in programs]
    for program, output in zip(programs, outputs):
        if program.returncode != 0:
            sys.exit(f"{argv}: {output.strip().splitlines()[-1] if output.strip() else program.returncode}")
    return outputs[0]
