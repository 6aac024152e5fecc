#!/usr/bin/env -S python3 -B
"""Trainings under random faults: each run starts `weft train` in some layout, injects one fault at a random moment, and checks the
outcome: status, the last line and the rank it names, time, leftover processes and files, and that a run that completes has the bits
of an undisturbed run. The seed determines a run: --seed S --runs 1 repeats it.

Needs root for the full disk (a small tmpfs in its own mount namespace).
"""
import argparse
import json
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

from training import DEADLINE_S, LONG, SHORT, TIMEOUT_S, Run, Wrong

slack_s = 5.0  # allowed on top of a deadline; --slack


# --- expected outcomes --------------------------------------------------------------------------------------------------

def expect(condition, text, ended):
    if not condition:
        raise Wrong(f"{text}\n    status {ended.status} {ended.after_s:.1f} s after the fault, said: {ended.err.strip()[-400:]!r}")


def expect_one_line(ended):
    expect(len(ended.err.splitlines()) == 1 and ended.err.startswith("weft: "), "expected one line on standard error", ended)


def expect_culprit(ended, rank):
    """`weft: rank R: ...` names R itself; `weft: rank Q: ...` must name R and nobody else as the cause."""
    named = [int(number) for number in re.findall(r"\brank (\d+)", ended.last_line())]
    others = set(named[1:]) - {named[0]} if named else set()
    expect(named and (others == {rank} or (not others and named[0] == rank)), f"expected rank {rank} to be named", ended)


_weights = {}
_weights_lock = threading.Lock()


def undisturbed_weights(run):
    """sha256 of this recipe's trained weights; the same for all layouts, as its slots are reproducible."""
    with _weights_lock:
        if not _weights:
            words = [run.weft, "train", "r.toml", "--set", f"run.steps={SHORT}", "--summary", "alone.json"]
            done = subprocess.run(words, cwd=run.folder, capture_output=True, text=True, timeout=DEADLINE_S)
            if done.returncode != 0:
                raise Wrong(f"the undisturbed run fails: {done.stderr}")
            _weights["sha256"] = json.loads((run.folder / "alone.json").read_text())["weights_sha256"]
            (run.folder / "alone.json").unlink()
        return _weights["sha256"]


def expect_trained(run, ended):
    expect(ended.status == 0, "expected the training to succeed", ended)
    summary = json.loads((run.folder / "s.json").read_text())
    expect(summary["weights_sha256"] == undisturbed_weights(run), "weights differ from the undisturbed run's", ended)


def check_saved(path):
    """Checks that a safetensors file is complete or absent."""
    if not path.exists():
        return
    data = path.read_bytes()
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    if len(data) != 8 + int.from_bytes(data[:8], "little") + max(ends):
        raise Wrong("incomplete weights file")


# --- faults ---------------------------------------------------------------------------------------------------------------

def any_moment(run, longest=5.0):
    time.sleep(run.random.uniform(0.0, 1.0) ** 2 * longest)  # more often early, while ranks join


def expect_loss_of(ended, rank, status, within_s):
    expect(ended.status == status, f"expected status {status}", ended)
    expect(ended.after_s < within_s, "too late", ended)
    expect_one_line(ended)
    expect_culprit(ended, rank)


def signal_rank(run, harm, status, within_s):
    number = run.random.randrange(run.ranks)
    run.start(run.command(LONG))
    pid = run.rank(number) if run.ranks > 1 else run.launcher.pid
    any_moment(run)
    if pid:
        run.hurt(pid, harm)
    ended = run.end()
    if run.ranks == 1:
        expect(ended.status == 128 + harm, "expected the signal's status", ended)
    else:
        expect_loss_of(ended, number, status, within_s)
    run.check_left()
    return f"rank {number}"


def kill_rank(run):
    return signal_rank(run, signal.SIGKILL, 128 + signal.SIGKILL, slack_s)


def terminate_rank(run):
    return signal_rank(run, signal.SIGTERM, 128 + signal.SIGTERM, slack_s)


def stop_rank(run):
    return kill_rank(run) if run.ranks == 1 else signal_rank(run, signal.SIGSTOP, 1, TIMEOUT_S + slack_s)


def pause_rank(run):
    """Pauses a rank for less than the deadline, which has no effect."""
    number = run.random.randrange(run.ranks)
    run.start(run.command(SHORT, ["--summary", "s.json"]))
    pid = run.rank(number) if run.ranks > 1 else run.launcher.pid
    any_moment(run, 2.0)
    if pid:
        run.hurt(pid, signal.SIGSTOP)
        time.sleep(run.random.uniform(0.05, 0.8))
        run.hurt(pid, signal.SIGCONT)
    ended = run.end()
    expect_trained(run, ended)
    run.check_left({"s.json"})
    return f"rank {number}"


