"""Runs the peer and weft on the same work and reads their figures."""
import dataclasses
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

from work import Gpt, Resnet

WARMUP = 2  # steps excluded from rates; weft's own rates exclude the first two as well
FIRST_STEP_S = "first step, s"
FIRST_STEP = re.compile(r'^step\s+1/|^\{"(peer|weft)"')  # what each prints after its first step
MODULE = pathlib.Path(__file__).resolve().parent / "weft_gpt.py"


class BenchError(Exception):
    """One line: what went wrong, where, what to do."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A model, a batch, a way to train it, and the targets that weft must reach (measure -> target)."""
    name: str
    work: Gpt | Resnet
    batch: int  # samples per replica and step
    parameters: int
    steps: int  # timed steps
    targets: dict
    mode: str = "ddp"  # the peer's
    layout: dict = dataclasses.field(default_factory=dict)  # weft's, in addition to dp = replicas
    dtype: str = "fp32"  # or "bf16": the peer's autocast, weft's precision
    ranks: int = 2
    replicas: int = 2  # tp and pp have one
    micro_batches: int = 1  # per replica and step
    peer_parameters: int | None = None  # of the printing rank, if it holds only a part (pp)
    python: bool = False  # weft_gpt.py in place of `weft train`
    own: dict | None = None  # weft as its own peer: the fields that differ, with as many samples per step


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One command: its JSON, and seconds from its start to its first step's report and to its end."""
    report: dict
    first_step_s: float
    command_s: float


PEER_TRIES = 3  # PyTorch 2.11's zero1 over Gloo sometimes aborts while its ranks exit


def run_peer(command, environment, deadline_s):
    """Runs the peer, with retries; `command` makes a new command line, with a new port, for each try."""
    for attempt in range(PEER_TRIES):
        try:
            return run_command(command(), environment, deadline_s, peer_report)
        except BenchError as error:
            if attempt + 1 == PEER_TRIES or "SIGABRT" not in str(error):
                raise


