"""Runs a command as every rank of a job over hosts that are network namespaces."""
import subprocess
import sys


def on_ranks(network, ranks, argv, folder):
    """Runs a command as every rank, `ranks` one-thread ranks per host. Returns the first rank's output."""
    programs = []
    for host in network.hosts:
        for local in range(ranks):
            env = {"RANK": host.number * ranks + local, "WORLD_SIZE": ranks * len(network.hosts), "LOCAL_RANK": local,
                   "LOCAL_WORLD_SIZE": ranks, "OMP_NUM_THREADS": 1, "MASTER_ADDR": network.hosts[0].address, "MASTER_PORT": 29500}
            programs.append(host.start(argv, env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    outputs = [program.communicate(timeout=900)[0] for program in programs]
    for program, output in zip(programs, outputs):
        if program.returncode != 0:
            sys.exit(f"{argv}: {output.strip().splitlines()[-1] if output.strip() else program.returncode}")
    return outputs[0]
