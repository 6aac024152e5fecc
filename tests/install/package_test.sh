#!/usr/bin/env bash
# Tests `make package`'s results (build/packages) in a clean root of this machine's Debian: apt installs the packages, they train,
# and are removed without a trace; the source tarball is unpacked and configured. `make test-package`, as root.
# The clean root, and the packages that weft's depend on, stay in weft's cache folder; everything else is removed at the end.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
packages=$source/build/packages
cache=${XDG_CACHE_HOME:-${HOME:?set HOME or XDG_CACHE_HOME}/.cache}/weft

fail() {
  echo "package test: $*" >&2
  exit 1
}

[[ $(id -u) == 0 ]] || fail "needs root: sudo XDG_CACHE_HOME='${cache%/weft}' $0"
ls "$packages"/*.deb "$packages"/*.tar.gz >/dev/null 2>&1 || fail "nothing in $packages: run make package"
[[ ${1:-} == --unshared ]] || exec unshare --mount "$source/tests/install/package_test.sh" --unshared # its mounts go with it

folder=$(mktemp -d)
root=$folder/root
clean_up() {
  umount --lazy "$root/proc" "$root/dev/shm" 2>/dev/null || true
  rm -rf --one-file-system "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

in_root() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} chroot "$root" "$@"
}

# [hint=TEXT] quietly WHAT COMMAND...: prints the output only on failure; kept in $folder/log.
quietly() {
  echo "package test: $1"
  "${@:2}" >"$folder/log" 2>&1 </dev/null || fail "could not: $1${hint:+ ($hint)}"$'\n'"$(tail -n 30 "$folder/log")"
}

# --- the clean root ------------------------------------------------------------------------------------------------------

clean=$("$source/tests/install/clean_debian")
cp -a "$clean" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev/shm"
cp /etc/resolv.conf "$root/etc/"
cp "$packages"/*.deb "$root/root/"
before=$(cd "$root" && find usr | sort)

# --- the packages --------------------------------------------------------------------------------------------------------

debs=("$root"/root/*.deb)
hint="if its package lists are too old: rm -r $clean" quietly "install ${debs[*]##*/}" \
  in_root apt-get -q -y --no-install-recommends install "${debs[@]#"$root"}"
find "$root/var/cache/apt/archives" -name '*.deb' -exec cp -n -t "$clean/var/cache/apt/archives/" {} +
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
echo "package test: passed"
