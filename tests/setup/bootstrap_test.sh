#!/usr/bin/env bash
# tools/bootstrap on machines that lack something, simulated by commands of the same name on the test's own PATH: no network, no
# packages, and wheels of a few bytes.
set -euo pipefail
bootstrap=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/tools/bootstrap
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$(command -v python3)
failures=0

# --- a machine: commands, wheels, state ----------------------------------------------------------------------------------

mkdir -p "$folder/tools" "$folder/served"
for tool in bash cat cut dirname env flock grep id mkdir mv readlink rm sha256sum tail touch tr uname unzip; do
  ln -s "$(command -v "$tool")" "$folder/tools/$tool"
done

"$python" - "$folder/served" <<'PYTHON'
import pathlib, sys, zipfile
def wheel(name, files):
    with zipfile.ZipFile(pathlib.Path(sys.argv[1]) / name, "w") as archive:
        for path in files:
            archive.writestr(path, "content of " + path)
wheel("torch-1.whl", ["torch/include/ATen/core/Tensor.h", "torch/lib/libtorch_cpu.so", "torch/lib/libtorch_python.so", "torch/x.py",
                      "torch-1.dist-info/licenses/LICENSE"])
wheel("cudart-1.whl", ["nvidia/lib/libcudart.so", "nvidia/lib/other.so"])
PYTHON
sha() { sha256sum "$folder/served/$1" | cut -d' ' -f1; }
cat >"$folder/pins" <<PINS
# set name version file sha256 paths
cpu torch 1 torch-1.whl $(sha torch-1.whl) torch/include torch/lib -torch/lib/libtorch_python.so torch-1.dist-info/licenses
cpu cudart 1 cudart-1.whl $(sha cudart-1.whl) nvidia/lib/libcudart.so
cuda absent 1 absent.whl 0 lib
tests cudart 1 cudart-1.whl $(sha cudart-1.whl) nvidia
tests torch 1 torch-1.whl $(sha torch-1.whl) torch -torch/include -torch/lib/libtorch_[!p]*
lint cudart 1 cudart-1.whl $(sha cudart-1.whl) nvidia
PINS

# machine_command NAME: its body from standard input. Replaces the link in bin/: writing through a link would change this machine's
# own command (noclobber prevents that, should the rm ever be lost).
set -o noclobber
machine_command() {
  rm -f "$folder/bin/$1"
  { echo '#!/bin/bash' && cat; } >"$folder/bin/$1"
  chmod +x "$folder/bin/$1"
}

new_machine() {
  rm -rf "$folder/bin" "$folder/cache" "$folder/calls" "$folder/installed"
  cp -r "$folder/tools" "$folder/bin"
  touch "$folder/calls" "$folder/installed"
  machine_command dpkg-query <<BODY
shift 3
for package; do [[ -e $folder/installed/all || ! \$package =~ ^(mold|clang-16)$ ]] && echo "installed \$package"; done
exit 0
BODY
  rm "$folder/installed" && mkdir "$folder/installed"
  touch "$folder/installed/all"
  machine_command dpkg <<<"exit 0"
  machine_command apt-get <<BODY
echo "apt-get \$*" >>$folder/calls
[[ \$* != *install* ]] || touch $folder/installed/all
BODY
  machine_command id <<<"echo 0"
  # pip: python3 -m pip download ... --dest DIR NAME==VERSION, or install ... --target DIR -r FILE
  machine_command python3 <<BODY
[[ \$3 != --version ]] || exit 0
echo "pip \$*" >>$folder/calls
if [[ \$3 == install ]]; then
  while [[ \$1 != --target ]]; do shift; done
  mkdir -p "\$2" && exit
fi
wheel=\${*: -1}
while [[ \$1 != --dest ]]; do shift; done
cat $folder/served/\${wheel/==/-}.whl >"\$2/\${wheel/==/-}.whl"
BODY
}

# expect NAME STATUS TEXT: runs bootstrap with the remaining arguments. TEXT "" means no output at all; a failure must be one line.
expect() {
  local name=$1 status=$2 text=$3 got=0
  shift 3
  output=$(env -i PATH="$folder/bin" HOME="$folder" XDG_CACHE_HOME="$folder/cache" "${environment[@]}" \
    "$folder/bin/bash" "$bootstrap" --pins "$folder/pins" "$@" 2>&1 </dev/null) || got=$?
  local ok=yes
  [[ $got == "$status" ]] || ok="status $got instead of $status"
  [[ -n $text || -z $output ]] || ok="should have been silent"
  [[ $output == *"$text"* ]] || ok="does not say '$text'"
  [[ $status == 0 || $(grep -vcE '^set-up: (installing|downloading|unpacking|waiting)' <<<"$output") == 1 ]] || ok="not one line"
  [[ $ok == yes ]] || complain "$name: $ok: $output"
}
complain() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}
present() { [[ -e $folder/cache/weft/libtorch-2.11.0/$1 ]]; }
environment=()

