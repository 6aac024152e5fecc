"""Parts that measure and judge no figure: rates beside PyTorch's, memory and time beside forecasts, calls of the CUDA runtime."""
import json
import os
import pathlib
import sys

from counts import per_step
from place import LARGE, SMALL, attempt, settings_of
from run import CommandFailed, NotRun

GPU = pathlib.Path(__file__).resolve().parent
# GPT, tied or not, data type, and ways in which PyTorch trains the same.
RATES = [
    ("124 M, bf16", True, "bf16", {"eager": [], "compiled": ["--compile"], "DDP, one rank": ["--ddp"]}),
    ("163 M, bf16", False, "bf16", {"eager": []}),
    ("163 M, fp32", False, "fp32", {"eager": []}),
]


def large(place, tied, dtype):
    sizes, batch = (SMALL, 8) if place.dry else (LARGE, 16)
    return settings_of(sizes, **{"model.tied_embeddings": str(tied).lower(), "batch.global": batch, "layout.precision": dtype})


def rates(run, place):
    """Steps of a GPT, as weft and PyTorch train it, one after the other."""
    sizes, batch = (SMALL, 8) if place.dry else (LARGE, 16)
    steps = 8 if place.dry else 25
    words = [word for key, value in (sizes | {"batch": batch, "steps": steps}).items() for word in (f"--{key}", value)]
    for name, tied, dtype, ways in [("small, bf16", *RATES[0][1:])] if place.dry else RATES:
        ms = None

        def weft():
            nonlocal ms
            found = place.train(run, "rates", "gpt", large(place, tied, dtype), steps=steps)
            ms = found["step_ms"]["p50"]
            run.row(f"{name}: weft", True, f"step {ms:.1f} ms, {found['tokens_per_s'] / 1e3:.1f} k tokens/s",
                    **{key: found[key] for key in ("parameters", "step_ms", "tokens_per_s", "first_step_s", "peak_device_mb")})

        attempt(run, f"{name}: weft", weft)

        def captured():
            place.needs_gpu()
            found = place.train(run, "captured", "gpt", [*large(place, tied, dtype), "run.graph=true"], steps=steps)
            step_ms = found["step_ms"]["p50"]
            run.row(f"{name}: weft, captured", True, f"step {step_ms:.1f} ms, {found['tokens_per_s'] / 1e3:.1f} k tokens/s, "
                    f"{ms / step_ms if ms else 0:.2f} times as fast", **{key: found[key] for key in ("step_ms", "tokens_per_s", "peak_device_mb")})

        attempt(run, f"{name}: weft, captured", captured)
        for way, options in ways.items():
            def peer():
                if "PyTorch" not in run.about["machine"]:
                    raise NotRun(f"{sys.executable} has no PyTorch")
                if "--ddp" not in options:  # a dry run tries the script once
                    place.needs_gpu()
                command = [sys.executable, GPU / "torch_gpt.py", place.text, "--device", place.device, "--dtype", dtype, *words, *options]
                found = json.loads(run.command([*command, *(["--tied"] if tied else [])], os.environ).splitlines()[-1])
                times = f", weft's {found['step_ms'] / ms:.2f} times as fast" if ms else ""
                run.row(f"{name}: PyTorch, {way}", True, f"step {found['step_ms']:.1f} ms, {found['tokens_per_s'] / 1e3:.1f} k "
                        f"tokens/s{times}", **found)

            attempt(run, f"{name}: PyTorch, {way}", peer)


def forecast(run, place):
    """What a run takes, beside what `weft memory` and, with times of `weft profile`, `weft simulate` say before it. A CPU's allocator
    does not tell what a run took."""
    rows = (("gpt, bf16", "gpt", large(place, True, "bf16")),
            ("the same, recompute blocks", "gpt", [*large(place, True, "bf16"), "layout.recompute=blocks"]), ("llama", "llama", []))
    for name, recipe, settings in rows[:1] if place.dry else rows:
        def one():
            found = place.train(run, "forecast", recipe, settings, steps=8)
            hardware, words = place.work / "hardware.toml", place.recipe(recipe, [*settings, f"run.device={place.device}"])

            def weft(command, *options):
                return run.command([place.program("weft"), command, *words, *options], place.environment)

            memory = json.loads(weft("memory", "--json"))
            weft("profile", "-o", hardware)
            step_ms = json.loads(weft("simulate", "--hardware", hardware, "--json"))["step_s"] * 1e3
            ms, planned = found["step_ms"]["p50"], (memory["reserved"] or memory["sum"]) / 2**20
            taken = max(found["peak_device_mb"], default=None)
            text = f"memory {taken:.0f} MiB, {taken / planned:.2f} of" if taken else "memory was not measured;"
            run.row(name, True, f"{text} the forecast {planned:.0f} MiB; step {ms:.1f} ms, {ms / step_ms:.2f} of the forecast "
                    f"{step_ms:.1f} ms", memory=memory, mib={"forecast": planned, "measured": taken},
                    step_ms={"forecast": step_ms, "measured": ms})

        attempt(run, name, one)


def counted(run, place, settings):
    """Calls and waits per step of a GPT with these settings."""
    files = [place.work / f"counts_{steps}.json" for steps in (4, 8)]
    for steps, file in zip((4, 8), files):
        place.train(run, "counts", "gpt", settings, steps=steps, environment={"LD_PRELOAD": str(place.program("libcount_calls.so")),
                                                                              "WEFT_COUNT_FILE": str(file)})
    return per_step(place.program("weft"), *files, 4)


def host_launch(run, place):
    """device.host_launch_s of a hardware file: a step whose kernels are too short to matter, divided by its launches."""
    settings = ["batch.global=1"]
    launches = counted(run, place, settings)[0]["launch"][0]
    seconds = place.train(run, "launches", "gpt", settings, steps=50)["step_ms"]["p50"] / 1e3 / launches
    run.row("host's time per launch", True, f"{seconds * 1e6:.1f} us, of {launches:.0f} per step (host_launch_s)", host_launch_s=seconds)


def counts(run, place):
    """Launches, synchronisations and copies per step, and the functions that wait; the time that a launch takes the host."""
    place.needs_gpu()
    attempt(run, "host's time per launch", lambda: host_launch(run, place))
    for name, settings in (("gpt", []), ("gpt, bf16", ["layout.precision=bf16"]), ("gpt of the rates", large(place, True, "bf16"))):
        def one():
            calls, waits = counted(run, place, settings)
            text = ", ".join(f"{count:.0f} {key}" + (f" ({amount / 1e6:.2f} MB)" if amount else "")
                             for key, (count, amount) in sorted(calls.items()) if count)
            run.row(name, True, f"per step: {text or 'no calls'}", calls=calls, waits=waits)
            for key, (count, seconds) in sorted(waits.items(), key=lambda entry: entry[1], reverse=True)[:10]:
                if count > 0:
                    run.say(f"       {count:6.0f} waits, {seconds * 1e3:6.2f} ms: {key}")

        attempt(run, name, one)
