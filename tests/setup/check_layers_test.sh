#!/usr/bin/env bash
# tools/check_layers accepts a good tree and names each fault of a bad one.
set -euo pipefail
check=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/tools/check_layers
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

# Checks a tree that holds a single file: path, its content, what check_layers must say ("" = nothing wrong).
case_of() {
  local path=$1 content=$2 expected=$3 output status=0
  rm -rf "$folder/weft"
  mkdir -p "$folder/$(dirname "$path")"
  printf '%b\n' "$content" >"$folder/$path"
  output=$("$check" "$folder" 2>&1) || status=$?
  if [[ -z $expected && $status == 0 ]]; then return; fi
  if [[ -n $expected && $status == 1 && $output == *"$path"*"$expected"* ]]; then return; fi
  echo "FAILED: $path: '$content' should give '${expected:-no error}', gave status $status: $output"
  failures=$((failures + 1))
}

good='#include "weft/base/error.h"'
case_of weft/program/program.h "$good" ""
case_of weft/nn/flat/flat_model.h '#include <ATen/core/Tensor.h>' ""
case_of weft/nn/flat/flat_model.cpp '#include <ATen/ops/zeros.h>' ""
case_of weft/comm/c10d/gloo.cpp '#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>' ""
case_of weft/train/trainer/trainer.cpp '#include "weft/engine/engine.h"' ""
case_of weft/program/passes/bucket.cpp '#include "weft/program/passes/bucket.h"' ""

case_of weft/base/error.h '#include "weft/program/program.h"' "base/ may not include program/"
case_of weft/comm/group.h '#include "weft/nn/param.h"' "comm/ may not include nn/"
case_of weft/data/loader.cpp '#include "weft/comm/world.h"' "data/ may not include comm/"
case_of weft/engine/step_run.cpp '#include "weft/train/trainer/trainer.h"' "engine/ may not include train/"
case_of weft/models/gpt.cpp '#include "weft/engine/engine.h"' "models/ may not include engine/"
case_of weft/launch/launcher.cpp '#include "weft/comm/world.h"' "launch/ may not include comm/"
case_of weft/train/trainer/trainer.cpp '#include "weft/cli/commands/weft_train.h"' "train/ may not include cli/"
case_of weft/program/program.h '  #  include <c10/core/Scalar.h>' "program/ is free of LibTorch"
case_of weft/launch/launcher.cpp '#include <ATen/core/Tensor.h>' "launch/ is free of LibTorch"
case_of weft/report/report.h '#include <ATen/core/Tensor.h>' "report/ is free of LibTorch"
case_of weft/nn/flat/flat_model.cpp '#include <torch/csrc/distributed/c10d/Store.hpp>' "only checked_device/ and comm/ name c10d"
case_of weft/engine/step_run.cpp '#include <gloo/context.h>' "only checked_device/ and comm/ name c10d"
case_of weft/nn/flat/flat_model.h '// one\n#include <ATen/ops/zeros.h>' "at most"
case_of weft/nn/flat/flat_model.cpp '#include <torch/torch.h>' "12 s"
case_of weft/train/trainer/trainer.h '#include "weft/nn/modules/module_block.h"' "heavy header"
case_of weft/program/passes/bucket.cpp '#include "weft/program/passes/prefetch.h"' "never include one another"
case_of weft/program/schedules/gpipe.cpp '#include "weft/program/passes/prefetch.h"' "never include one another"
case_of weft/engine/step_run.cpp 'if (device.is_cuda()) return;' "names a type of device"
case_of weft/train/process/device.cpp '#include <c10/cuda/CUDAFunctions.h>' "names a type of device"
case_of weft/engine/step_run.cpp 'return at::Device(at::kPrivateUse1); // a comment' "names a type of device"
case_of weft/engine/step_run.cpp '// at::kCUDA' ""
case_of weft/comm/mesh.cpp 'if (device.is_cuda()) return;' ""
case_of weft/nn/functional/gelu.cpp 'return x.is_cpu() || x.is_meta();' "the meta device is no CPU"
case_of weft/utils/strings.h '// empty' "utils/ is not a layer"
case_of weft/nn/long.h "$(yes '//' | head -n 151)" "151 lines, 150 at most"
case_of weft/nn/long.cpp "$(yes '//' | head -n 351)" "351 lines, 350 at most"
case_of weft/nn/long.cpp "$(yes '//' | head -n 350)" ""

