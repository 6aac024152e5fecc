"""Recipes from Python: the command's train, evaluate, memory, simulate, plan and verify as functions of plain data."""
from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import tomllib
from typing import Any

from weft import cmake_prefix
from weft.errors import CommandError, InputError, is_text, shown
from weft.installed import command
from weft.toml import toml_of


_FILE = "recipe.toml"
Recipe = str | os.PathLike[str] | dict[str, Any]


def load_recipe(recipe: str | os.PathLike[str]) -> dict[str, Any]:
    """The sections of a recipe, {section: {key: value}}: of a TOML file, or of one that comes with weft, by name ("gpt")."""
    path = _text_path(recipe)
    if not os.path.exists(path):
        shipped = os.path.join(cmake_prefix(), "share", "weft", "recipes", f"{path}.toml")
        if not os.path.exists(shipped):
            raise InputError(f"recipe: there is no file '{path}', nor a recipe of that name with weft")
        path = shipped
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}") from error


def train(recipe: Recipe, ranks: int = 1, *, quiet: bool = False, **options: Any) -> dict[str, Any]:
    """Trains a recipe (a dict, a file, or the name of one that comes with weft) on ranks of this host; returns the run's results.

    options: those of `weft train --help` without their dashes, such as set=["optimizer.lr=0.1"] or save="weights.safetensors". The
    command prints to this process's standard output, unless quiet.
    """
    with tempfile.TemporaryDirectory() as folder:
        summary = os.path.join(folder, "summary.json")
        _run("train", recipe, ranks, {**options, "summary": summary}, folder, None if not quiet else subprocess.DEVNULL)
        with open(summary, encoding="utf-8") as file:
            return json.loads(_without_place(file.read(), folder))


def evaluate(recipe: Recipe, ranks: int = 1, **options: Any) -> dict[str, Any]:
    """Evaluates saved weights, as `weft evaluate`: recipe may also be a checkpoint's folder."""
    return _answer("evaluate", recipe, ranks, options)


def memory(recipe: Recipe, ranks: int = 1, **options: Any) -> dict[str, Any]:
    """What each rank needs, by category, in bytes, and whether it fits: `weft memory --json`."""
    return _answer("memory", recipe, ranks, options)


def simulate(recipe: Recipe, ranks: int = 1, **options: Any) -> dict[str, Any]:
    """The time of a step on given hardware: `weft simulate --json`."""
    return _answer("simulate", recipe, ranks, options)


def plan(recipe: Recipe, ranks: int = 1, **options: Any) -> dict[str, Any]:
    """The fastest layouts that fit: `weft plan --json`."""
    return _answer("plan", recipe, ranks, options)


def verify(recipe: Recipe, ranks: int = 1, **options: Any) -> dict[str, Any]:
    """Whether the recipe's layout trains as one rank does: `weft verify --json`."""
    return _answer("verify", recipe, ranks, options)


def _answer(name, recipe, ranks, options):
    options = {key: value for key, value in options.items() if key != "quiet"}  # only train() prints
    with tempfile.TemporaryDirectory() as folder:
        return json.loads(_without_place(_run(name, recipe, ranks, {**options, "json": True}, folder, subprocess.PIPE), folder))


def _without_place(text, folder):
    """Names the file of a dict "the recipe"."""
    return re.sub(re.escape(os.path.join(folder, _FILE)) + r"(:\d+:\d+)?", "the recipe", text)


def _run(name, recipe, ranks, options, folder, output):
    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1:
        raise InputError(f"{name}(): ranks is {shown(ranks)}; it must be a number of at least 1")
    arguments = [name, _file_of(recipe, folder), "-n", str(ranks)]
    for key, value in options.items():
        for part in value if isinstance(value, (list, tuple)) else [value]:
            if not isinstance(part, (str, int, float, os.PathLike, type(None))) or not is_text(str(part)):
                raise InputError(f"{name}(): {key} is {shown(part)}; options are texts, numbers, True or False, and lists of them")
            arguments += [f"--{key.replace('_', '-')}"] if part is True else [f"--{key.replace('_', '-')}", str(part)] if part not in (None, False) else []
    try:
        return run_command(arguments, output)
    except CommandError as error:
        raise CommandError(_without_place(str(error), folder), error.status) from None


def _file_of(recipe, folder):
    if not isinstance(recipe, dict):
        return _text_path(recipe)
    path = os.path.join(folder, _FILE)
    with open(path, "w", encoding="utf-8") as file:
        file.write(toml_of(recipe))
    return path


def _text_path(recipe):
    if not isinstance(recipe, (str, os.PathLike)) or not is_text(os.fspath(recipe)):
        raise InputError(f"recipe is {shown(recipe)}; it must be a dict of sections, a file, or the name of a recipe that comes with weft")
    return os.fspath(recipe)


def run_command(arguments, output):
    """What the command prints, if `output` is a pipe. Raises CommandError with its last line if it fails."""
    program, paths = command()
    environment = {**os.environ, **({"LD_LIBRARY_PATH": paths} if paths else {})}
    with subprocess.Popen([program, *arguments], stdout=output, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            printed, errors = process.communicate()
        except BaseException:  # Ctrl-C: the command ends its ranks, and may save
            process.send_signal(signal.SIGTERM)
            process.wait()
            raise
    lines = errors.strip().splitlines()
    if process.returncode:
        raise CommandError(lines[-1] if lines else f"weft {arguments[0]} failed with status {process.returncode}", process.returncode)
    if errors and output is None:
        sys.stderr.write(errors)
    return printed
