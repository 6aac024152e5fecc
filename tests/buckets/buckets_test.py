#!/usr/bin/env -S python3 -B
"""Trainings that save to and read from S3: a real server on loopback, behind a proxy that fails every third request, is slow, or dies."""
import argparse
import io
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

from s3_server import S3, Proxy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from images import png

RECIPE = """
model = { name = "gpt", layers = 2, heads = 2, width = 32, context = 32 }
data = { name = "text", path = "text" }
batch = { global = 16, micro = 2 }
optimizer = { lr = 1e-3, clip = 1.0 }
run = { steps = 12, evaluate_every = 4, threads = 1, reproducible_slots = 4, timeout_s = 60 }
"""


class Tests:
    def __init__(self, weft, parquet_sample):
        self.weft, self.parquet_sample, self.s3 = weft, parquet_sample, S3()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft_buckets_"))
        (self.folder / "r.toml").write_text(RECIPE)
        (self.folder / "text").write_text("".join(f"line {i} of a text that repeats itself\n" for i in range(2000)))
        self.proxy = Proxy(self.s3.port)
        self.sha = self.train([])["weights_sha256"]

    def close(self):
        self.s3.stop()
        shutil.rmtree(self.folder)

    def environment(self):
        own = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": self.proxy.url,
               "AWS_EC2_METADATA_DISABLED": "true"}
        return {key: value for key, value in os.environ.items() if not key.startswith("AWS_")} | own

    def run(self, words):
        return subprocess.run([self.weft, *words], cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=120)

    def words(self, more):
        return ["train", "r.toml", "--summary", "summary.json", *more]

    def train(self, more, status=0):
        done = self.run(self.words(more))
        assert done.returncode == status, f"{more}: status {done.returncode}, {done.stderr}"
        self.said = done.stdout + done.stderr
        return json.loads((self.folder / "summary.json").read_text()) if status == 0 else None

    def resumes_to_the_same_bits(self, folder):
        """Saves on 2 ranks, then resumes on 4 with another layout."""
        save = ["--set", f"save.folder={folder}", "--set", "save.every=4 steps"]
        self.train(["-n", "2", "--set", "run.steps=4", *save])
        summary = self.train(["-n", "4", "--set", "layout.shard_level=parameters", *save])
        assert summary["resumed_from"] == 4, summary
        assert summary["weights_sha256"] == self.sha
        listed = self.run(["checkpoint", "list", folder])
        assert [line.split()[0] for line in listed.stdout.splitlines()] == [f"step-{s:08}" for s in (4, 8, 12)], listed
        verified = self.run(["checkpoint", "verify", folder])
        assert verified.returncode == 0, verified.stderr

    # --- tests ------------------------------------------------------------------------------------------------------------

    def test_saves_and_resumes(self):
        self.resumes_to_the_same_bits("s3://bucket/plain")
        own = ("plain/step-", "plain/records-1/")
        assert all(key.startswith(own) for key in self.s3.keys("plain/") if not key.endswith("/")), self.s3.keys("plain/")
        assert self.s3.uploads() == 0

    def test_every_third_request_fails(self):
        self.proxy = Proxy(self.s3.port, fails=3)
        self.resumes_to_the_same_bits("s3://bucket/third")
        assert self.proxy.failed > 10, self.proxy.failed

    def test_slow(self):
        self.proxy = Proxy(self.s3.port, delay_s=0.03)
        self.resumes_to_the_same_bits("s3://bucket/slow")

    def test_large_files_are_uploaded_in_parts(self):
        """Uploads more than 60 MB, in parts."""
        big = ["--set", "model.width=512", "--set", "model.layers=2", "--set", "run.steps=2",
               "--set", "run.evaluate_every=0", "--set", "save.folder=s3://bucket/big"]
        self.train(["-n", "2", *big])
        shown = self.run(["checkpoint", "verify", "s3://bucket/big"])
        assert shown.returncode == 0 and "MiB" in shown.stdout, shown
        assert float(shown.stdout.split(" MiB")[0].split()[-1]) > 60, shown.stdout

    def test_dies_in_the_middle(self):
        save = ["--set", "save.folder=s3://bucket/dies", "--set", "save.every=2 steps", "--set", "run.timeout_s=20"]
        self.train(["--set", "run.steps=4", *save])
        process = subprocess.Popen([self.weft, *self.words(["--set", "run.steps=100000", *save])], cwd=self.folder, env=self.environment(),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 30
        while not any("step-00000008/complete.json" in key for key in self.s3.keys("dies/")) and time.monotonic() < end:
            time.sleep(0.05)
        self.proxy.dead = True
        error = process.communicate(timeout=120)[1]
        assert process.returncode == 1 and len(error.splitlines()) == 1 and "s3://bucket/dies" in error, (process.returncode, error)
        self.proxy.dead = False
        steps = [int(key.split("step-")[1][:8]) for key in self.s3.keys("dies/") if key.endswith("complete.json")]
        summary = self.train(["--set", f"run.steps={max(steps) + 2}", *save])
        assert summary["resumed_from"] == max(steps), (summary, steps)

    def test_two_runs(self):
        save = ["--set", "save.folder=s3://bucket/two", "--set", "save.every=2 steps"]
        process = subprocess.Popen([self.weft, *self.words(["--set", "run.steps=100000", *save])], cwd=self.folder, env=self.environment(),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 30
        while not any("complete.json" in key for key in self.s3.keys("two/")) and time.monotonic() < end:
            time.sleep(0.05)
        self.train(save, status=1)
        assert "another run saves its checkpoints there" in self.said, self.said
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.train(["--set", "run.steps=2000000", "--set", "run.evaluate_every=0", "--set", "run.seed=2", *save], status=1)
        assert "it belongs to another run" in self.said, self.said  # a dead run holds no lock

    def test_locks_of_other_machines(self):
        """A live lock is respected: its object is neither overwritten nor removed, even by a run that held the folder before."""
        save = ["--set", "save.folder=s3://bucket/claims", "--set", "save.every=2 steps", "--set", "save.keep=2"]
        other, alive = "/bucket/claims/.weft.lock-0000000000000000", threading.Event()

        def beat():
            for beats in itertools.count():
                self.s3.request("PUT", other, f"process 7 on elsewhere\nanother\n7 1\nholds {beats:020}\n".encode())
                if alive.wait(0.1):
                    return

        def own():
            return [key for key in self.s3.keys("claims/") if ".weft.lock-" in key and not key.endswith("0" * 16)]

        thread = threading.Thread(target=beat)
        thread.start()
        try:
            self.train(["--set", "run.steps=4", *save], status=1)
            assert "another run saves its checkpoints there: process 7 on elsewhere" in self.said, self.said
            alive.set()
            thread.join()
            deleted = self.s3.request("DELETE", other)[0]
            assert deleted in (200, 204) and not own(), (deleted, own())
            self.train(["--set", "run.steps=4", *save])
            assert not own(), self.s3.keys("claims/")
            process = subprocess.Popen([self.weft, *self.words(["--set", "run.steps=100000", *save])], cwd=self.folder, env=self.environment(),
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            end = time.monotonic() + 30
            while not any("step-00000008/complete.json" in key for key in self.s3.keys("claims/")) and time.monotonic() < end:
                time.sleep(0.05)
            alive.clear()
            thread = threading.Thread(target=beat)
            thread.start()
            for key in own():  # as if it had been suspended, and taken for dead
                self.s3.request("DELETE", f"/bucket/{key}")
            error = process.communicate(timeout=60)[1]
            assert process.returncode == 1 and "another run saves its checkpoints there: process 7 on elsewhere" in error, (process.returncode, error)
            assert not own() and any(key.endswith("0" * 16) for key in self.s3.keys("claims/")), self.s3.keys("claims/")
        finally:
            alive.set()
            thread.join()

    def test_local_and_remote(self):
        save = ["--set", "save.folder=local", "--set", "save.upload=s3://bucket/copy", "--set", "save.every=2 steps", "--set", "save.keep=2"]
        self.train(["--set", "run.steps=6", *save])
        names = sorted(p.name for p in (self.folder / "local").glob("step-*"))
        remote = sorted({key.split("/")[1] for key in self.s3.keys("copy/step-")})
        assert names == ["step-00000004", "step-00000006"], names
        assert "step-00000006" in remote and len(remote) <= 2, remote  # if copies are slow, newer ones go before older
        shutil.rmtree(self.folder / "local")  # the machine is gone
        summary = self.train(save)
        assert summary["resumed_from"] == 6 and summary["weights_sha256"] == self.sha, summary

    def lines(self, folder, name):
        """Lines of records, over all parts."""
        keys = [key for key in self.s3.keys(f"{folder}/records-1/") if f"/{name}-" in key]
        text = b"".join(self.s3.request("GET", f"/bucket/{key}")[1] for key in keys).decode()
        assert text.endswith("\n"), text[-100:]
        return [json.loads(line) for line in text.splitlines()]

    def records_survive_a_kill(self, folder):
        """A run that is killed, and goes on where its last checkpoint was: it loses at most steps that were not uploaded."""
        save = ["--set", f"save.folder=s3://bucket/{folder}", "--set", "save.every=2 steps"]
        process = subprocess.Popen([self.weft, *self.words(["--set", "run.steps=100000", *save])], cwd=self.folder, env=self.environment(),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not any("step-00000008/complete.json" in key for key in self.s3.keys(f"{folder}/")) and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        uploaded = max(line["step"] for line in self.lines(folder, "metrics"))
        saved = max(int(key.split("step-")[1][:8]) for key in self.s3.keys(f"{folder}/") if key.endswith("complete.json"))
        last = saved + 4
        self.train(["-n", "2", "--set", f"run.steps={last}", *save])
        lines = self.lines(folder, "metrics")
        steps = [line["step"] for line in lines if "evaluation" not in line]
        assert uploaded >= 4 and steps == [*range(1, min(uploaded, saved) + 1), *range(saved + 1, last + 1)], (uploaded, saved, steps)
        assert [event["event"] for event in self.lines(folder, "events") if event["event"] in ("start", "end")] == ["start", "start", "end"]
        shown = self.run(["watch", f"s3://bucket/{folder}", "--once"])
        assert f"finished, step {last} of {last}" in shown.stdout, shown
        made = self.run(["report", f"s3://bucket/{folder}", "-o", "report.html"])
        assert made.returncode == 0, made.stderr

    def test_records(self):
        self.records_survive_a_kill("records")

    def test_records_while_every_third_request_fails(self):
        self.proxy = Proxy(self.s3.port, fails=3)
        self.records_survive_a_kill("third_records")

    def test_records_of_several_runs(self):
        """Runs with a folder for records alone: each that begins anew has its own, and another's are left alone."""
        where = ["--set", "run.folder=s3://bucket/alone"]
        self.train(where)
        first = self.lines("alone", "metrics")
        self.train([*where, "--set", "run.steps=3"])
        assert self.lines("alone", "metrics") == first and len({key.split("/")[1] for key in self.s3.keys("alone/records-")}) == 2
        shown = self.run(["watch", "s3://bucket/alone", "--once"])
        assert "finished, step 3 of 3" in shown.stdout, shown
        compared = self.run(["compare", "s3://bucket/alone", "s3://bucket/alone/"])
        assert compared.returncode == 1 and "are the same run: name it once" in compared.stderr, compared.stderr

    def test_records_on_disk_beside_checkpoints_in_a_bucket(self):
        self.train(["--set", "run.folder=disk", "--set", "save.folder=s3://bucket/beside", "--set", "run.tensorboard=true"])
        assert (self.folder / "disk" / "metrics.jsonl").exists() and (self.folder / "disk" / "tensorboard").exists()
        assert not self.s3.keys("beside/records-")
        self.train(["--set", "save.folder=s3://bucket/beside", "--set", "run.tensorboard=true"], status=1)
        assert "run.tensorboard is read only with run.folder or save.folder on disk" in self.said, self.said

    def test_records_of_a_dead_bucket(self):
        """It is said once, and neither stops the run nor holds it up for long."""
        self.proxy.dead = True
        began = time.monotonic()
        summary = self.train(["--set", "run.folder=s3://bucket/nowhere"])
        took = time.monotonic() - began
        assert summary["weights_sha256"] == self.sha and took < 60, took
        assert self.said.count("s3://bucket/nowhere") == 1 or "a sink still hangs" in self.said, self.said
        print(f"    {took:.1f} s: {[line for line in self.said.splitlines() if 'record' in line]}")

    def test_web_dataset(self):
        """Shards in a bucket give the same data as on disk, even when requests fail."""
        for part, count in (("train", 3), ("val", 1)):
            for shard in range(count):
                name = f"{part}-{shard:02}.tar"
                with tarfile.open(self.folder / name, "w") as tar:
                    for i in range(8):
                        for kind, data in (("png", png(8, 10 * i + shard)), ("cls", str(i % 2).encode())):
                            member = tarfile.TarInfo(f"{i:04}.{kind}")
                            member.size = len(data)
                            tar.addfile(member, io.BytesIO(data))
                assert self.s3.request("PUT", f"/bucket/shards/{name}", (self.folder / name).read_bytes())[0] == 200
        recipe = self.folder / "images.toml"
        recipe.write_text(RECIPE[RECIPE.index("batch ="):] +
                          'model = { name = "mlp", layers = 1, width = 8, channels = 3, image_size = 8, classes = 2 }\n'
                          'data = { name = "webdataset", flip = true, workers = 3 }\n')
        shas = []
        for place, train, ranks in ((".", "train-*.tar", 1), ("s3://bucket/shards", "train-{00..02}.tar", 2), ("s3://bucket/shards", "train-*.tar", 1)):
            words = ["train", str(recipe), "--summary", "summary.json", "-n", str(ranks), "--set", "run.steps=2", "--set", f"data.path={place}/{train}",
                     "--set", f"data.evaluation_path={place}/val-00.tar"]
            done = self.run(words)
            assert done.returncode == 0, done.stderr
            shas.append(json.loads((self.folder / "summary.json").read_text())["weights_sha256"])
            self.proxy = Proxy(self.s3.port, fails=8)
        assert len(set(shas)) == 1, shas
        missing = self.run([*words[:-4], "--set", "data.path=s3://bucket/shards/x*.tar", *words[-2:]]).stderr
        assert missing.count("s3://bucket/shards/x*.tar: no files (.tar) there") == 1, missing

    def test_parquet_and_json_lines(self):
        """Rows in a bucket give the same data as on disk, even when requests fail, and are requested one group at a time."""
        subprocess.run([self.parquet_sample, str(self.folder)], check=True)
        rows = "".join(json.dumps({"text": f"row {i} says {i * i}"}) + "\n" for i in range(500))
        (self.folder / "rows.jsonl").write_text(rows)
        for name in ("text-0.parquet", "text-1.parquet", "train.parquet", "val.parquet", "rows.jsonl"):
            assert self.s3.request("PUT", f"/bucket/rows/{name}", (self.folder / name).read_bytes())[0] == 200
        batch = RECIPE[RECIPE.index("batch ="):]
        gpt = 'model = { name = "gpt", layers = 1, heads = 1, width = 16, context = 32 }\n' + batch
        mlp = 'model = { name = "mlp", layers = 1, width = 8, channels = 3, image_size = 8, classes = 2 }\n' + batch
        kinds = {
            "text": (gpt, 'name = "parquet", column = "body", path = "PLACE/text-{0,1}.parquet", shuffle_mb = 0.01'),
            "images": (mlp, 'name = "parquet", path = "PLACE/train.parquet", evaluation_path = "PLACE/val*.parquet", shuffle_mb = 0.002'),
            "rows": (gpt, 'name = "jsonl", path = "PLACE/rows.jsonl"'),
        }
        for kind, (recipe, data) in kinds.items():
            shas = []
            for place, ranks, fails in ((".", 1, 0), ("s3://bucket/rows", 1, 0), ("s3://bucket/rows", 2, 9)):
                self.proxy = Proxy(self.s3.port, fails=fails)
                (self.folder / "rows.toml").write_text(f"{recipe}\ndata = {{ {data.replace('PLACE', place)}, workers = 2 }}\n")
                done = self.run(["train", "rows.toml", "--summary", "summary.json", "-n", str(ranks), "--set", "run.steps=6"])
                assert done.returncode == 0, (kind, done.stderr)
                shas.append(json.loads((self.folder / "summary.json").read_text())["weights_sha256"])
                if place != "." and fails == 0:
                    assert self.proxy.requests < 150, (kind, self.proxy.requests)
            assert len(set(shas)) == 1, (kind, shas)
        missing = self.run(["train", "rows.toml", "--set", "data.path=s3://bucket/rows/x*.jsonl"]).stderr
        assert missing.count("s3://bucket/rows/x*.jsonl: no files (.jsonl) there") == 1, missing

    def test_errors_name_the_cause(self):
        for name, said in {"s3://none/x": "no checkpoint found", "s4://a/b": "unknown store", "s3://bucket/x?a=b": "not contain '?'"}.items():
            done = self.run(["checkpoint", "list", name])
            assert done.returncode == 1 and said in done.stderr and len(done.stderr.splitlines()) == 1, done


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weft", required=True)
    parser.add_argument("--parquet-sample", required=True, help="the program that writes Parquet files")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--only", nargs="+", help="run only these tests")
    chosen.add_argument("--without", nargs="+", default=[], help="run all but these tests")
    options = parser.parse_args()
    tests, failed = Tests(options.weft, options.parquet_sample), 0
    all_names = [name for name in dir(Tests) if name.startswith("test_")]
    unknown = set(options.only or []) | set(options.without)
    if unknown - set(all_names):
        parser.error(f"there is no {', '.join(sorted(unknown - set(all_names)))}")
    names = [name for name in all_names if name not in options.without and name in (options.only or all_names)]
    try:
        for name in names:
            began = time.monotonic()
            tests.proxy = Proxy(tests.s3.port)
            try:
                getattr(tests, name)()
                print(f"  {name}: passed ({time.monotonic() - began:.1f} s)", flush=True)
            except Exception as error:  # noqa: BLE001: each failure is reported, the others still run
                failed += 1
                print(f"  {name}: FAILED: {type(error).__name__}: {str(error)[:1500]}", flush=True)
    finally:
        tests.close()
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
