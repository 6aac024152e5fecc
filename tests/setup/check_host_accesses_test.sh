#!/usr/bin/env bash
# tools/check_host_accesses accepts what is listed and names each difference.
set -euo pipefail
check=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/tools/check_host_accesses
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/tools"
failures=0

# Checks a tree that holds a single file: path, its content, the list, what the script must say ("" = nothing wrong).
case_of() {
  local path=$1 content=$2 list=$3 expected=$4 output status=0
  rm -rf "$folder/weft"
  mkdir -p "$folder/$(dirname "$path")"
  printf '%b\n' "$content" >"$folder/$path"
  printf '%b\n' "$list" >"$folder/tools/host_accesses.txt"
  output=$("$check" "$folder" 2>&1) || status=$?
  if [[ -z $expected && $status == 0 ]]; then return; fi
  if [[ -n $expected && $status == 1 && $output == *"$expected"* ]]; then return; fi
  echo "FAILED: '$content', list '$list' should give '${expected:-no error}', gave status $status: $output"
  failures=$((failures + 1))
}

loss=weft/engine/step_loss.cpp
case_of $loss 'x.item<double>();' "$loss item 1 loss" ""
case_of $loss 'x.item<double>(); y.item<double>();' "# two kinds\n$loss item 1 error\n$loss item 1 loss" ""
case_of $loss '// not x.item<double>()' "" ""
case_of $loss 'std::unique_ptr<int> x; a.add(b);' "" ""
case_of weft/optim/muon.cpp 'x.copy_(y);' "" ""

for place in 'item:x.item();' 'item:x.item<int64_t>();' 'cpu:x.cpu();' 'kCPU:x.to(at::kCPU);' 'to_device:x.to(model_.options().device);' \
  'to_device:x.to(device_);' 'to_device:x.to(y.options());' 'copy:x.copy_(y);' 'pointer:x.data_ptr();' 'pointer:x.const_data_ptr<float>();' \
  'pointer:x.mutable_data_ptr<float>();' 'from_blob:at::from_blob(p, {1});' 'cuda:x.is_cuda();' 'cuda:at::Device(at::kCUDA);' \
  'values:x.nonzero();' 'values:x.masked_select(y);' 'values:x.equal(y);' 'values:at::equal(x, y);' 'elements:x.accessor<double, 2>();' \
  'synchronize:stream.synchronize();' 'synchronize:guard.synchronizeDevice(0);'; do
  case_of $loss "${place#*:}" "" "$loss: 1 of '${place%%:*}', host_accesses.txt has 0: what is new must suit a tensor on a GPU"
done
case_of $loss 'x.cpu(); y.cpu();' "$loss cpu 1 loss" "$loss: 2 of 'cpu', host_accesses.txt has 1: what is new"
case_of $loss 'int x;' "$loss cpu 1 loss" "$loss: 0 of 'cpu', host_accesses.txt has 1: correct the list"
case_of weft/nn/graph.cpp 'int x;' "$loss cpu 1 loss" "$loss: 0 of 'cpu'"
case_of weft/nn/graph.cpp 'x.cpu();' "weft/nn/graph.cpp cpu 1 loss" "weft/nn/graph.cpp may have no place of class 'loss'"
case_of $loss 'x.cpu();' "$loss cpu 1 lost" "there is no class 'lost'"
case_of $loss 'x.cpu();' "$loss gpu 1 loss" "there is no pattern 'gpu'"
case_of $loss 'x.cpu();' "$loss cpu loss" "a line is"
case_of $loss 'x.cpu(); y.cpu();' "$loss cpu 1 loss\n$loss cpu 1 error" "the list is sorted"
exit $((failures > 0))
