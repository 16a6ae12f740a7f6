#!/bin/bash
# run.sh [COMMAND...]: what is committed here, on a Debian 12 that has nothing but its minimal system and make, as a new
# user's machine. COMMAND (default: make train) runs in the project's folder; the exit code is its own, and 77 where no
# such system can be made: that takes root, debootstrap (installed if it can be) and a mirror.
# The minimal system is made once, in RLCORE_BARE_FOLDER (default: a folder of this user under TMPDIR or /tmp); a run
# writes into a layer of its own, which it removes. Every mount lives in a mount namespace that ends with the run, so
# that nothing of this machine is ever there where something is removed. RLCORE_BARE_SHARE is a folder of this machine
# that the run finds as /share.
set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${RLCORE_BARE_FOLDER:-${TMPDIR:-/tmp}/rlcore-bare-$(id -u)}

cannot() {
  echo "bare: skipped, $*"
  exit 77
}
[ "$(id -u)" = 0 ] || cannot "only root can make a bare system"
unshare --mount true 2>/dev/null || cannot "no mount namespaces here"
if ! command -v debootstrap >/dev/null; then
  { apt-get update && apt-get install -y --no-install-recommends debootstrap; } </dev/null >/dev/null 2>&1 ||
    cannot "no debootstrap"
fi
mkdir -p "$folder"
chmod 700 "$folder"
[ -O "$folder" ] || cannot "$folder is not ours"

exec 9>"$folder/lock"
flock 9
if [ ! -e "$folder/system.made" ]; then
  echo "bare: making a minimal system in $folder"
  rm -rf "$folder/system"
  unshare --mount --propagation private debootstrap --variant=minbase --include=ca-certificates,make bookworm \
    "$folder/system" </dev/null >"$folder/debootstrap.log" 2>&1 ||
    cannot "debootstrap failed: $(tail -n 1 "$folder/debootstrap.log")"
  rm -f "$folder"/system/var/cache/apt/archives/*.deb
  touch "$folder/system.made"
fi
flock -u 9

run=$(mktemp -d "$folder/run.XXXXXX")
trap 'rm -rf --one-file-system "$run"' EXIT
mkdir "$run/layer" "$run/scratch" "$run/root"
[ $# -gt 0 ] || set -- make train
echo "bare: $*"
begin=$(date +%s)
code=0
# In the namespace: the layer over the system, kernel file systems, what is committed, the network's settings.
export folder run project
# shellcheck disable=SC2016
unshare --mount --propagation private bash -euo pipefail -c '
  root=$run/root
  mount -t overlay rlcore -o "lowerdir=$folder/system,upperdir=$run/layer,workdir=$run/scratch" "$root" 2>/dev/null ||
    cp -a "$folder/system/." "$root/"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys" 2>/dev/null || mount --rbind -o ro /sys "$root/sys" 2>/dev/null ||
    echo "bare: without /sys"
  mount -t tmpfs -o mode=755 devices "$root/dev"
  mkdir -m 1777 "$root/dev/shm"
  for name in null zero full random urandom tty; do
    [ -e "/dev/$name" ] || continue
    : >"$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
  done
  ln -s /proc/self/fd "$root/dev/fd"
  mkdir "$root/dev/pts"
  mount -t devpts -o newinstance,ptmxmode=0666 terminals "$root/dev/pts" && ln -s pts/ptmx "$root/dev/ptmx"
  for file in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt /etc/pip.conf; do
    if [ -e "$file" ]; then cat "$file" >"$root$file"; fi
  done
  if [ -n "${RLCORE_BARE_SHARE:-}" ]; then
    mkdir "$root/share"
    mount --bind "$RLCORE_BARE_SHARE" "$root/share"
  fi
  mkdir -p "$root/home/user/rlcore"
  git -C "$project" archive HEAD | tar -x -C "$root/home/user/rlcore"
  exec chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt CMAKE_COLOR_DIAGNOSTICS=OFF \
    bash -c "cd /home/user/rlcore && exec \"\$@\"" bash "$@"
' bash "$@" </dev/null || code=$?
echo "bare: exit code $code of '$*' after $(($(date +%s) - begin)) s on $(nproc) cores"
exit $code
