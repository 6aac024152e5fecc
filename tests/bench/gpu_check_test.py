#!/usr/bin/env -S python3 -B
"""tools/gpu_check without a GPU: parts that fail, hang or say nothing, and a dry run on the build in the folder WEFT_BUILD."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS / "gpu"))
import run as runs  # noqa: E402

SLEEP = f"sleep 1000.{os.getpid()}"
# Ignores the signal that asks it to end, and has a child in a process group of its own, as a launcher's rank.
HANGS = ["bash", "-c", f"trap '' TERM; set -m; {SLEEP} & echo begun; wait; wait"]


def asleep():
    return subprocess.run(["pgrep", "-xf", SLEEP], stdout=subprocess.PIPE, text=True).stdout.split()


def wait_until(condition):
    until = time.monotonic() + 20
    while not condition() and time.monotonic() < until:
        time.sleep(0.1)


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def results(self):
        return json.loads((self.folder / "results.json").read_text())


class Parts(Scratch):
    def do(self, *parts, limit_s=60):
        run = runs.Run(self.folder, self.folder, [runs.Part(*part) for part in parts], limit_s)
        with open(os.devnull, "w") as sys.stdout:
            good = run.do()
        sys.stdout = sys.__stdout__
        return good, [(part["name"], part["status"], part["reason"]) for part in self.results()["parts"]]

    def test_none_stops_the_others(self):
        def look(run):
            self.assertEqual([part["reason"] for part in self.results()["parts"][-2:]], ["not reached", "not reached"])
            run.row("a", True, "it holds")
            run.row("b", runs.NOT_RUN, "no GPU")

        def fail(run):
            raise runs.CommandFailed("weft: status 1")

        good, found = self.do(
            ("row", 9, 1, look), ("false row", 9, 1, lambda run: run.row("a", False, "")), ("fault", 9, 1, lambda run: 1 // 0),
            ("command", 9, 1, fail), ("nothing", 9, 1, lambda run: None), ("missing", 9, 1, lambda run: run.command(["no such"])),
            ("no row runs", 9, 1, lambda run: run.row("a", runs.NOT_RUN, "no GPU")), ("long", 9, 99, look), ("last", 9, 1, fail))
        self.assertFalse(good)
        self.assertEqual(found, [
            ("row", "ok", ""), ("false row", "failed", ""), ("fault", "failed", "ZeroDivisionError: integer division or modulo by zero"),
            ("command", "failed", "weft: status 1"), ("nothing", "failed", "it reported nothing"),
            ("missing", "failed", "no such: No such file or directory"), ("no row runs", "not run", "no GPU"),
            ("long", "not run", "no time: 54 s are left, it takes 99 s"), ("last", "failed", "weft: status 1")])
        self.assertIn("b", [row["name"] for row in self.results()["parts"][0]["rows"]])

    def test_limits(self):
        """What hangs is ended, with all it started, and what it had printed is kept; the sum of all is bounded."""
        begin = time.monotonic()
        good, found = self.do(("hangs", 2, 1, lambda run: run.command(HANGS)), ("runs", 9, 0, lambda run: run.row("a", True, "")),
                              ("hangs too", 60, 0, lambda run: run.command(HANGS)), ("late", 60, 1, lambda run: None), limit_s=9)
        self.assertLess(time.monotonic() - begin, 25)
        self.assertEqual(asleep(), [])
        self.assertEqual([status for _, status, _ in found], ["failed", "ok", "failed", "not run"])
        self.assertEqual(found[0][2], "bash: not done after 2 s: begun")
        self.assertEqual(self.results()["limit_s"], 9)


class Whole(Scratch):
    def check(self, build, **environment):
        return subprocess.Popen([TOOLS / "gpu_check", "--dry-run", "--build", build, "--out", self.folder],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | environment)

    def fake(self, script):
        (self.folder / "weft").write_text(f"#!/bin/bash\n{script}\n")
        (self.folder / "weft").chmod(0o755)
        return self.folder

    def test_a_build_that_fails(self):
        process = self.check(self.fake("echo 'ok      cores   2'; echo 'weft: no' >&2; exit 3"), PYTHONPATH="")
        out = process.communicate()[0]
        self.assertEqual(process.returncode, 1, out)
        parts = {part["name"]: part for part in self.results()["parts"]}
        failed = [name for name, part in parts.items() if part["status"] == "failed"]
        self.assertEqual(failed, "build check_1 check_2 rows rates forecast sanitizer resume".split(), out)
        self.assertEqual([row["name"] for row in parts["check_2"]["rows"]], ["cores"])
        self.assertIn("status 3", parts["check_2"]["reason"])

    def test_it_is_ended(self):
        """Parts that are done are on disk; nothing is left behind."""
        process = self.check(self.fake(f"[[ $1 == version ]] && echo 'weft 1' || {SLEEP}"), PYTHONPATH="")
        wait_until(asleep)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        wait_until(lambda: not asleep())
        self.assertEqual(asleep(), [])
        parts = self.results()["parts"]
        self.assertEqual([(part["status"], part["reason"]) for part in (parts[1], parts[-1])], [("ok", ""), ("not run", "not reached")])

    def test_a_dry_run(self):
        process = self.check(os.environ["WEFT_BUILD"])
        out = process.communicate()[0]
        results = self.results()
        has_torch = "PyTorch" in results["machine"]
        not_run = ["nccl", "check_4", "counts"] + ([] if has_torch else ["machine"])
        names = "machine build check_1 nccl check_2 check_4 rows suites rates forecast sanitizer resume counts".split()
        self.assertEqual({part["name"]: part["status"] for part in results["parts"]},
                         {name: "not run" if name in not_run else "ok" for name in names}, out)
        self.assertEqual(process.returncode, 0, out)
        self.assertIs(results["dry_run"], True)
        self.assertIn("LibTorch", results["machine"]["weft"])
        rows = {f"{part['name']}: {row['name']}": row["status"] for part in results["parts"] for row in part["rows"]}
        for part in results["parts"]:
            self.assertTrue(part["rows"] if part["status"] == "ok" else part["reason"], part)
        for name in ("check_2: layout zero-3", "rows: llama, bf16", "rows: gpt, 2 ranks, zero-3", "suites: test_device Table/DeviceParity",
                     "rates: small, bf16: weft", "sanitizer: cifar10", "resume: after step 3"):
            self.assertEqual(rows.get(name), "ok", f"{name}\n{out}")
        for name in ("machine: GPU", "sanitizer: racecheck", "rates: small, bf16: PyTorch, compiled"):
            self.assertEqual(rows.get(name), "not run", f"{name}\n{out}")
        if "TORCH_USE_RTLD_GLOBAL" in os.environ:  # tests/support/compare_in_python.sh
            self.assertTrue(has_torch, out)
        self.assertEqual(rows.get("rates: small, bf16: PyTorch, DDP, one rank"), "ok" if has_torch else "not run", out)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
