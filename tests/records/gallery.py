#!/usr/bin/env -S python3 -B
"""tests/records/gallery.py WEFT FOLDER: makes every picture of docs/gallery.md anew, from runs made on the spot. `make gallery` calls it."""
import html
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

from chromium import Chromium

RECIPE = """
model = { name = "gpt", layers = 4, heads = 2, width = 32, context = 32 }
data = { name = "text", path = "text" }
batch = { global = 16, micro = 4 }
optimizer = { name = "adamw", lr = 0.003, warmup = 20, decay = "cosine", clip = 1.0 }
run = { steps = 120, evaluate_every = 30, threads = 1, seed = 1, timeout_s = 3 }
"""
COLUMNS = 112
# Where a part of the report begins and ends, for pictures of it.
PART = """((title) => {
  const head = [...document.querySelectorAll('h2')].find((one) => one.textContent === title);
  let last = head;
  while (last.nextElementSibling && last.nextElementSibling.tagName !== 'H2') last = last.nextElementSibling;
  const [from, to] = [head.getBoundingClientRect(), last.getBoundingClientRect()];
  return [0, from.top + scrollY - 8, document.documentElement.clientWidth, to.bottom - from.top + 20];
})"""


def terminal(command, text, lines=60):
    """A command and what it printed, as a picture. Each line is stretched to its columns, so that it fits in any font."""
    rows = [f"$ {command}", *(part for line in text.rstrip("\n").split("\n") for part in
                              (textwrap.wrap(line, COLUMNS, subsequent_indent="    ") or [""]))]
    if len(rows) > lines:
        rows = rows[:lines - 1] + ["..."]
    cell, step, edge = 7.8, 17, 14
    width, height = edge * 2 + cell * max(map(len, rows)), edge * 2 + step * len(rows)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}" '
           'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13" fill="#e6edf3">',
           '<rect width="100%" height="100%" rx="8" fill="#0f1318"/>']
    for number, row in enumerate(rows):
        words = row.lstrip(" ").rstrip()
        if words:
            x, y = edge + cell * (len(row) - len(row.lstrip(" "))), edge + step * (number + 0.75)
            strong = ' fill="#79b0ff"' if number == 0 else ""
            out.append(f'<text x="{x:.1f}" y="{y:.1f}" textLength="{cell * len(words):.1f}" lengthAdjust="spacingAndGlyphs"{strong}>'
                       f'{html.escape(words, quote=False).replace(" ", "&#160;")}</text>')
    return "\n".join([*out, "</svg>", ""])


