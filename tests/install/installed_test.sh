#!/usr/bin/env bash
# tests/install/installed_test.sh BUILD CMAKE_OPTION...: an installation as users get it. The result of `cmake --install BUILD` is
# moved to a world-readable folder; from there, with weft's cache folder hidden and (when started by root) as `nobody`, the command
# trains on 2 ranks, and programs built with find_package(weft) and in C run.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "${1:?usage: installed_test.sh BUILD CMAKE_OPTION...}" && pwd)
shift
cache=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/weft
prefix=$build/tests/install/prefix # moved back at the end, so that the next installation copies what has changed
moved=/var/tmp/weft-install-test-$(id -u)

fail() {
  echo "installed weft: $*" >&2
  exit 1
}

# quietly WHAT COMMAND...: prints the output only on failure; kept in $moved/log.
quietly() {
  "${@:2}" >"$moved/log" 2>&1 </dev/null || fail "could not: $1"$'\n'"$(tail -n 30 "$moved/log")"
}

exec 9>"$moved.lock" # always the same folder, for the compiler cache: so tests run one after another
flock 9
clean_up() {
  [[ ! -e $moved/weft ]] || mv "$moved/weft" "$prefix"
  rm -rf "$moved"
}
trap clean_up EXIT
trap 'exit 130' INT TERM
rm -rf "$moved"
umask 022
mkdir -p "$moved/home"
chmod 755 "$moved"
quietly "install" cmake --install "$build" --prefix "$prefix"
mv "$prefix" "$moved/weft"

# --- what a user builds: as this user, for the compiler cache; with nothing else of weft's visible ---------------------------

ln -s "$moved/weft/lib/weft" "$moved/own"
options=("$@")
configure() { # PROJECT BUILD CMAKE_OPTION...
  env -u LIBTORCH_ROOT -u ARROW_ROOT -u XDG_CACHE_HOME HOME="$moved/home" \
    cmake -S "$1" -B "$2" -DCMAKE_PREFIX_PATH="$moved/weft" "${options[@]}" "${@:3}"
}
quietly "configure with LIBTORCH_ROOT" configure "$source/find_package" "$moved/build" -DLIBTORCH_ROOT="$moved/own"
grep -rqF "$moved/own/lib/libtorch_cpu.so" "$moved/build" || fail "find_package(weft) ignores LIBTORCH_ROOT"
if configure "$source/find_package" "$moved/build" -Dmore_components=gpu >"$moved/log" 2>&1; then
  fail "find_package(weft) finds a component that does not exist"
fi
tr -s '[:space:]' ' ' <"$moved/log" | grep -qF "weft has no component gpu; its components are base, program," ||
  fail "find_package(weft) does not name the missing component:"$'\n'"$(<"$moved/log")"
quietly "configure with find_package(weft)" configure "$source/find_package" "$moved/build" -ULIBTORCH_ROOT -Umore_components
quietly "build with it" cmake --build "$moved/build"
quietly "configure the project of docs/library.md" configure "$source/../../examples/unet" "$moved/unet"
quietly "build it" cmake --build "$moved/unet"
quietly "build the C program of docs/c.md" cc -std=c99 -Wall -Wextra -Wpedantic -Werror "$source/../../examples/train_in_c.c" \
  -o "$moved/train_in_c" -I"$moved/weft/include" -L"$moved/weft/lib" -lweft_c -Wl,-rpath,"$moved/weft/lib"
quietly "configure the project of docs/checked_device.md" configure "$source/../../examples/missing_wait" "$moved/missing_wait"
quietly "build it" cmake --build "$moved/missing_wait"

# --- as another user ---------------------------------------------------------------------------------------------------------

as_nobody=()
[[ $(id -u) != 0 ]] || as_nobody=(setpriv --reuid nobody --regid nogroup --clear-groups)
hidden=()
! unshare --mount true 2>/dev/null || hidden=(unshare --mount)
elsewhere() { # COMMAND...
  env -i PATH=/usr/bin:/bin HOME="$moved/home" LANG=C.UTF-8 OMP_NUM_THREADS=1 "${hidden[@]}" bash -c '
    [[ -z $2 || ! -e $1 ]] || mount -t tmpfs none "$1" || exit
    cd "$3" && exec "${@:4}"' - "$cache" "${hidden[*]}" "$moved/home" "${as_nobody[@]}" "$@"
}
[[ -z ${as_nobody[*]} ]] || chown nobody "$moved/home"

for file in "$moved/weft/bin/weft" "$moved/build/program" "$moved/train_in_c"; do
  quietly "ask for the libraries of $file" elsewhere ldd "$file"
  ! grep -e 'not found' -e "$cache" -e "$build" "$moved/log" || fail "$file needs libraries that are not installed"
  grep -q "=> $moved/weft/.*lib/weft/lib/libtorch_cpu.so" "$moved/log" || fail "$file does not use the LibTorch installed with it"
done
quietly "run the program" elsewhere "$moved/build/program"
grep -q 'sum 3' "$moved/log" || fail "the program prints"$'\n'"$(<"$moved/log")"
quietly "run the U-Net" elsewhere "$moved/unet/unet"
grep -q 'step 60: loss' "$moved/log" || fail "the U-Net prints"$'\n'"$(<"$moved/log")"
quietly "train from C on 2 ranks" elsewhere "$moved/weft/bin/weft" run -n 2 -- "$moved/train_in_c"
grep -q 'step 100: loss' "$moved/log" || fail "the C program prints"$'\n'"$(<"$moved/log")"
quietly "run the example of the checked device" elsewhere "$moved/missing_wait/missing_wait"
grep -q 'it does not wait for that' "$moved/log" || fail "missing_wait prints"$'\n'"$(<"$moved/log")"
for line in {1..2000}; do echo "line $line of a text to learn from"; done >"$moved/home/text"
chmod 644 "$moved/home/text"
for page in man/man1/weft-train.1 man/man1/weft-checkpoint-list.1 bash-completion/completions/weft zsh/site-functions/_weft; do
  [[ -s $moved/weft/share/$page ]] || fail "no share/$page"
done
quietly "train on 2 ranks" elsewhere "$moved/weft/bin/weft" train gpt -n 2 --set data.path=text \
  --set model.layers=1 --set model.width=48 --set run.steps=3 --set optimizer.warmup=1
grep -qE '^step +3/3 +loss [0-9]' "$moved/log" || fail "no loss of step 3 in"$'\n'"$(<"$moved/log")"
if grep -lr -F -e "$build" -e "$cache" "$moved/weft/bin" "$moved/weft/lib/cmake" "$moved/weft"/lib/*.a \
  "$moved/weft/lib/libweft_c.so" >"$moved/log"; then
  fail "paths of this machine appear in"$'\n'"$(<"$moved/log")"
fi