def stop_launcher(run):
    """Pauses the launcher: ranks that do not need it continue, those that wait for it say so."""
    run.start(run.command(SHORT, ["--summary", "s.json"]))
    any_moment(run, 2.0)
    run.hurt(run.launcher.pid, signal.SIGSTOP)
    stopped_s = run.random.uniform(0.1, 2.0 * TIMEOUT_S)
    time.sleep(stopped_s)
    run.hurt(run.launcher.pid, signal.SIGCONT)
    ended = run.end()
    if ended.status == 0 or run.ranks == 1 or stopped_s < TIMEOUT_S / 2:
        expect_trained(run, ended)
    else:
        expect(ended.status == 1, "expected status 1", ended)
        expect_one_line(ended)
        expect("the launcher" in ended.last_line(), "expected the launcher to be named", ended)
    run.check_left({"s.json"})
    return f"for {stopped_s:.1f} s"


def signal_launcher(run, harm):
    run.start(run.command(LONG))
    any_moment(run)
    run.hurt(run.launcher.pid, harm)
    ended = run.end()
    expect(ended.status == 128 + harm, f"expected status {128 + harm}", ended)
    expect(ended.after_s < slack_s, "too late", ended)
    if harm != signal.SIGKILL and run.ranks > 1:
        expect(len(ended.err.splitlines()) <= 1, "expected at most one line", ended)
    run.check_left()


def kill_launcher(run):
    signal_launcher(run, signal.SIGKILL)


def terminate_launcher(run):
    signal_launcher(run, signal.SIGTERM)


def interrupt_launcher(run):
    signal_launcher(run, signal.SIGINT)


def end_while_saving(run):
    """Kills a short run that saves at a random moment: its weights are complete or absent, and nothing else is left."""
    run.start(run.command(3, ["--save", "w.safetensors"]))
    harm = run.random.choice([signal.SIGKILL, signal.SIGTERM])
    number = run.random.choice([None] + list(range(run.ranks)))
    pid = run.launcher.pid if number is None or run.ranks == 1 else run.rank(number)
    time.sleep(run.random.uniform(0.0, 3.0))
    if pid:
        run.hurt(pid, harm)
    ended = run.end()
    expect(ended.status in (0, 128 + harm), "expected 0 or the signal's status", ended)
    check_saved(run.folder / "w.safetensors")
    if ended.status == 0:
        expect((run.folder / "w.safetensors").exists(), "the weights are missing", ended)
    run.check_left({"w.safetensors"})
    return "launcher" if number is None else f"rank {number}"


def close_descriptors(run):
    closed = run.random.sample([0, 1, 2], run.random.randint(1, 3))
    words = " ".join(["exec", '"$@"'] + [f"{fd}{'<' if fd == 0 else '>'}&-" for fd in closed])
    run.start(["sh", "-c", words, "sh"] + run.command(SHORT, ["--summary", "s.json"]))
    ended = run.end()
    expect_trained(run, ended)
    run.check_left({"s.json"})
    return f"{sorted(closed)}"


def fill_output(run):
    run.start(run.command(SHORT), streams={"stdout": open("/dev/full", "wb")})
    ended = run.end()
    expect(ended.status == 1, "expected an error for output that was not written", ended)
    expect_one_line(ended)
    run.check_left()


def keeps_old_file(run, ended, path, old):
    expect(ended.status == 1, "expected status 1", ended)
    expect_one_line(ended)
    if path.read_bytes() != old:
        raise Wrong("the file that was there before is gone")


