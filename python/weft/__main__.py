"""python -m weft ARGUMENTS: replaces this process by the command, on the libraries of the installed torch (and pyarrow)."""
import os
import sys

from weft.errors import Error
from weft.installed import command


def main():
    try:
        program, paths = command()
        if paths:
            os.environ["LD_LIBRARY_PATH"] = paths
        os.execv(program, [program, *sys.argv[1:]])
    except Error as error:
        sys.exit(f"weft: {error}")
    except OSError as error:
        sys.exit(f"weft: cannot run {program}: {error.strerror}; install weft again")


if __name__ == "__main__":
    main()
