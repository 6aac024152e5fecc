#!/usr/bin/env -S python3 -B
"""bench/device_counts with fake programs for weft's counts and the peer's, and the processes that bench/peers/torch_counts.py starts."""
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH / "peers"))
import torch_counts  # noqa: E402

LAYOUTS = ("one", "dp", "zero-3", "pp", "tp")
WEFT = {"layouts": [{"layout": name, "launches": 300.0, "captured_launches": 7.0, "waits": 19.0, "stalls": 1.0, "copied_bytes": 1234567.0, "peak_bytes": 512,
                     "forecast_bytes": 520, "launches_by":
                     {"aten::mm": 294.0, "nccl send": 2.5, "nccl all_reduce": 3.5}} for name in LAYOUTS]}
PEER = {"layouts": [{"layout": name, "launches": 200.0, "collectives": 3.0, "waits": 0.0, "peak_bytes": 1024,
                     "launches_by": {"aten::mm": 200.0}} for name in LAYOUTS]}


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def fake(self, name, script):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)
        return path


class Counts(Scratch):
    def run_it(self, *words, weft=f"echo '{json.dumps(WEFT)}'", peer=f"echo '{json.dumps(PEER)}'"):
        arguments = f'echo "$@" >> {self.folder}/arguments; '
        self.fake("bench/device_counts", arguments + weft)
        self.fake("peers/torch_gpt.py", "")
        python = self.fake("python", arguments + peer)
        return subprocess.run([BENCH / "device_counts", "--build", self.folder, "--shared", self.folder, "--python", python, *words],
                              capture_output=True, text=True)

    def test_json(self):
        result = self.run_it("--json", "--model", "llama", "--micro-batches", "8", "--layers", "2")
        rows = json.loads(result.stdout)["layouts"]
        self.assertEqual([row["layout"] for row in rows], list(LAYOUTS))
        expected = {"launches": 300, "peer_launches": 200, "ratio": 1.5, "waits": 19, "peer_waits": 0, "copied_bytes": 1234567,
                    "collectives": 6, "peer_collectives": 3, "peak_bytes": 512, "forecast_bytes": 520, "peer_peak_bytes": 1024}
        self.assertEqual({key: rows[2][key] for key in expected}, expected)
        for line in (self.folder / "arguments").read_text().splitlines():
            for word in ("llama", "--layers=2", "--width=384", "--micro-batches=8"):
                self.assertIn(word, line)

    def test_table(self):
        lines = self.run_it().stdout.splitlines()
        self.assertEqual([lines[0].split(), lines[-1].split()], [
            "layout launches peer launches ratio captured launches waits stalls peer waits copied bytes collectives peer collectives peak bytes forecast bytes "
            "peer peak bytes".split(),
            "tp 300 200 1.50x 7 19 1 0 1 234 567 6 3 512 520 1024".split()])

    def test_errors(self):
        for words, programs, message in (
                (["--build", "nowhere"], {}, "there is no nowhere/bench/device_counts: cmake --build"),
                (["--shared", "nowhere"], {}, "there is no nowhere/peers/torch_gpt.py: name the folder"),
                (["--python", "./nowhere"], {}, "cannot run ./nowhere: No such file or directory"),
                ([], {"peer": "echo 'no torch' >&2; exit 3"}, "python ended with status 3: no torch"),
                ([], {"weft": "exit 4"}, "device_counts ended with status 4: no message"),
                ([], {"weft": "echo none"}, "device_counts printed no JSON: 'none'"),
                ([], {"peer": "echo '{\"layouts\": []}'"}, "the peer has no layout one"),
                (["--model", "mlp"], {}, "invalid choice: 'mlp'")):
            with self.subTest(message):
                result = self.run_it(*words, **programs)
                self.assertNotEqual(result.returncode, 0)
                self.assertIn(message, result.stderr)
                self.assertNotIn("Traceback", result.stderr)


class Ranks(Scratch):
    """Of torch_counts.py: `script` gets the rank's arguments as $@."""

    def start(self, script, deadline_s=20.0):
        python = self.fake("python", f'echo $$ >> {self.folder}/ids\n{script}')
        with mock.patch.object(sys, "executable", str(python)):
            return torch_counts.start_ranks(["gpt.py"], deadline_s)

    def test_mean(self):
        counts = {"launches": 5, "collectives": 1, "waits": 0, "peak_bytes": 7, "launches_by": {"aten::mm": 5}}
        of_rank = {"dp": counts, "zero-3": counts, "pp": {**counts, "launches": 8, "peak_bytes": 9, "launches_by": {"c10d::send": 8}},
                   "tp": counts}
        (self.folder / "0").write_text(json.dumps({name: counts for name in LAYOUTS}))
        (self.folder / "1").write_text(json.dumps(of_rank))
        found = self.start(f'[[ "$*" == *--rank=1* ]] && cat {self.folder}/1 || cat {self.folder}/0; echo a warning >&2')
        rows = {row["layout"]: row for row in torch_counts.mean_over_ranks(found)}
        self.assertEqual(rows["one"]["launches"], 5)
        self.assertEqual((rows["pp"]["launches"], rows["pp"]["peak_bytes"]), (6.5, 9))
        self.assertEqual(rows["pp"]["launches_by"], {"c10d::send": 4, "aten::mm": 2.5})

    def test_none_is_left(self):
        for script, message in (('[[ "$*" == *--rank=1* ]] && { echo no port >&2; exit 3; }; exec sleep 100',
                                 "torch_counts: rank 1 ended with status 3: no port"),
                                ("exec sleep 100", "torch_counts: the ranks were not done in 1 s")):
            with self.subTest(message), self.assertRaises(SystemExit) as caught, contextlib.redirect_stderr(io.StringIO()):
                begin = time.monotonic()
                self.start(script, deadline_s=1)
            self.assertIn(message, str(caught.exception))
            self.assertLess(time.monotonic() - begin, 10)
        for number in (self.folder / "ids").read_text().split():
            self.assertFalse(pathlib.Path("/proc", number).exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
