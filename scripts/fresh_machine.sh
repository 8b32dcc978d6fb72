#!/bin/bash
# fresh_machine.sh DIR [COMMAND...]: tests the set-up on a bare machine. Makes a Debian in DIR (debootstrap; as root),
# clones the last commit of this repository into it, and times ./run and ./test there, cold and warm. With COMMAND, runs
# that in the clone instead. This machine's proxies, certificates and package indices are used.
#
#   TACIT_RELEASE        bookworm (Debian 12, the default), trixie (Debian 13)
#   TACIT_MIRROR         a Debian mirror; default: the first one of this machine's apt
#   TACIT_BARE=FILE.tar  keep the bare system in this file, or take it from there
#   TACIT_WORKING_TREE=1 copy the files as they are instead of the last commit
#   TACIT_WITHOUT_ROOT=1 as a user who cannot become root, on a machine that has python3-venv, python3-dev and g++ besides
set -euo pipefail
if [[ $# -lt 1 || $(id -u) != 0 ]]; then
  echo "usage (as root): $0 DIR [COMMAND...]" >&2
  exit 2
fi
source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
mkdir -p "$1"
machine=$(cd "$1" && pwd -P)
shift
if [[ -n $(ls -A "$machine") && ! -e $machine/etc/debian_version ]]; then
  echo "$machine is neither empty nor a Debian" >&2
  exit 2
fi

if [[ ! -e $machine/etc/debian_version ]]; then
  if [[ -n ${TACIT_BARE:-} && -e ${TACIT_BARE} ]]; then
    tar -xf "$TACIT_BARE" -C "$machine"
  else
    command -v debootstrap >/dev/null || apt-get install -q -y --no-install-recommends debootstrap
    # shellcheck disable=SC2016  # apt's own variable
    mirror=${TACIT_MIRROR:-$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -v security | head -n 1)}
    debootstrap --variant=minbase ${TACIT_WITHOUT_ROOT:+--include=python3-venv,python3-dev,g++} "${TACIT_RELEASE:-bookworm}" "$machine" "$mirror" >"$machine.log" 2>&1 || { tail "$machine.log" >&2; exit 5; }
    rm -f "$machine/var/cache/apt/archives/"*.deb
    if [[ -n ${TACIT_BARE:-} ]]; then tar -cf "$TACIT_BARE" -C "$machine" .; fi
  fi
fi

if compgen -G '/etc/apt/sources.list.d/*' >/dev/null; then rm -f "$machine/etc/apt/sources.list"; fi
# Network settings: apt's sources, proxies and certificates, pip's settings.
carry() { if [[ -e $1 ]]; then mkdir -p "$machine$(dirname "$1")" && cp -aLT --remove-destination "$1" "$machine$1"; fi; }
for path in /etc/resolv.conf /etc/hosts /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/keyrings /usr/share/keyrings \
  /etc/apt/auth.conf.d /etc/pip.conf /etc/ssl/certs /usr/share/ca-certificates /usr/local/share/ca-certificates; do
  carry "$path"
done
for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
  # Only settings for downloads, not those for what apt keeps or runs afterwards.
  if [[ -e $file ]] && grep -qiE '^ *(Acquire|APT::(Get::)?(AllowUnauth|Sandbox))' "$file"; then carry "$file"; fi
done
# Sources of another release than this machine's.
sed -i "s/\<$(. /etc/os-release && echo "$VERSION_CODENAME")\>/${TACIT_RELEASE:-bookworm}/g" "$machine"/etc/apt/sources.list "$machine"/etc/apt/sources.list.d/* 2>/dev/null || true
variables=()
while IFS='=' read -r name value; do
  case $name in
    *_proxy | *_PROXY | *CA_BUNDLE | SSL_CERT_* | PIP_CERT | PIP_INDEX_URL | PIP_EXTRA_INDEX_URL | PIP_TRUSTED_HOST | PIP_DEFAULT_TIMEOUT)
      variables+=("$name=$value")
      ;;
  esac
done < <(env)

home=/root user=0
if [[ -n ${TACIT_WITHOUT_ROOT:-} ]]; then
  home=/home/somebody user=1000
  mkdir -p "$machine$home"
  grep -q '^somebody:' "$machine/etc/passwd" || echo "somebody:x:$user:$user::$home:/bin/bash" >>"$machine/etc/passwd"
fi
tree=$machine$home/tacit
rm -rf "$tree"
if [[ ${TACIT_WORKING_TREE:-} == 1 ]]; then
  mkdir -p "$tree"
  (cd "$source_folder" && git ls-files -z --cached --others --exclude-standard | tar -c --null -T - --ignore-failed-read) | tar -x -C "$tree"
else
  git clone -q --no-hardlinks "$source_folder" "$tree"
fi
chown -R "$user:$user" "$machine$home"

cleanup() {
  for mount in dev/pts dev/shm dev sys proc; do
    if mountpoint -q "$machine/$mount"; then umount -l "$machine/$mount"; fi
  done
}
trap cleanup EXIT
mount -t proc proc "$machine/proc"
mount -t sysfs sys "$machine/sys" || true
mount --bind /dev "$machine/dev"
mount -t devpts devpts "$machine/dev/pts" 2>/dev/null || true
mountpoint -q /dev/shm && mount --bind /dev/shm "$machine/dev/shm"

inside() {
  chroot "--userspec=$user:$user" "$machine" /usr/bin/env -i "HOME=$home" LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    ${TACIT_MPI_FROM:+"TACIT_MPI_FROM=$TACIT_MPI_FROM"} "${variables[@]}" bash -c 'cd ~/tacit && "$@"' inside "$@"
}
timed() {
  local title=$1 start status=0
  shift
  start=$(date +%s.%N)
  inside "$@" </dev/null || status=$?
  printf 'fresh machine: %-24s exit code %d  %7.1f s\n' "$title" "$status" "$(echo "$(date +%s.%N) $start" | awk '{ print $1 - $2 }')" | tee -a "$machine.times"
}

: >"$machine.times"
echo "bare system: $(du -sm --exclude=proc --exclude=sys --exclude=dev "$machine" | cut -f1) MB"
if [[ $# -gt 0 ]]; then
  timed "$*" "$@"
else
  timed './run, cold' ./run
  timed './run, warm' ./run --version
  timed './test, cold' ./test
  timed './test, warm' ./test
fi
echo "now: $(du -sm --exclude=proc --exclude=sys --exclude=dev "$machine" | cut -f1) MB"
cat "$machine.times"
