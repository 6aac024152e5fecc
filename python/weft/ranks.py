"""Ranks from Python: weft.spawn starts them, as processes of this host, below weft's launcher."""
from __future__ import annotations

import math
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from multiprocessing import spawn as processes
from typing import Any, TypeVar

from weft.errors import CommandError, InputError, RankError, kind, shown


T = TypeVar("T")
_meeting: dict[str, int] = {}  # process and number of ranks, once they have met


def rank(timeout_s: float = 300.0) -> int:
    """This process's rank. The first call meets the other ranks."""
    return _place(timeout_s)[0]


def world_size(timeout_s: float = 300.0) -> int:
    """Number of ranks. The first call meets the other ranks."""
    return _place(timeout_s)[1]


def _place(timeout_s):
    from weft import _weft

    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not 0 < timeout_s < math.inf:
        raise InputError(f"timeout_s is {shown(timeout_s)}; it must be a number of seconds above 0")
    refuse_fork()
    place = _weft.place(float(timeout_s))
    met(place[1])
    return place


def met(size):
    """Notes that this process is one of `size` ranks."""
    _meeting.update(process=os.getpid(), size=size)


def refuse_fork():
    """Refuses a process forked from one of several ranks: it would use that rank's connections."""
    if _meeting.get("size", 1) > 1 and _meeting["process"] != os.getpid():
        raise InputError("this process was forked from a rank, whose connections it has; start another program instead (subprocess, weft.spawn)")


def spawn(function: Callable[..., T], ranks: int, *arguments: Any) -> list[T]:
    """Calls function(*arguments) in `ranks` new processes, which see each other as ranks, and returns what each returned.

    As in multiprocessing, the function must be importable: of a module, or of a script that guards its start by __name__. Arguments and
    results are pickled: tensors and modules are copies. What one rank raises ends the others, and is raised here as a RankError with its
    traceback.
    """
    from weft.recipes import run_command

    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1:
        raise InputError(f"spawn(): ranks is {shown(ranks)}; it must be a number of at least 1")
    if not callable(function):
        raise InputError(f"spawn(): the function is {kind(function)}, which cannot be called")
    try:
        call = pickle.dumps((function, arguments))  # not multiprocessing's way, by which tensors stay in this process's memory
    except Exception as error:
        raise InputError(f"spawn(): the function or an argument cannot be pickled: {error}") from error
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "call"), "wb") as file:
            preparation = processes.get_preparation_data("weft.spawn")
            del preparation["authkey"]  # which is not written to files
            file.write(pickle.dumps(preparation))
            file.write(call)
        try:
            run_command(["run", "-n", str(ranks), "--", sys.executable, "-m", "weft.spawned", folder], None)
        except CommandError as error:
            raise RankError(_failure(folder) or str(error)) from None
        return [_result(folder, index) for index in range(ranks)]


def _result(folder, index):
    with open(os.path.join(folder, f"result.{index}"), "rb") as file:
        return pickle.load(file)


def _failure(folder):
    """The traceback of the rank that failed first."""
    paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("failure.") and not name.endswith(".part")]
    paths.sort(key=lambda path: os.stat(path).st_mtime_ns)
    if not paths:
        return None
    with open(paths[0], encoding="utf-8") as file:
        return file.read()
