#!/bin/sh
# Makes an empty library in FOLDER for each one that LIBRARY needs and the loader does not find.
# usage: empty_libraries.sh LIBRARY COMPILER FOLDER    (LD_LIBRARY_PATH: where the loader looks)
set -eu
for library in $(ldd "$1" | sed -n 's/^[[:space:]]*\(lib[^ ]*\) => not found.*/\1/p' | sort -u); do
  "$2" -shared -x c /dev/null -Wl,-soname,"$library" -o "$3/$library"
done
