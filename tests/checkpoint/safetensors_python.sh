#!/bin/sh
# Python's safetensors and weft read each other's files.
# usage: safetensors_python.sh PYTHON SAMPLE   (PYTHON: the one tools/bootstrap --tests sets up; SAMPLE: python/sample.cpp)
set -eu
python=$1
sample=$2
here=$(cd "$(dirname "$0")" && pwd)

if ! "$python" -c 'import numpy, safetensors' 2>/dev/null; then
  echo "$python: no Python with numpy and safetensors; run tools/bootstrap --tests" >&2
  exit 1
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" "$here/python/read_sample.py" "$sample" "$folder"
