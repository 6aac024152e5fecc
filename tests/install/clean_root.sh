# Sourced by tests in a clean root of this machine's Debian, as root, after they set $test, what they are: starts "$0" again with mounts
# that go with it, makes a temporary $folder and in it $root, a copy of the clean Debian that stays in weft's cache folder.
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${XDG_CACHE_HOME:-${HOME:?set HOME or XDG_CACHE_HOME}/.cache}/weft

fail() {
  echo "$test: $*" >&2
  exit 1
}

# [hint=TEXT] quietly WHAT COMMAND...: prints the output only on failure; kept in $folder/log.
quietly() {
  echo "$test: $1"
  "${@:2}" >"$folder/log" 2>&1 </dev/null || fail "could not: $1${hint:+ ($hint)}"$'\n'"$(tail -n 30 "$folder/log")"
}

in_root() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} chroot "$root" "$@"
}

# install_packages WHAT PACKAGE...: what apt downloads stays in the cache folder.
install_packages() {
  hint="if its package lists are too old: rm -r $clean" quietly "install $1" \
    in_root apt-get -q -y --no-install-recommends install "${@:2}"
  find "$root/var/cache/apt/archives" -name '*.deb' -exec cp -n -t "$clean/var/cache/apt/archives/" {} +
}

clean_up() {
  umount --lazy "$root"/{proc,dev/shm,mnt} 2>/dev/null || true
  rm -rf --one-file-system "$folder"
}

[[ $(id -u) == 0 ]] || fail "needs root: sudo XDG_CACHE_HOME='${cache%/weft}' $0"
[[ ${1:-} == --unshared ]] || exec unshare --mount "$0" --unshared
folder=$(mktemp -d -p /var/tmp)
root=$folder/root
trap clean_up EXIT
trap 'exit 130' INT TERM
clean=$("$source/tests/install/clean_debian")
cp -a "$clean" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev/shm"
cp /etc/resolv.conf "$root/etc/"
