"""Reads what tools/gpu/count_calls.cpp writes."""
import collections
import json
import re
import subprocess

OTHERS = ("std::", "c10::", "at::")  # templates that are compiled into weft


def functions(program, offsets):
    """{offset: function}; the offset itself without addr2line."""
    try:
        found = subprocess.run(["addr2line", "-Cfse", program, *map(hex, offsets)], stdout=subprocess.PIPE, text=True).stdout
    except OSError:
        return {offset: hex(offset) for offset in offsets}
    names = [re.sub(r"weft::|\(anonymous namespace\)::", "", name).split("(")[0] for name in found.splitlines()[::2]]
    return dict(zip(offsets, names))


def per_step(program, few, many, steps):
    """Calls and waits per step, from the files of two runs, one with `steps` more: ({name: (calls, bytes)}, {callers: (calls, s)})."""
    runs = [(json.loads(few.read_text()), -1), (json.loads(many.read_text()), 1)]
    names = functions(program, sorted({offset for run, _ in runs for frames, *_ in run["waits"] for offset in frames}))
    calls, waits = collections.defaultdict(lambda: [0, 0]), collections.defaultdict(lambda: [0, 0])

    def add(totals, sign, count, amount):
        totals[0] += sign * count / steps
        totals[1] += sign * amount / steps

    for run, sign in runs:
        for name, (count, amount) in run["calls"].items():
            add(calls[name], sign, count, amount)
        for frames, count, amount in run["waits"]:
            callers = [name for name in (names[offset] for offset in frames) if not any(other in name for other in OTHERS)]
            add(waits[" < ".join(callers[:4]) or "not in weft"], sign, count, amount)
    return calls, waits
