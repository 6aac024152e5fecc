#!/usr/bin/env -S python3 -B
"""The index that weft runs keeps, read by SQLite's own shell, and on a disk without room for it."""
import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "watching.md"
KEYS = 400  # of a recipe, more than there are, so that rows need many pages


def write_run(folder, name, rate, accuracy):
    (folder / name).mkdir(parents=True)
    details = {"name": name, "steps": "2", "ranks": "1", "recipe.optimizer.lr": rate, "recipe.run.seed": name, "recipe.run.folder": name}
    details |= {f"recipe.some.key{i}": "a value of some length" for i in range(KEYS)}
    event = {"event": "start", "step": 0, "time": 1764583200.0, "text": name, "details": details}
    (folder / name / "events.jsonl").write_text(json.dumps(event) + "\n")
    records = [{"step": step, "time": 1764583200.0 + step, "loss": 2.0 / step, "samples": 8 * step} for step in (1, 2)]
    records.append({"evaluation": "evaluation", "step": 2, "time": 1764583203.0, "loss": 1.5, "accuracy": accuracy})
    (folder / name / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


@contextlib.contextmanager
def small_disk(folder, size):
    """A file system of that size."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder.mkdir(exist_ok=True)
    if libc.mount(b"none", bytes(folder), b"tmpfs", 0, f"size={size}".encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    try:
        yield folder
    finally:
        libc.umount2(bytes(folder), 2)


class Index(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="weft_sqlite_")
        self.folder = pathlib.Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)

    def run_in(self, words):
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def check(self, database):
        self.assertEqual(self.run_in(["sqlite3", database, "PRAGMA integrity_check; PRAGMA foreign_key_check"]), "ok\n")

    def test_is_read_by_sqlites_shell(self):
        self.assertIsNotNone(shutil.which("sqlite3"), "no sqlite3: tools/bootstrap --tests installs it")
        for name, rate, accuracy in (("a", "0.1", 0.5), ("b", "0.2", 0.75), ("deep/c", "0.3", 0.25), ("d", "0.4", 0.625)):
            write_run(self.folder / "runs", name, rate, accuracy)
        self.run_in([WEFT, "runs", "runs"])
        query = re.search(r'^sqlite3 runs/runs\.sqlite "(SELECT [^"]*)"$', DOCS.read_text(), re.MULTILINE)
        self.assertIsNotNone(query, f"{DOCS} shows no query")
        self.assertEqual(self.run_in(["sqlite3", "runs/runs.sqlite", query[1]]), "b|0.75\nd|0.625\na|0.5\n")
        self.check("runs/runs.sqlite")
        joined = "SELECT path, steps, loss, value FROM runs JOIN keys USING (path) WHERE key = 'optimizer.lr' ORDER BY path"
        rows = "a|2|1.0|0.1\nb|2|1.0|0.2\nd|2|1.0|0.4\ndeep/c|2|1.0|0.3\n"
        self.assertEqual(self.run_in(["sqlite3", "runs/runs.sqlite", joined]), rows)
        shutil.rmtree(self.folder / "runs" / "d")
        self.run_in([WEFT, "runs", "runs"])
        self.assertEqual(self.run_in(["sqlite3", "runs/runs.sqlite", "SELECT count(*) FROM runs; SELECT count(DISTINCT path) FROM keys"]), "3\n3\n")
        self.check("runs/runs.sqlite")

    def test_full_disk_is_named_and_keeps_no_file(self):
        kept = missed = 0
        for room in range(0, 420 << 10, 20 << 10):
            with small_disk(self.folder / "disk", 1 << 20) as disk:
                for name, rate in (("a", "0.1"), ("b", "0.2")):
                    write_run(disk, name, rate, 0.5)
                free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
                (disk / "filler").write_bytes(bytes(free - room))
                lines = self.run_in([WEFT, "runs", "disk"]).splitlines()
                self.assertRegex(lines[-2], r"^a .* 0\.1$", f"{room} bytes free: {lines}")
                if (disk / "runs.sqlite").exists():
                    kept += 1
                    self.assertEqual(len(lines), 3, lines)
                    self.check("disk/runs.sqlite")
                else:
                    missed += 1
                    self.assertEqual((len(lines), lines[0]), (4, "no index is kept in disk/runs.sqlite: disk full; all runs are read"))
                    self.assertEqual(sorted(path.name for path in disk.iterdir()), ["a", "b", "filler"])
        self.assertGreater(kept, 0)
        self.assertGreater(missed, 2)  # without room for tables, and with room for some rows


if __name__ == "__main__":
    WEFT = os.path.abspath(sys.argv.pop(1))
    unittest.main()