# --- the list for administrators, where there is no apt -----------------------------------------------------------------------

new_machine
rm "$folder/bin/dpkg-query" "$folder/bin/dpkg" "$folder/bin/apt-get"
expect "list" 0 $'libyaml-cpp-dev\nninja-build\n' --list
[[ $output != *" "* && ! -e $folder/cache/weft ]] || complain "list: prints more than names, or did something"
expect "longer list" 0 $'\nclang-16\n' --clang --list
expect "missing, without dpkg" 1 "set-up: this is not Debian: install the counterparts of 'cmake g++ " --missing
new_machine
rm "$folder/installed/all"
expect "nothing missing, as a build does not need mold" 0 "" --missing
machine_command dpkg-query <<<"exit 1"
expect "missing" 0 $'cmake\ng++\n' --missing

# --- a machine with everything ---------------------------------------------------------------------------------------------

new_machine
expect "fresh cache" 0 "unpacking torch 1"
present torch/include/ATen/core/Tensor.h && present torch/lib/libtorch_cpu.so && present nvidia/lib/libcudart.so ||
  complain "fresh cache: LibTorch was not unpacked"
present torch/lib/libtorch_python.so || present torch/x.py || present nvidia/lib/other.so && complain "unpacked too much"
[[ -z $(ls "$folder/cache/weft/wheels") && ! -e $folder/cache/weft/set-up ]] || complain "left downloads or scratch files behind"
expect "for the tests" 0 "unpacking cudart 1" --tests
tests_have() { [[ -e $folder/cache/weft/test-packages/$1 ]]; }
tests_have nvidia/lib/other.so && tests_have torch/lib/libtorch_python.so && tests_have torch/x.py || complain "for the tests: not unpacked"
tests_have torch/include || tests_have torch/lib/libtorch_cpu.so && complain "for the tests: unpacked too much"
expect "for the cluster" 0 "Kubernetes schemas" --cluster
expect "second run for the cluster" 0 "" --cluster
expect "for lint" 0 "unpacking cudart 1" --lint
[[ -e $folder/cache/weft/lint-packages/nvidia/lib/other.so ]] || complain "for lint: not unpacked"
rm "$folder/bin/python3" "$folder/bin/apt-get"
expect "second run" 0 ""
expect "second run for the tests" 0 "" --tests

new_machine
expect "all at once" 0 "unpacking cudart 1" --tests
[[ $(grep -c 'pip .*torch==1' "$folder/calls") == 1 ]] || complain "all at once: a wheel was downloaded once per part"

# --- packages ------------------------------------------------------------------------------------------------------------

new_machine
rm "$folder/installed/all"
expect "missing package" 0 "installing Debian packages: mold"
grep -q 'apt-get .*install .*mold' "$folder/calls" || complain "apt-get was not asked for mold"
grep -q clang-16 "$folder/calls" && complain "clang was installed unasked"
rm "$folder/installed/all"
expect "for the sanitizers" 0 "installing Debian packages: mold clang-16" --clang

new_machine
rm "$folder/installed/all"
machine_command id <<<"echo 1000"
expect "no root, no sudo" 1 "not installed: mold; no root and no sudo here, ask an administrator to run: apt-get install mold"
machine_command sudo <<<"exit 1"
expect "sudo refuses" 1 "sudo refuses, ask an administrator to run: apt-get install mold"
machine_command sudo <<<'[[ $1 == -n ]] && exit 0; "$@"'
expect "sudo" 0 "installing Debian packages: mold"

new_machine
rm "$folder/installed/all"
machine_command apt-get <<<'echo "E: Failed to fetch mold: Temporary failure resolving" >&2; exit 100'
expect "apt-get without network" 1 "could not install mold (E: Failed to fetch mold: Temporary failure resolving); check the network"
machine_command apt-get <<<'exit 0'
expect "apt-get that installs nothing" 1 "still not installed: mold"

new_machine
rm "$folder/bin/dpkg-query"
expect "not Debian" 1 "this is not Debian"
expect "not Debian, packages by hand" 0 "unpacking torch" --no-packages

# --- LibTorch ------------------------------------------------------------------------------------------------------------

