#!/usr/bin/env bash
# Tests `make package`'s results (build/packages) in a clean root of this machine's Debian: apt installs the packages, they train,
# and are removed without a trace; the source tarball is unpacked and configured. `make test-package`, as root.
# The clean root, and the packages that weft's depend on, stay in weft's cache folder; everything else is removed at the end.
set -euo pipefail
test="package test"
packages=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/packages
ls "$packages"/*.deb "$packages"/*.tar.gz >/dev/null 2>&1 || {
  echo "$test: nothing in $packages: run make package" >&2
  exit 1
}
. "$(dirname "${BASH_SOURCE[0]}")/clean_root.sh"
cp "$packages"/*.deb "$root/root/"
before=$(cd "$root" && find usr | sort)

# --- the packages --------------------------------------------------------------------------------------------------------

debs=("$root"/root/*.deb)
install_packages "${debs[*]##*/}" "${debs[@]#"$root"}"
list=$(in_root dpkg -L weft libweft-dev)
mapfile -t files <<<"$list"
for file in /usr/bin/weft /usr/lib/cmake/weft/weftConfig.cmake /usr/share/doc/{weft,libweft-dev}/copyright; do
  [[ -s $root$file ]] || fail "no $file"
done
local_paths=$(cd "$root" && grep -slaF -d skip -e "$source" -e "$cache" -- "${files[@]#/}" || true)
[[ -z $local_paths ]] || fail "paths of this machine appear in"$'\n'"$local_paths"

quietly "weft version" in_root weft version
for line in {1..2000}; do echo "line $line of a text to learn from"; done >"$root/root/text"
quietly "train on 2 ranks" in_root weft train /usr/share/weft/recipes/gpt.toml -n 2 --set data.path=/root/text \
  --set model.layers=1 --set model.width=48 --set run.steps=3 --set optimizer.warmup=1
grep -qE '^step +3/3 +loss [0-9]' "$folder/log" || fail "no loss of step 3 in"$'\n'"$(<"$folder/log")"
quietly "configure a user of libweft-dev" env -u LIBTORCH_ROOT -u XDG_CACHE_HOME HOME="$folder" cmake -S "$source/tests/install/find_package" -B "$folder/user" -DCMAKE_PREFIX_PATH="$root/usr"

quietly "remove them" in_root apt-get -q -y --purge --autoremove remove weft libweft-dev
left=$(cd "$root" && find usr | sort | comm -13 <(echo "$before") -)
[[ -z $left ]] || fail "left behind:"$'\n'"$left"

# --- the source tarball --------------------------------------------------------------------------------------------------

tarball=$(ls "$packages"/*.tar.gz)
name=$(basename "$tarball" .tar.gz)
quietly "unpack $name.tar.gz" tar -xf "$tarball" -C "$folder"
quietly "configure it" env --chdir="$folder/$name" cmake --preset release
echo "$test: passed"
