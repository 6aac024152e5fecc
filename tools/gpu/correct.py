"""Parts that judge: is what a GPU computes right?"""
import concurrent.futures
import json
import os
import re
import shutil
import sys
import time

from place import LITTLE, attempt, relative_difference, torch_folder
from run import FAILED, NOT_RUN, OK, CommandFailed, NotRun
from rows import EXACT, ROWS

VERDICTS = {"ok": OK, "FAILED": FAILED, "-": NOT_RUN}
# Test programs that run on a device of this type: which tests of each, and which in a dry run.
# Ranks are threads that share a GPU, and so autograd's thread for it, where tp and cp would wait for each other: check_2 and
# check_4 train those as processes.
SUITES = [("test_device", "Table/DeviceParity.*:InBackground/DeviceResume.*:DeviceArrays.*-*/tp*:*/cp*:*/pp_tp", "*/dp_gpt2:*/pp_1f1b2")]
# In a dry run, one of each recipe and one of each kind of option.
DRY_ROWS = ("gpt, slots", "gpt, offload to host", "llama, bf16", "resnet", "gpt, 2 ranks, zero-3")
TOOLS = {  # compute-sanitizer's, with its line for no error, and what it needs to see
    "memcheck": ("ERROR SUMMARY: 0 errors", {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),  # each tensor an allocation of its own
    "initcheck": ("ERROR SUMMARY: 0 errors", {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),
    "racecheck": ("RACECHECK SUMMARY: 0 hazards", {}),
}


def machine(run, place):
    """The programs of this machine that other parts need."""
    queries = {"GPU": (["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], place.needs_gpu),
               "PyTorch": ([sys.executable, "-c", "import torch; print(torch.__version__, torch.cuda.nccl.version() if "
                            "torch.cuda.is_available() else 'without a GPU')"], None),
               "compute-sanitizer": (["compute-sanitizer", "--version"], place.needs_gpu)}
    for name, (command, needs) in queries.items():
        try:
            if needs:
                needs()
            text = run.command(command, os.environ, most_s=40).strip().splitlines()[-1]
            run.about["machine"][name] = text
            run.row(name, True, text)
        except (CommandFailed, NotRun) as error:  # what needs it says so
            run.row(name, FAILED if name == "GPU" and not place.dry else NOT_RUN, str(error))


def build(run, place):
    """Builds what is carried as sources. A failure names what the machine lacks."""
    if (place.build / "weft").is_file():
        run.about["machine"]["weft"] = version = run.command([place.program("weft"), "version"], place.environment, 20).strip()
        return run.row("weft", True, f"{version}; was built before")
    if place.dry:
        raise NotRun(f"{place.build / 'weft'} is not built")
    begin = time.monotonic()
    run.command(["cmake", "--preset", "cuda", "-S", place.root, *([f"-DLIBTORCH_ROOT={torch_folder()}"] if torch_folder() else [])])
    run.command(["cmake", "--build", place.build, "--target", "gpu_check"])
    run.about["machine"]["weft"] = version = run.command([place.program("weft"), "version"]).strip()
    run.row("weft", True, f"{version}; built in {time.monotonic() - begin:.0f} s")


def check(ranks):
    def part(run, place):
        """A line of `weft check` a row; also what it printed before it failed or hung."""
        if place.dry and ranks > 2:
            raise NotRun("a dry run takes 1 and 2 ranks")
        command = [place.program("weft"), "check", "-n", ranks, "--device", place.device]
        command += ["--backend", "shm"] if ranks > 1 and not place.dry else []  # ranks share the GPU, which NCCL refuses
        failure = None
        try:
            out = run.command(command, place.environment)
        except CommandFailed as error:
            failure, out = error, error.output
        for line in out.splitlines():
            if found := re.match(r"(ok|FAILED|-) +(\S.*?)  +(.*)", line):
                judged = not (place.dry and found[2] == "links")  # rates of a machine that does other work too
                run.row(found[2], VERDICTS[found[1]] if judged else NOT_RUN, found[3])
        if failure:
            raise failure
    return part


def nccl(run, place):
    place.needs_gpu()
    for line in run.command([place.program("nccl_one_rank")], place.environment).splitlines():
        if line.startswith("{"):
            found = json.loads(line)
            run.row(f"{found['order']} order", all(found["equal"].values()), f"{len(found['equal'])} calls give the values; "
                    f"all_reduce of 4 MiB: host {found['host_us']} us, with the device {found['device_us']} us", **found)


def rows(run, place):
    """Trainings that end as on the CPU."""
    place.write_images()

    def both(row):
        name, recipe, settings, _, *more = row
        try:
            found = [place.train(run, f"{name}, {side}", recipe, settings, device, more=more)
                     for side, device in (("here", place.device), ("cpu", "cpu"))]
            for each in found:
                float(each["evaluation"]["loss"])
            return found
        except (CommandFailed, NotRun, KeyError, TypeError) as error:
            return error

    chosen = [row for row in ROWS if not place.dry or row[0] in DRY_ROWS]
    with concurrent.futures.ThreadPoolExecutor(max(1, os.cpu_count() // 2)) as pool:
        for (name, _, _, most, *_), found in zip(chosen, pool.map(both, chosen)):
            if isinstance(found, Exception):
                run.fault(name, found)
                continue
            losses, evaluations = [each["loss"] for each in found], [each["evaluation"]["loss"] for each in found]
            worst = max(relative_difference(*losses), relative_difference(*evaluations))
            run.row(name, worst <= most, f"loss {losses[0]:.6f}, evaluation {evaluations[0]:.6f}; differ by {worst:.1e}, at most "
                    f"{most:.0e}", loss=losses, evaluation=evaluations, difference=worst, most=most)


def suites(run, place):
    """A row per suite; also of a program that dies or hangs, with the test that it was in."""
    for name, filters, dry_filters in SUITES:
        def one():
            command = [place.program(name), f"--gtest_filter={dry_filters if place.dry else filters}"]
            failure = None
            try:
                out = run.command(command, place.environment | {"WEFT_TEST_DEVICE": place.device, "OMP_NUM_THREADS": "1"})
            except CommandFailed as error:
                failure, out = error, error.output
            tests = {test: verdict for verdict, test in re.findall(r"^\[ +(RUN|OK|FAILED) +\] ([\w/]+\.[\w/]+)", out, re.MULTILINE)}
            for suite in dict.fromkeys(test.split(".")[0] for test in tests):
                held = {test.split(".")[1]: verdict == "OK" for test, verdict in tests.items() if test.startswith(suite + ".")}
                bad = [test for test, holds in held.items() if not holds]
                few = f"; not {', '.join(bad[:9])}" if bad else ""
                run.row(f"{name} {suite}", not bad, f"{len(held) - len(bad)} of {len(held)} tests hold{few}", failed=bad)
            if failure:
                raise failure

        attempt(run, name, one)


def resume(run, place):
    saved = place.work / "saved"
    whole = place.train(run, "whole", "gpt", [], steps=8)
    place.train(run, "saving", "gpt", [f"save.folder={saved}", "save.every=3"], steps=8)
    after = sorted(path for path in saved.iterdir() if path.is_dir())[0]
    same = place.train(run, "resumed", "gpt", [], steps=8, more=["--resume", after])
    other = place.train(run, "resumed on the CPU", "gpt", [], "cpu", steps=8, more=["--resume", after])
    run.row(f"after step {same['resumed_from']}", same["weights_sha256"] == whole["weights_sha256"],
            f"weights {same['weights_sha256'][:12]}, uninterrupted {whole['weights_sha256'][:12]}")
    worst = relative_difference(other["loss"], whole["loss"])
    run.row("on the CPU", worst <= EXACT, f"loss {other['loss']:.6f}; differs by {worst:.1e}", difference=worst)


def sanitizer(run, place):
    """One step of each recipe under each tool, several at once. A dry run takes the steps without a tool."""
    if not place.dry and not shutil.which("compute-sanitizer"):
        raise NotRun("compute-sanitizer is not on this machine")
    place.write_images()

    def one(job):
        recipe, tool = job
        report = place.work / f"{recipe}, {tool}.txt"
        before = ["compute-sanitizer", "--tool", tool, "--log-file", report] if tool else []
        try:
            summary = place.train(run, f"{recipe}, {tool}", recipe, LITTLE[recipe], steps=1, before=before,
                                  environment=TOOLS[tool][1] if tool else {})
        except (CommandFailed, NotRun) as error:
            return error
        if not tool:
            return True, f"a step without a tool, loss {summary['loss']:.6f}"
        text = report.read_text(errors="replace")
        run.note(text)
        return TOOLS[tool][0] in text, text.splitlines()[-1].strip("= ")

    jobs = [(recipe, tool) for tool in ([None] if place.dry else TOOLS) for recipe in LITTLE]
    with concurrent.futures.ThreadPoolExecutor(1 if place.dry else 3) as pool:
        for (recipe, tool), found in zip(jobs, pool.map(one, jobs)):
            name = f"{recipe}, {tool}" if tool else recipe
            run.fault(name, found) if isinstance(found, Exception) else run.row(name, *found)
    if place.dry:
        for tool in TOOLS:
            run.row(tool, NOT_RUN, "it needs a GPU")
