#!/usr/bin/env -S python3 -B
"""weft report's page in Chromium: it opens, is driven by mouse and keys, and can be read by everybody; 100 000 steps fit in 1 MB.

WEFT_SCREENSHOTS=DIR keeps pictures of it.
"""
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from chromium import Chromium

RECIPE = """
model = { name = "gpt", layers = 1, heads = 1, width = 8, context = 8 }
data = { name = "text", path = "%s" }
batch = { global = 8 }
run = { steps = 40, evaluate_every = 10, threads = 1 }
"""

# Texts whose contrast with what is behind them is below WCAG's 4.5, and controls without a name.
PROBLEMS = """(() => {
  const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = (color) => color.slice(0, 3).map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const color = rgb(getComputedStyle(element).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const problems = [];
  for (const element of document.querySelectorAll('main *')) {
    if (element.closest('.picture .number')) continue;  // on bars, whose colours an SVG does not tell
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const style = getComputedStyle(element);
    if (own && element.getClientRects().length && !['OPTION', 'STYLE'].includes(element.tagName)) {
      const color = rgb(element instanceof SVGElement ? style.fill : style.color);
      const [a, b] = [light(color), light(behind(element))].sort((p, q) => q - p);
      if ((a + 0.05) / (b + 0.05) < 4.5) problems.push(`contrast of ${element.tagName} "${element.textContent.trim().slice(0, 30)}"`);
    }
    if (element.matches('select, input, button, summary, [tabindex], [role=img], [role=group]')) {
      const by = (element.getAttribute('aria-labelledby') || '').split(' ').map((id) => document.getElementById(id)).filter(Boolean);
      const name = element.getAttribute('aria-label') || by.map((one) => one.textContent).join(' ') ||
        (element.labels && element.labels.length ? element.labels[0].textContent : element.textContent);
      if (!name.trim()) problems.push(`no name: ${element.outerHTML.slice(0, 60)}`);
    }
  }
  for (const picture of document.querySelectorAll('.picture, .bars')) {
    let next = picture.parentElement.matches('figure') ? null : picture.nextElementSibling;
    while (next && !next.matches('details, h2')) next = next.nextElementSibling;
    if (!next || !next.matches('details') || !next.querySelector('tbody tr')) problems.push(`no table behind ${picture.className}`);
  }
  const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
  if (new Set(ids).size !== ids.length) problems.push('an id is there twice');
  if (document.documentElement.scrollWidth > window.innerWidth) problems.push('wider than the window');
  return problems;
})()"""


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        (cls.folder / "text").write_text("".join(f"line {i} of a text\n" for i in range(200)))
        (cls.folder / "r.toml").write_text(RECIPE % (cls.folder / "text"))
        for name, rate in (("a", "0.001"), ("b <b>&\"", "0.01")):
            cls.weft("train", cls.folder / "r.toml", "--set", f"run.folder={cls.folder}/{name}", "--set", f"optimizer.lr={rate}", "--set",
                     f"run.name='{name}'", "--profile", "20-24")
        cls.weft("train", cls.folder / "r.toml", "-n", "2", "--set", f"run.folder={cls.folder}/a on 2", "--set", "optimizer.lr=0.001")
        cls.weft("scale", cls.folder / "r.toml", "-n", "1,2", "--strong", "--steps", "3", "--repeats", "2", "--out", cls.folder / "scale")
        cls.weft("study", cls.folder / "r.toml", "--batch", "8,16", "--target", "loss <= 5.5", "--steps-limit", "40", "--out", cls.folder / "study")
        cls.one, cls.two, cls.three = (cls.folder / f"{name}.html" for name in ("one", "two", "three"))
        cls.weft("report", cls.folder / "a", cls.folder / "a on 2", cls.folder / "scale", cls.folder / "study" / "study.json", "-o", cls.three)
        cls.weft("report", cls.folder / "a", "-o", cls.one)
        cls.weft("report", cls.folder / "a", cls.folder / "b <b>&\"", "-o", cls.two)
        cls.browser = Chromium(deadline_s=240)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.temporary.cleanup()

    @staticmethod
    def weft(*arguments):
        done = subprocess.run([WEFT, *map(str, arguments)], capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return done.stdout

    def picture(self, name):
        if folder := os.environ.get("WEFT_SCREENSHOTS"):
            self.browser.screenshot(f"{folder}/{name}.png")

    def test_is_readable_light_dark_and_narrow(self):
        for path in (self.one, self.two, self.three):
            for width, dark in ((1200, False), (1200, True), (360, False)):
                self.browser.open(path, width=width, dark=dark)
                self.browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
                self.browser.mouse("mouseMoved", width / 2, 500)
                self.assertEqual(self.browser.run(PROBLEMS), [], f"{path.name} {width} {'dark' if dark else 'light'}")
                self.assertEqual(self.browser.complaints(), [])
                self.picture(f"report_{path.stem}_{width}{'_dark' if dark else ''}")

    def test_shows_the_run(self):
        self.browser.open(self.one)
        text = self.browser.run("document.body.innerText")
        for part in ("finished, step 40 of 40", "gpt on 1 rank", "Loss", "Evaluation: evaluation/accuracy", "Parts of a step", "optimizer.lr",
                     "weft train", "finished after step 40 of 40", "the median of 20 to 24", "x the prediction",
                     "Memory of rank 0", "optimizer state"):
            self.assertIn(part, text)
        self.assertGreater(self.browser.run("document.querySelectorAll('.picture svg *').length"), 10)
        first = json.loads((self.folder / "a" / "metrics.jsonl").read_text().splitlines()[0])
        rows = self.browser.run("""(() => { const one = document.querySelector('#chart0 details'); one.open = true;
          return new Promise((done) => setTimeout(() => done([...one.querySelectorAll('tbody tr')].map((row) => row.innerText)), 200)); })()""")
        self.assertEqual(len(rows), 40)
        self.assertAlmostEqual(float(rows[0].split("\t")[2]), first["loss"], delta=1e-3 * first["loss"])

    def table(self, title):
        """Rows of the table behind the part of that title."""
        return self.browser.run("""((title) => {
          let next = [...document.querySelectorAll('h2, h3')].find((one) => one.textContent === title);
          while (!next.matches('details')) next = next.nextElementSibling;
          next.open = true;
          return [...next.querySelectorAll('tr')].map((row) => [...row.children].map((cell) => cell.textContent));
        })""" + f"({json.dumps(title)})")

    def test_measured_is_beside_predicted(self):
        self.browser.open(self.one)
        step = self.table("A step")
        self.assertEqual(step[0], ["mean per rank", "predicted", "measured", "ratio"])
        self.assertEqual([row[0] for row in step[1:] if row[0] != "reduce"], ["forward", "backward", "loss, update", "step"])
        bars = self.browser.run("""['forward', 'backward'].map((kind) => [...document.querySelectorAll(`.picture .${kind} rect`)]
          .map((bar) => bar.getBoundingClientRect().top))""")
        self.assertTrue(all(len(set(tops)) == 2 for tops in bars), bars)  # two rows each
        memory = {row[0]: row[3] for row in self.table("Memory of rank 0")[1:]}
        for name in ("weights", "gradients", "optimizer state"):
            self.assertAlmostEqual(float(memory[name]), 1, delta=0.06, msg=memory)
        widths = self.browser.run("[...document.querySelectorAll('.bars i')].map((bar) => bar.getBoundingClientRect().width)")
        self.assertEqual(len(widths), 2 * len(memory))
        self.assertGreater(max(widths), 100)
        (self.folder / "a" / "profile" / "timeline.json").rename(self.folder / "timeline.json")
        try:
            page = self.folder / "without.html"
            self.weft("report", self.folder / "a", "-o", page)
            self.assertIn("train with --profile", page.read_text())
            other = json.loads((self.folder / "timeline.json").read_text()) | {"program": "0" * 16}
            for text in ("{}", json.dumps(other)):
                (self.folder / "a" / "profile" / "timeline.json").write_text(text)
                self.weft("report", self.folder / "a", "-o", page)
                self.assertIn("The profiled step is not drawn: ", page.read_text())
        finally:
            (self.folder / "timeline.json").rename(self.folder / "a" / "profile" / "timeline.json")

    def test_scaling_and_studies_have_charts(self):
        self.browser.open(self.three)
        headings = self.browser.run("[...document.querySelectorAll('h2')].map((one) => one.textContent)")
        self.assertEqual([one for one in headings if one in ("Scaling", "Steps to loss <= 5.5")], ["Scaling", "Scaling", "Steps to loss <= 5.5"])
        rows = self.table("Scaling")
        self.assertEqual([row[:4] for row in rows[1:]], [["strong", "dp", "1", "8"], ["strong", "dp", "2", "8"]])
        self.assertEqual(len(self.table("Steps to loss <= 5.5")), 3)
        self.assertEqual(self.browser.run("document.querySelectorAll('.picture svg .point').length"), 2 * 2 * 2 + 2)
        page = self.folder / "study.html"
        self.weft("report", self.folder / "study", "-o", page)
        self.assertNotIn("<script", page.read_text())

    def box(self):
        return self.browser.run("(() => { const b = document.querySelector('#chart0 svg').getBoundingClientRect(); "
                                "return [b.left, b.top, b.width, b.height]; })()")

    def ticks(self):
        return self.browser.run("[...document.querySelectorAll('#chart0 svg text[text-anchor=middle]')].map((one) => one.textContent)")

    def readout(self):
        return self.browser.run("document.querySelector('#chart0 .readout').innerText")

    def test_is_driven_by_mouse_and_keys(self):
        self.browser.open(self.two)
        self.browser.run("document.querySelector('#chart0').scrollIntoView()")
        left, top, width, height = self.box()
        self.browser.mouse("mouseMoved", left + width / 2, top + height / 2)
        self.assertRegex(self.readout(), r"step [\d.]+")
        whole = self.ticks()
        self.browser.mouse("mousePressed", left + width * 0.4, top + height / 2, 1)
        self.browser.mouse("mouseMoved", left + width * 0.6, top + height / 2, 1)
        self.browser.mouse("mouseReleased", left + width * 0.6, top + height / 2)
        self.assertNotEqual(self.ticks(), whole)
        self.browser.run("document.querySelector('#chart0 svg').focus()")
        self.browser.key("Escape")
        self.assertEqual(self.ticks(), whole)
        self.browser.key("ArrowLeft")
        before = self.readout()
        self.browser.key("ArrowLeft")
        self.assertNotEqual(self.readout(), before)
        self.browser.key("+")
        self.assertNotEqual(self.ticks(), whole)
        self.browser.run("document.getElementById('reset').click()")
        self.assertEqual(self.ticks(), whole)
        line = "document.querySelector('#chart0 polyline').getAttribute('points')"
        before = self.browser.run(line)
        for change in ("const one = document.getElementById('smooth'); one.value = 0.9; one.dispatchEvent(new Event('input'))",
                       "document.getElementById('log').click()",
                       "const one = document.getElementById('axis'); one.value = 'samples'; one.dispatchEvent(new Event('change'))"):
            self.browser.run(f"(() => {{ {change} }})()")
            after = self.browser.run(line)
            self.assertNotIn("NaN", after)
            if "axis" not in change:
                self.assertNotEqual(after, before, change)
            before = after
        self.assertGreater(float(self.ticks()[-1]), 200)  # of 320 samples
        self.assertEqual(self.browser.run("document.querySelectorAll('#chart0 polyline').length"), 2)
        self.assertEqual(self.browser.complaints(), [])

    def test_100000_steps_fit_in_1_mb_with_their_extremes(self):
        many = self.folder / "many"
        many.mkdir()
        names = ["loss", "lr", "grad_norm", "samples", "tokens", "seconds", "samples_per_s", "tokens_per_s"]
        names += [f"{part}/{one}" for part in ("time", "communication", "memory") for one in "abcdef"]
        with open(many / "metrics.jsonl", "w", encoding="ascii") as file:
            for step in range(1, 100_001):
                values = ",".join(f'"{name}":{(5 if step == 77_777 else 1) * (math.sin(step * 1e-3) + i + 2):.7g}' for i, name in enumerate(names))
                file.write(f'{{"step":{step},"time":{1764583200 + step},{values}}}\n')
        shutil.copy(self.folder / "a" / "events.jsonl", many)
        shutil.copytree(self.folder / "a" / "profile", many / "profile")
        page = self.folder / "many.html"
        self.weft("report", many, "-o", page)
        self.assertLess(page.stat().st_size, 1_000_000)
        self.browser.open(page)
        self.assertEqual(self.browser.complaints(), [])
        highest = self.browser.run("Math.max(...JSON.parse(document.getElementById('data').textContent).runs[0].curves.loss.high)")
        self.assertAlmostEqual(highest, 5 * (math.sin(77.777) + 2), places=3)


if __name__ == "__main__":
    WEFT = sys.argv.pop(1)
    unittest.main()
