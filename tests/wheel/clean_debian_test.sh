#!/usr/bin/env bash
# The wheel (build/wheels) with the torch of pip's index, in a clean root of this machine's Debian with no more than python3-venv, as a
# user without rights: install, train, import, export; a program for its library. `make test-wheel`, as root; downloads 3 GB, and needs 8 GB
# in /var/tmp, for some minutes. tests/wheel/wheel_test.py tries more, on a torch made of links.
set -euo pipefail
test="wheel test"
. "$(dirname "${BASH_SOURCE[0]}")/../install/clean_root.sh"
wheels=("$source"/build/wheels/weft-*.whl)
[[ ${#wheels[@]} == 1 && -e $wheels ]] || fail "not one wheel in $source/build/wheels: remove all, and run make wheel"
home=$root/home/user site=home/user/venv/lib/python3.11/site-packages

as_user() {
  in_root setpriv --reuid user --regid user --clear-groups env --chdir /home/user HOME=/home/user \
    PATH=/home/user/venv/bin:/usr/bin:/bin OMP_NUM_THREADS=1 "$@"
}
expect() { grep -qE "$1" "$folder/log" || fail "no '$1' in"$'\n'"$(<"$folder/log")"; }

install_packages "python3-venv" python3-venv
in_root useradd --create-home user
mkdir "$folder/wheels"
quietly "download torch and what it needs" env TMPDIR="$folder" /usr/bin/python3 -m pip download --no-cache-dir -d "$folder/wheels" "${wheels[0]}"
mount --bind "$folder/wheels" "$root/mnt"
quietly "make a virtual environment" as_user python3 -m venv venv
quietly "pip install $(basename "${wheels[0]}")" as_user pip install --no-cache-dir --no-index --find-links /mnt weft
SECONDS=0
for line in {1..2000}; do echo "line $line of a text to learn from"; done >"$home/text"
quietly "weft version" as_user weft version
expect '^weft [0-9.]+, LibTorch 2\.11\.'
small=(--set model.layers=1 --set model.width=48 --set run.steps=3 --set optimizer.warmup=0)
quietly "train on 2 ranks" as_user weft train gpt -n 2 --set data.path=text "${small[@]}"
expect '^step +3/3 +loss [0-9]'
echo "$test: $SECONDS s after the installation"
quietly "python -m weft, on the text that only a package of Debian's has" as_user sh -c '! python -m weft train gpt -n 2'
expect 'set data.path to a file or folder \(the default corpus of text: apt-get install fortunes\)$'

cat >"$home/modules.py" <<'PYTHON'
import torch
import weft


def make():
    return torch.nn.Sequential(torch.nn.Embedding(256, 8), torch.nn.Linear(8, 256))


def learn():
    torch.manual_seed(1)
    data = [(ids, ids) for ids in torch.randint(256, (64, 8))]
    trainer = weft.Trainer(make(), batch=16, optimizer={"name": "adamw", "lr": 1e-2}, run={"steps": 20}, layout={"shard": 2})
    return [step.loss for step in trainer.train(data)]


if __name__ == "__main__":
    first, second = weft.spawn(learn, 2)
    assert first == second and first[-1] < first[0] - 0.1, (first, second)
PYTHON
quietly "weft.Trainer on 2 ranks" as_user python modules.py
quietly "python -m weft.export" as_user python -m weft.export modules.py:make --example int64:8 -o net.pt2
{ grep '^model = ' "$folder/log" && printf '%s\n' 'data = { name = "text", path = "text", tokenizer = "bytes" }' 'batch = { global = 8 }' 'run = { steps = 3 }'; } >"$home/net.toml"
quietly "train what it wrote" as_user weft train net.toml -n 2
expect '^step +3/3 +loss [0-9]'

quietly "build a program for weft.cmake_prefix()" env -u LIBTORCH_ROOT -u XDG_CACHE_HOME HOME="$folder" bash -c 'cmake -S "$0" -B "$1" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_PREFIX_PATH="$2" \
  -DSOURCE="$3" && cmake --build "$1"' "$source/tests/wheel/project" "$folder/build" "$root$(as_user python -c 'import weft; print(weft.cmake_prefix())')" "$source/examples/program.cpp"
cp "$folder/build/program" "$home/"
quietly "run it" as_user env LD_LIBRARY_PATH="/$site/weft/lib:/$site/torch/lib" ./program
echo "$test: passed"
