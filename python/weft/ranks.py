"""Ranks from Python: weft.spawn starts them, as processes of this host, below weft's launcher."""
import os
import pickle
import sys
import tempfile
from multiprocessing import spawn as processes
from multiprocessing.reduction import ForkingPickler

from weft.errors import CommandError, InputError, RankError


def rank(timeout_s=300.0):
    """This process's rank. The first call meets the other ranks."""
    from weft import _weft

    return _weft.place(timeout_s)[0]


def world_size(timeout_s=300.0):
    """Number of ranks. The first call meets the other ranks."""
    from weft import _weft

    return _weft.place(timeout_s)[1]


def spawn(function, ranks, *arguments):
    """Calls function(*arguments) in `ranks` new processes, which see each other as ranks, and returns what each returned.

    As in multiprocessing, the function must be importable: of a module, or of a script that guards its start by __name__. What one
    rank raises ends the others, and is raised here as a RankError with its traceback.
    """
    from weft.recipes import run_command

    if not isinstance(ranks, int) or ranks < 1:
        raise InputError(f"spawn(): ranks is {ranks!r}; it must be a number of at least 1")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "call"), "wb") as file:
            preparation = processes.get_preparation_data("weft.spawn")
            del preparation["authkey"]  # which is not written to files
            file.write(pickle.dumps(preparation))
            file.write(bytes(ForkingPickler.dumps((function, arguments))))
        try:
            run_command(["run", "-n", str(ranks), "--", sys.executable, "-m", "weft.spawned", folder], None)
        except CommandError as error:
            raise RankError(_failure(folder, ranks) or str(error)) from None
        return [_result(folder, index) for index in range(ranks)]


def _result(folder, index):
    with open(os.path.join(folder, f"result.{index}"), "rb") as file:
        return pickle.load(file)


def _failure(folder, ranks):
    """The traceback of the rank that failed first."""
    paths = [os.path.join(folder, f"failure.{index}") for index in range(ranks)]
    paths = sorted((path for path in paths if os.path.exists(path)), key=lambda path: os.stat(path).st_mtime_ns)
    if not paths:
        return None
    with open(paths[0], encoding="utf-8") as file:
        return file.read()
