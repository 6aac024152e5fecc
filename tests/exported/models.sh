#!/bin/sh
# Trains models of torchvision, timm and transformers in PyTorch and in weft (tests/exported/python/models.py): the table of
# docs/exported.md. By hand: it takes minutes. Needs tools/bootstrap --tests and a build.
# usage: tests/exported/models.sh [NAME...]
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/weft
export OMP_NUM_THREADS=1 PYTHONPATH="$cache/test-packages" PYTHONDONTWRITEBYTECODE=1 WEFT_BUILD="${WEFT_BUILD:-$here/build}" MODELS="$*"
exec "$here/tests/support/compare_in_python.sh" "$(command -v python3.11 || command -v python3)" c++ \
  "$cache/libtorch-2.11.0/torch/lib:$cache/libtorch-2.11.0/nvidia/cu13/lib" true "$here/tests/exported/python/models.py"
