#!/bin/sh
# weft's llama against transformers' in PyTorch. The Python parts of PyTorch's wheel run on the libraries of it that weft itself links;
# of the CUDA libraries that these ask for, and no call on a CPU enters, empty ones with the same names are made where there are none.
# usage: llama_transformers.sh PYTHON COMPILER LIBRARIES SAMPLE   (PYTHON: with what tools/bootstrap --tests unpacks; COMPILER: makes
#        the empty libraries; LIBRARIES: folders of LibTorch's, a:b; SAMPLE: python/llama_sample.cpp)
set -eu
python=$1
compiler=$2
export LD_LIBRARY_PATH="$3"
sample=$4
here=$(cd "$(dirname "$0")" && pwd)

packages=${PYTHONPATH%%:*}
if ! [ -e "$packages/torch/lib/libtorch_python.so" ] || ! [ -e "$packages/transformers" ]; then
  echo "$packages: no torch and transformers; run tools/bootstrap --tests" >&2
  exit 1
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/samples" "$folder/empty"
"$sample" "$folder/samples"
for library in $(ldd "$packages/torch/lib/libtorch_python.so" | sed -n 's/^[[:space:]]*\(lib[^ ]*\) => not found.*/\1/p' | sort -u); do
  "$compiler" -shared -x c /dev/null -Wl,-soname,"$library" -o "$folder/empty/$library"
done
export LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$folder/empty"
# TORCH_USE_RTLD_GLOBAL: functions are looked up at their first call, so those that are not there may be missing.
TORCH_USE_RTLD_GLOBAL=1 HF_HUB_OFFLINE=1 "$python" "$here/python/compare_llama.py" "$folder/samples"