class Gallery:
    def __init__(self, weft, out):
        self.command, self.out = os.path.abspath(weft), pathlib.Path(out)
        self.temporary = tempfile.TemporaryDirectory(prefix="weft_gallery_")
        self.folder = pathlib.Path(self.temporary.name)
        draw = random.Random(1)
        words = ["".join(draw.choice("abcdefghijklmnoprstuvwy") for _ in range(draw.randint(2, 8))) for _ in range(400)]
        text = "\n".join(" ".join(words[int(draw.paretovariate(0.7)) % 400] for _ in range(10)) for _ in range(6000))
        (self.folder / "text").write_text(text)
        (self.folder / "gpt.toml").write_text(RECIPE)

    def weft(self, *words, status=0):
        done = subprocess.run([self.command, *map(str, words)], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=300)
        if done.returncode != status:
            raise RuntimeError(f"weft {words}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def train(self, name, *keys, ranks=1, words=()):
        sets = [word for key in (f"run.folder={name}", f"run.name={name.rsplit('/', 1)[-1]}", *keys) for word in ("--set", key)]
        return self.weft("train", "gpt.toml", "-n", ranks, *sets, *words)

    def print(self, name, *words, lines=60, status=0, change=lambda text: text):
        text = change(self.weft(*words, status=status).replace(f"{self.folder}/", ""))
        (self.out / f"{name}.svg").write_text(terminal("weft " + " ".join(words), text, lines), encoding="utf-8")

    def hang(self):
        """A run whose last rank is stopped; the error of its launcher."""
        process = subprocess.Popen([self.command, "train", "gpt.toml", "-n", "4", "--set", "run.folder=runs/hang", "--set", "run.steps=100000",
                                    "--set", "layout.backend=shm"], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            while not (self.folder / "runs" / "hang" / "metrics.jsonl").exists():
                time.sleep(0.05)
            for child in subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split():
                if b"RANK=3" in pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
                    os.kill(int(child), signal.SIGSTOP)
            return process.communicate(timeout=60)[1].replace(f"{self.folder}/", "")
        finally:
            process.kill()

    def runs(self):
        self.weft("profile", "gpt.toml", "-n", 2, "-o", "here.toml")
        self.train("runs/pipeline", "layout.pp=2", "run.hardware=here.toml", ranks=2, words=("--profile", "100-104"))
        self.train("runs/faster", "layout.pp=2", "optimizer.lr=0.01", ranks=2)
        self.train("runs/rising", "optimizer.lr=3.0", "optimizer.warmup=110", "optimizer.clip=0.0")
        for ranks in (1, 2, 4):
            self.train(f"runs/on-{ranks}", "run.steps=20", "run.evaluate_every=0", "optimizer.warmup=0", ranks=ranks)

    def terminals(self):
        self.print("watch", "watch", "runs/pipeline", "--once")
        self.print("compare", "compare", "runs/pipeline", "runs/faster")
        self.print("alarms", "watch", "runs/rising", "--once")
        profile = (self.folder / "runs" / "pipeline" / "profile" / "profile.txt").read_text()
        (self.out / "critical_path.svg").write_text(
            terminal("weft train gpt.toml -n 2 --set layout.pp=2 --profile 100-104", profile.split("\noperators")[0]), encoding="utf-8")
        error = self.hang()
        (self.out / "hang.svg").write_text(terminal("weft train gpt.toml -n 4", error), encoding="utf-8")
        self.print("blame", "blame", "runs/hang", lines=40)

    def pages(self):
        browser = Chromium(deadline_s=300)
        try:
            for name, runs in (("one", ["pipeline"]), ("two", ["pipeline", "faster"]), ("rising", ["rising"]), ("ranks", ["on-1", "on-2", "on-4"])):
                self.weft("report", *(f"runs/{run}" for run in runs), "-o", f"{name}.html")
            for name, page, title, width, dark in (("light", "two", "Curves", 760, False), ("dark", "two", "Curves", 760, True),
                                                   ("narrow", "one", None, 360, False), ("step", "one", "A step", 1200, False),
                                                   ("step_dark", "one", "A step", 1200, True), ("memory", "one", "Memory of rank 0", 800, False),
                                                   ("scaling", "ranks", "Scaling", 790, False), ("alarms", "rising", "Events", 900, True)):
                browser.open(self.folder / f"{page}.html", width=width, dark=dark)
                left, top, width, height = browser.run(f"{PART}({title!r})") if title else (0, 0, width, 1000)
                browser.screenshot(self.out / f"report_{name}.png", (left, top, width, min(height, 640 if title == "Curves" else 1400)),
                                   scale=0.8 if name in ("scaling", "alarms") else 1)
            self.zoomed(browser)
        finally:
            browser.close()

    def zoomed(self, browser):
        browser.open(self.folder / "two.html", width=800)
        browser.run("document.querySelector('#chart0').scrollIntoView({ block: 'center' })")
        box = "(() => { const b = document.querySelector('#chart0%s').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()"
        left, top, width, height = browser.run(box % " svg")
        for kind, x, buttons in (("mouseMoved", 0.4, 0), ("mousePressed", 0.4, 1), ("mouseMoved", 0.7, 1), ("mouseReleased", 0.7, 0),
                                 ("mouseMoved", 0.5, 0)):
            browser.mouse(kind, left + width * x, top + height / 2, buttons)
        left, top, width, height = browser.run(box % "")
        browser.screenshot(self.out / "report_zoomed.png", (left - 8, top + browser.run("scrollY") - 8, width + 16, height + 16))


def make(weft, out):
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    gallery = Gallery(weft, out)
    with gallery.temporary:
        gallery.runs()
        gallery.terminals()
        gallery.pages()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    make(*sys.argv[1:])
