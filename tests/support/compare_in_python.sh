#!/bin/sh
# Compares weft's results with Python packages': runs SAMPLE with a folder that it writes to, then SCRIPT on that folder. The
# Python parts of PyTorch's wheel run on the wheel's libraries that weft itself links. They also link CUDA libraries that no CPU
# call enters; for missing ones, empty libraries with the same names are made.
# usage: compare_in_python.sh PYTHON COMPILER LIBRARIES SAMPLE SCRIPT
#        (PYTHON: with the packages of tools/bootstrap --tests; COMPILER: makes the empty libraries; LIBRARIES: LibTorch's folders,
#        a:b; SAMPLE: a program; SCRIPT: a .py)
set -eu
python=$1
compiler=$2
export LD_LIBRARY_PATH="$3"
sample=$4
script=$5

packages=${PYTHONPATH%%:*}
for package in torch/lib/libtorch_python.so torchvision transformers timm; do
  if ! [ -e "$packages/$package" ]; then
    echo "$packages: no $package; run tools/bootstrap --tests" >&2
    exit 1
  fi
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/samples" "$folder/empty"
"$sample" "$folder/samples"
"$(dirname "$0")/empty_libraries.sh" "$packages/torch/lib/libtorch_python.so" "$compiler" "$folder/empty"
export LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$folder/empty"
# TORCH_USE_RTLD_GLOBAL: functions are resolved at their first call, so missing ones do no harm.
TORCH_USE_RTLD_GLOBAL=1 HF_HUB_OFFLINE=1 "$python" "$script" "$folder/samples"