def limit_files(run):
    old = b"weights of an earlier run"
    (run.folder / "w.safetensors").write_bytes(old)
    limit = run.random.choice([0, 4096, 20_000])
    run.start(run.command(SHORT, ["--save", "w.safetensors"]), streams={"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE},
              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    run.err = tempfile.TemporaryFile()
    try:
        run.err.write(run.launcher.communicate(timeout=DEADLINE_S)[1])
    except subprocess.TimeoutExpired:
        raise Wrong("hangs")
    keeps_old_file(run, run.end(), run.folder / "w.safetensors", old)
    run.check_left({"w.safetensors"})
    return f"{limit} bytes"


def fill_disk(run):
    """Saves and offloads weights to a tmpfs that is too small for both."""
    size = run.random.choice([8, 24, 40])
    inside = 'mount -t tmpfs -o size=%dk weft small && echo old >small/w && "$@"; s=$?; ls -A small; cat small/w; exit $s' % size
    (run.folder / "small").mkdir()
    if "offload_folder" in run.keys:
        run.keys = run.keys | {"offload_folder": "small"}
    run.start(["unshare", "--mount", "sh", "-c", inside, "sh"] + run.command(SHORT, ["--save", "small/w"]))
    ended = run.end()
    expect(ended.status == 1, "expected status 1", ended)
    expect_one_line(ended)
    expect(ended.out.endswith("\nw\nold\n"), f"expected the earlier content: {ended.out[-60:]!r}", ended)
    run.check_left({"small"})
    return f"{size} KiB"


def with_failpoint(run, **how):
    return ["env", f"LD_PRELOAD={run.failpoint}", f"WEFT_FAIL_BELOW={run.folder}"] + [f"WEFT_FAIL_{key}={value}" for key, value in how.items()]


def fail_disk(run):
    """Fails a read or a write of any of the run's files: it trains all the same, or reports the error in one line."""
    old = b"weights of an earlier run"
    (run.folder / "w.safetensors").write_bytes(old)
    how = {"AT": run.random.randrange(1, 60), "WITH": "EIO", "CALLS": run.random.choice(["reads", "changes", "all"])}
    if run.random.random() < 0.5:
        how["TIMES"] = run.random.choice([1, 5])
    run.start(with_failpoint(run, **how) + run.command(SHORT, ["--summary", "s.json", "--save", "w.safetensors"]))
    ended = run.end()
    if ended.status == 0:
        expect_trained(run, ended)
        check_saved(run.folder / "w.safetensors")
    else:
        expect(ended.status == 1, "expected status 1", ended)
        expect_one_line(ended)
        expect("nput/output error" in ended.err, "expected the disk's error to be reported", ended)
        if (run.folder / "w.safetensors").read_bytes() != old:
            check_saved(run.folder / "w.safetensors")
    run.check_left({"s.json", "w.safetensors"})
    return f"{how}"


def jump_clock(run):
    seconds = run.random.choice([1, 100, 1_000_000_000])
    run.start(with_failpoint(run, CLOCK=seconds) + run.command(SHORT, ["--summary", "s.json"]))
    ended = run.end()
    expect_trained(run, ended)
    run.check_left({"s.json"})
    return f"by up to {seconds} s"


HARMS = [kill_rank, terminate_rank, stop_rank, stop_rank, stop_rank, pause_rank, kill_launcher, terminate_launcher,
         stop_launcher, interrupt_launcher, end_while_saving, end_while_saving, close_descriptors, fill_output, limit_files, fill_disk,
         fail_disk, fail_disk, jump_clock]


def one_run(weft, failpoint, seed, only):
    run = Run(weft, seed)
    run.failpoint = failpoint
    harm = run.random.choice([h for h in HARMS if not only or h.__name__ in only])
    text = f"seed {seed}: {harm.__name__}, {run.layout} over {run.backend}"
    began = time.monotonic()
    try:
        detail = harm(run)
        print(f"{text}{', ' + detail if detail else ''}: ended as expected ({time.monotonic() - began:.1f} s)", flush=True)
        return True
    except Wrong as wrong:
        print(f"{text}: WRONG: {wrong}", flush=True)
        return False
    finally:
        run.clear()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", required=True, type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--failpoint", required=True, type=lambda path: str(pathlib.Path(path).resolve()),
                        help="the library that fails system calls")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000),
                        help="seed of the first run; the next runs count up")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--only", action="append", help="faults by name: " + ", ".join(sorted({h.__name__ for h in HARMS})))
    parser.add_argument("--slack", type=float, default=slack_s, metavar="SECONDS",
                        help="extra time for an end beyond its deadline; raise it on busy machines (default: %(default)s)")
    options = parser.parse_args()
    globals()["slack_s"] = options.slack
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a script that starts this with & leaves SIGINT ignored, here and in all children
    seeds = iter(range(options.seed, options.seed + options.runs))
    lock, results = threading.Lock(), []

    def work():
        while True:
            with lock:
                seed = next(seeds, None)
            if seed is None:
                return
            results.append(one_run(options.weft, options.failpoint, seed, options.only))

    threads = [threading.Thread(target=work) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    sys.exit(0 if results and all(results) else 1)


if __name__ == "__main__":
    main()
