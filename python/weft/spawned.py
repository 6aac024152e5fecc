"""What weft.spawn starts on each rank: python -m weft.spawned FOLDER"""
import os
import pickle
import sys
import traceback
from multiprocessing import spawn as processes


def write(path, data):
    """The whole file, or none."""
    with open(f"{path}.part", "wb") as file:
        file.write(data)
    os.replace(f"{path}.part", path)


def main():
    folder, rank = sys.argv[1], os.environ.get("RANK", "0")
    try:
        with open(os.path.join(folder, "call"), "rb") as file:
            processes.prepare(pickle.load(file))  # where a function of __main__ is found
            function, arguments = pickle.load(file)
        write(os.path.join(folder, f"result.{rank}"), pickle.dumps(function(*arguments)))
    except BaseException:
        text = traceback.format_exc()
        write(os.path.join(folder, f"failure.{rank}"), f"rank {rank}: {text}".encode())
        sys.stderr.write(text)
        sys.exit(1)


if __name__ == "__main__":
    main()