new_machine
cp "$folder/bin/python3" "$folder/good_pip"
machine_command python3 <<<'[[ $3 == --version ]] || { echo "ERROR: No matching distribution found for torch==1" >&2; exit 1; }'
expect "pip without network" 1 "could not download torch 1 (ERROR: No matching distribution found for torch==1): check the network"
mkdir -p "$folder/cache/weft/wheels" && cp "$folder"/served/*.whl "$folder/cache/weft/wheels"
expect "wheels put there by hand" 0 "unpacking torch 1"

new_machine
machine_command python3 <<BODY
[[ \$3 != --version ]] || exit 0
while [[ \$1 != --dest ]]; do shift; done
echo other >"\$2/torch-1.whl"
BODY
expect "wrong hash" 1 "does not have its pinned sha256 ($(sha torch-1.whl))"
present torch && complain "wrong hash: unpacked all the same"
cp "$folder/good_pip" "$folder/bin/python3"
expect "right hash afterwards" 0 "unpacking torch 1"

new_machine
machine_command python3 <<<'exit 1'
expect "no pip" 1 "python3 has no pip: install one, or put torch-1.whl into" --no-packages

# A cache older than the pinned licenses.
new_machine
expect "licenses" 0 "unpacking torch 1"
rm -r "$folder/cache/weft/libtorch-2.11.0/torch-1.dist-info"
touch "$folder/cache/weft/libtorch-2.11.0/torch/lib/mine"
expect "licenses that nobody needs" 0 ""
expect "licenses for packaging" 0 "unpacking torch 1" --packaging
present torch-1.dist-info/licenses/LICENSE && present torch/lib/mine || complain "licenses for packaging: unpacked more or less"
expect "second run for packaging" 0 "" --packaging

# A cache older than a pinned part of a wheel.
rm -r "$folder/cache/weft/libtorch-2.11.0/torch/include"
expect "a part that is new" 0 "unpacking torch 1"
present torch/include/ATen/core/Tensor.h && present torch/lib/mine || complain "a part that is new: unpacked more or less"

new_machine
machine_command unzip <<<'echo "write error (disk full?)" >&2; exit 50'
expect "disk full" 1 "could not unpack torch-1.whl (write error (disk full?))"
present torch && complain "disk full: a partial LibTorch is left"

new_machine
touch "$folder/cache"
expect "cache cannot be written" 1 "cannot write $folder/cache/weft: set XDG_CACHE_HOME"

new_machine
machine_command uname <<<"echo aarch64"
expect "other processor" 1 "is for x86_64, this is aarch64: set LIBTORCH_ROOT"

new_machine
environment=(LIBTORCH_ROOT="$folder/own")
expect "own LibTorch, wrong folder" 1 "LIBTORCH_ROOT=$folder/own holds no"
mkdir -p "$folder/own/include/ATen/core" "$folder/own/lib" && touch "$folder/own/include/ATen/core/Tensor.h" "$folder/own/lib/libtorch_cpu.so"
expect "own LibTorch" 0 ""
environment=(CUDA_HOME="$folder/no_cuda")
expect "no CUDA toolkit" 1 "no CUDA toolkit at $folder/no_cuda: install" --cuda
environment=()

# --- killed at each step, then rerun -------------------------------------------------------------------------------------------

for victim in python3 unzip mv sha256sum; do
  new_machine
  cp -P "$folder/bin/$victim" "$folder/real"
  rm -f "$folder/pid"
  # Kills bootstrap during its first call of the victim; that call's output is garbage.
  machine_command "$victim" <<BODY
[[ \$3 != --version ]] || exit 0
mkdir -p $folder/cache/weft/wheels $folder/cache/weft/set-up/unpacked/torch
echo half >$folder/cache/weft/wheels/torch-1.whl
echo half >$folder/cache/weft/set-up/unpacked/torch/include
until [[ -s $folder/pid ]]; do :; done
kill -9 \$(cat $folder/pid)
BODY
  env -i PATH="$folder/bin" HOME="$folder" XDG_CACHE_HOME="$folder/cache" "$folder/bin/bash" "$bootstrap" --pins "$folder/pins" \
    >"$folder/output" 2>&1 </dev/null &
  echo $! >"$folder/pid"
  wait $! 2>/dev/null && complain "killed in $victim: was not killed"
  rm "$folder/bin/$victim" "$folder/output"
  cp -P "$folder/real" "$folder/bin/$victim"
  rm "$folder/real"
  expect "after a kill in $victim" 0 "unpacking torch 1"
  [[ $(cat "$folder/cache/weft/libtorch-2.11.0/torch/include/ATen/core/Tensor.h") == "content of"* ]] || complain "kill in $victim: garbage"
done

[[ $failures == 0 ]]