def run_command(command, environment, deadline_s, read_report):
    """Runs a command to its end, in its own session so that Ctrl-C ends it in order; read_report gets the output's lines."""
    start = time.perf_counter()
    process = subprocess.Popen([str(part) for part in command], env=environment, stdin=subprocess.DEVNULL, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", start_new_session=True)
    timer = threading.Timer(deadline_s, end_launcher, [process])
    timer.start()
    lines, first_step_s = [], None
    try:
        for line in process.stdout:
            if first_step_s is None and FIRST_STEP.match(line):
                first_step_s = time.perf_counter() - start
            lines.append(line.rstrip())
        process.wait()
        command_s = time.perf_counter() - start
    finally:
        timer.cancel()
        end_launcher(process)
        process.stdout.close()
    if process.returncode != 0:
        limit = f" (the limit is {deadline_s:.0f} s)" if command_s >= deadline_s else ""
        raise BenchError(f"{command[0]} ended with status {process.returncode}{limit}: " + " | ".join(lines[-5:]))
    if first_step_s is None and read_report is not list:
        raise BenchError(f"{command[0]} reported no first step: " + " | ".join(lines[-5:]))
    return Outcome(read_report(lines), first_step_s, command_s)


def end_launcher(process):
    """Both launchers end their ranks on SIGTERM; torchrun's ranks have their own sessions, so a SIGKILL would leave them."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def torchrun(ranks):
    return ["-m", "torch.distributed.run", "--nproc-per-node", ranks, "--master-port", free_port()]


def peer_command(comparison, shared, folder, python, warmup, steps):
    """torchrun at a free port (its default, 29500, may be another torchrun's), or one process with as many devices."""
    c = comparison
    if c.work.is_started_by_torchrun:
        start = torchrun(c.ranks)
        form = ["--dtype", c.dtype]
    else:
        start, form = [], ["--devices", c.ranks]
    return [python, *start, *c.work.peer_command(shared, folder, c.mode, c.micro_batches), "--batch", c.batch, "--threads", 1,
            *form, "--warmup", warmup, "--steps", steps]


def peer_report(lines):
    found = [line for line in lines if line.startswith('{"peer"')]
    if len(found) != 1:
        raise BenchError(f"the peer printed {len(found)} reports instead of one: " + " | ".join(lines[-5:]))
    return json.loads(found[0])


def module_command(comparison, shared, python, warmup, steps):
    c = comparison
    return [python, *torchrun(c.ranks), MODULE, "--text", shared / "data" / "tinyshakespeare.txt", *c.work.sizes(), "--batch", c.batch, "--micro",
            c.micro_batches, "--replicas", c.replicas, "--layout", json.dumps(c.layout), "--warmup", warmup, "--steps", steps]


def module_report(lines):
    """That of rank 0, with the peak of each."""
    reports = {report["weft"]: report for report in map(json.loads, (line for line in lines if line.startswith('{"weft"')))}
    if 0 not in reports or len(reports) != reports[0]["world"]:
        raise BenchError(f"weft_gpt.py printed {len(reports)} reports: " + " | ".join(lines[-5:]))
    return dict(reports[0], peak_rss_mb=[report["peak_rss_mb"] for report in reports.values()])


def weft_recipe(comparison, shared, folder, steps):
    """The peer's work as a recipe. The evaluation that ends every training is limited to a few samples."""
    c = comparison
    chosen = {"dp": c.replicas, "precision": c.dtype, **c.layout}
    layout = ", ".join(f"{key} = {json.dumps(value)}" for key, value in chosen.items())
    return c.work.weft_sections(shared, folder) + f"""batch = {{ global = {c.batch * c.replicas}, micro = {c.batch // c.micro_batches} }}
layout = {{ {layout} }}
run = {{ steps = {steps}, threads = 1, device = "cpu" }}
"""


def weft_command(comparison, weft, recipe, summary):
    return [weft, "train", recipe, "-n", comparison.ranks, "--summary", summary]


def check_same_work(comparison, peer, weft, steps):
    """Raises unless both trained the same model on the same batch; steps: weft's."""
    c = comparison
    batch = weft["layout"]["micro_batch"] * weft["layout"]["micro_batches_per_rank"]
    for what, found, expected in (
            ("the peer's parameters", peer["params"], c.peer_parameters or c.parameters),
            ("weft's parameters", weft["parameters"], c.parameters),
            ("the peer's ranks", peer["world"], c.ranks), ("weft's ranks", weft["world"], c.ranks),
            ("the peer's threads", peer["threads"], 1), ("weft's threads", weft["threads_per_rank"], 1),
            ("weft's steps", weft["steps"], steps), ("weft's samples per replica", batch, c.batch), *c.work.differences(weft)):
        if found != expected:
            raise BenchError(f"{c.name}: {what} are {found}, not {expected}: the two would not do the same work")


class Pair:
    """The peer and weft, by turns."""

    def __init__(self, weft, shared, python, environment, folder, deadline_s=900):
        self.weft, self.shared, self.python = weft, shared, python
        self.environment = dict(environment, TMPDIR=str(folder))  # torchrun leaves folders behind
        self.folder, self.deadline_s = folder, deadline_s

    def run_weft(self, comparison, warmup, steps):
        if comparison.python:
            weft = run_command(module_command(comparison, self.shared, self.python, warmup, steps), self.environment, self.deadline_s, module_report)
        else:
            comparison.work.make_files(self.folder, lambda *arguments: run_command([self.python, *arguments], self.environment, self.deadline_s, list))
            recipe, summary = self.folder / "recipe.toml", self.folder / "summary.json"
            recipe.write_text(weft_recipe(comparison, self.shared, self.folder, warmup + steps))
            weft = run_command(weft_command(comparison, self.weft, recipe, summary), self.environment, self.deadline_s,
                               lambda lines: json.loads(summary.read_text()))
        report = dict(weft.report, peak_rss_mb=max(weft.report["peak_rss_mb"]), images_per_s=weft.report["samples_per_s"])
        return dataclasses.replace(weft, report=report)

    def run_own(self, comparison, warmup, steps):
        """Runs weft as its own peer and returns its report in the peer's form."""
        own = dataclasses.replace(comparison, own=None, **comparison.own)
        outcome = self.run_weft(own, warmup, steps)
        samples = {c.batch * c.replicas for c in (own, comparison)}
        if len(samples) != 1:
            raise BenchError(f"{comparison.name}: the two would train on {samples} samples per step")
        return dataclasses.replace(outcome, report=dict(outcome.report, params=outcome.report["parameters"],
                                                        threads=outcome.report["threads_per_rank"]))

    def turn(self, comparison, warmup, steps):
        """Runs each once, the peer first: (Outcome, Outcome)."""
        if comparison.own is not None:
            peer = self.run_own(comparison, warmup, steps)
        else:
            peer = run_peer(lambda: peer_command(comparison, self.shared, self.folder, self.python, warmup, steps),
                            self.environment | comparison.work.peer_environment, self.deadline_s)
        weft = self.run_weft(comparison, warmup, steps)
        check_same_work(comparison, peer.report, weft.report, warmup + steps)
        return peer, weft

    def sample(self, comparison, steps):
        """One turn for rate and memory and, where it has a target, one for the first step: measure -> (peer, weft)."""
        peer, weft = self.turn(comparison, WARMUP, steps)
        work = comparison.work
        if not work.is_started_by_torchrun:  # one process has all devices
            peer.report["peak_rss_mb"] /= comparison.ranks
        sample = {work.measure: (peer.report[work.rate], weft.report[work.rate]),
                  "peak MB per rank": (peer.report["peak_rss_mb"], weft.report["peak_rss_mb"])}
        if FIRST_STEP_S in comparison.targets:
            peer, weft = self.turn(comparison, 0, 1)
            sample |= {FIRST_STEP_S: (peer.first_step_s, weft.first_step_s),
                       "one-step command, s": (peer.command_s, weft.command_s),
                       "first step, s (weft's own)": (None, weft.report["first_step_s"])}
        return sample