case_of weft/program/draw/svg.cpp '#include "weft/program/simulate/simulation.h"' ""
case_of weft/program/simulate/simulate.cpp '#include "weft/program/draw/svg.h"' "program/simulate/ may not include program/draw/"
case_of weft/program/program.h '#include "weft/program/build/build.h"' "program/ may not include program/build/"
case_of weft/plan/layout/plan.h '#include "weft/train/trainer/trainer.h"' "plan/ may not include train/"
case_of weft/comm/call/work.h '#include "weft/comm/shm/members.h"' "comm/call/ may not include comm/shm/"
case_of weft/program/paint/svg.h '// empty' "paint/ is not a room of program/"
case_of weft/nn/gadgets/gelu.h '// empty' "gadgets/ is not a room of nn/"
case_of weft/comm/mesh.cpp '#include "weft/comm/shm/shm_backend.h"' ""
case_of weft/base/error.h '#include "../cli/commands.h"' "in full"
case_of weft/nn/flat/flat_model.h '#include "weft/nn/../cli/commands.h"' "in full"
case_of weft/nn/flat/flat_model.h '#include "flat.h"' "in full"
case_of weft/nn/flat/flat_model.hpp '// empty' "sources are .h, .cpp and .cu"
case_of weft/trainer.h '// What trains.\n#pragma once\n\n#include "weft/train/trainer/trainer.h"' ""
case_of weft/trainer.h '#include <vector>' "headers at the top of weft/ only include"
case_of weft/train/save/staging.h '#include "weft/train/trainer/trainer.h"' "train/save/ may not include train/trainer/"

# Pages and examples for users name no inner header, and no page names a missing file.
mkdir -p "$folder/examples" "$folder/docs" && rm -rf "$folder/weft" && mkdir -p "$folder/weft/base" && echo '// empty' >"$folder/weft/base/a.h"
for page in README.md docs/page.md examples/use.cpp; do
  echo 'see weft/base/error.h' >"$folder/$page"
  output=$("$check" "$folder" 2>&1) && status=0 || status=$?
  [[ $status == 1 && $output == *"$page:1: names weft/base/error.h"* ]] || {
    echo "FAILED: $page that names an inner header gave status $status: $output"
    failures=$((failures + 1))
  }
  rm "$folder/$page"
done
echo 'see weft/base/b.h and tests/NAME_test.cpp' >"$folder/CONTRIBUTING.md"
output=$("$check" "$folder" 2>&1) && status=0 || status=$?
[[ $status == 1 && $output == "CONTRIBUTING.md:1: names weft/base/b.h, which does not exist" ]] || {
  echo "FAILED: a page that names a missing file gave status $status: $output"
  failures=$((failures + 1))
}
rm "$folder/CONTRIBUTING.md"

rm -rf "$folder/weft" && mkdir "$folder/weft"
output=$("$check" "$folder" 2>&1) && status=0 || status=$?
[[ $status == 1 && $output == "weft/: holds no sources" ]] || {
  echo "FAILED: an empty tree gave status $status: $output"
  failures=$((failures + 1))
}

# Trees of several files, "PATH INCLUDED" each, in which a cycle must be reported.
ring_of() {
  local expected=$1 output status=0
  shift
  rm -rf "$folder/weft"
  for pair in "$@"; do
    mkdir -p "$folder/$(dirname "${pair% *}")"
    printf '#include "%s"\n' "${pair#* }" >>"$folder/${pair% *}"
  done
  output=$("$check" "$folder" 2>&1) || status=$?
  if [[ $status == 1 && $output == *"$expected"* ]]; then return; fi
  echo "FAILED: $* should give '$expected', gave status $status: $output"
  failures=$((failures + 1))
}
ring_of "a cycle of files that include one another: weft/nn/a, weft/nn/b" \
  "weft/nn/a.cpp weft/nn/b.h" "weft/nn/b.h weft/nn/a.h"
ring_of "a cycle of files that include one another: weft/nn/a, weft/nn/b, weft/nn/c" \
  "weft/nn/a.h weft/nn/b.h" "weft/nn/b.cpp weft/nn/c.h" "weft/nn/c.h weft/nn/a.h"
ring_of "a cycle of folders that include one another: weft/comm/call, weft/comm/reduce" \
  "weft/comm/call/a.h weft/comm/reduce/b.h" "weft/comm/reduce/c.h weft/comm/call/d.h"

[[ $failures == 0 ]]
