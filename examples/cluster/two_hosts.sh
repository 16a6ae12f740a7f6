#!/bin/bash
# two_hosts.sh [-n RANKS_PER_HOST] [-d AFTER[:FOR]] COMMAND...: runs a command under Open MPI's mpirun on two hosts
# that are network namespaces of this machine, with an own host name, /dev/shm and temporary folder each and a cable in
# between; to try what several machines do, without them. Needs root, ip (iproute2) and mpirun. -d cuts the cable after
# so many seconds, or as soon as there is a file of that name; -d 5:8 for 8 seconds after 5. Whatever happens, the
# namespaces and all that runs in them are gone at the end. The exit code is mpirun's.
set -u
per_host=1 cut=''
while getopts n:d: option; do
  case $option in
  n) per_host=$OPTARG ;;
  d) cut=$OPTARG ;;
  *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { echo 'usage: two_hosts.sh [-n RANKS_PER_HOST] [-d AFTER[:FOR]] COMMAND...' >&2; exit 2; }

missing=''
[ "$(id -u)" = 0 ] || missing="$missing root"
for tool in ip unshare mpirun; do command -v $tool >/dev/null || missing="$missing $tool"; done
mpirun=$(command -v mpirun.openmpi || command -v mpirun || true)
"$mpirun" --version 2>/dev/null | grep -q 'Open MPI\|OpenRTE' || missing="$missing Open MPI's mpirun"
if [ -n "$missing" ]; then
  echo "two_hosts.sh: skipped, for want of$missing" >&2
  exit 77
fi

id=$((BASHPID % 10000))
work=$(mktemp -d "${TMPDIR:-/tmp}/two_hosts.XXXXXX")
hosts=("rl${id}a" "rl${id}b")
net=10.$((64 + id % 128)).$((id / 128 % 256))
clean_up() {
  trap - EXIT INT TERM
  kill "${timer:-}" 2>/dev/null
  for host in "${hosts[@]}"; do
    for _ in 1 2 3; do
      pids=$(ip netns pids "$host" 2>/dev/null) || break
      [ -n "$pids" ] || break
      # shellcheck disable=SC2086
      kill -9 $pids 2>/dev/null
      sleep 0.2
    done
    ip netns delete "$host" 2>/dev/null
    rm -rf "/etc/netns/$host"
  done
  rmdir /etc/netns 2>/dev/null
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

ip netns add "${hosts[0]}" && ip netns add "${hosts[1]}" || {
  echo 'two_hosts.sh: skipped: this system allows no network namespaces' >&2
  exit 77
}
ip link add "v$id" netns "${hosts[0]}" type veth peer name "v$id" netns "${hosts[1]}" || exit 77
for i in 0 1; do
  ip -n "${hosts[i]}" address add "$net.$((i + 1))/24" dev "v$id"
  ip -n "${hosts[i]}" link set "v$id" mtu 65000 up
  ip -n "${hosts[i]}" link set lo up
  mkdir -p "/etc/netns/${hosts[i]}" "$work/${hosts[i]}"
  # ip netns exec puts this in the place of /etc/hosts.
  { echo "127.0.0.1 localhost"; echo "$net.1 ${hosts[0]}"; echo "$net.2 ${hosts[1]}"; } >"/etc/netns/${hosts[i]}/hosts"
done

# What mpirun calls in the place of ssh: it hands over the host and one string for a shell there.
cat >"$work/agent" <<'AGENT'
#!/bin/bash
while [[ $1 == -* ]]; do shift; done
host=$1
shift
exec ip netns exec "$host" unshare --uts --ipc --mount --fork --kill-child bash -c '
  hostname "$0"
  mount -t tmpfs tmpfs /dev/shm
  export TMPDIR=$TWO_HOSTS_WORK/$0
  exec bash -c "$*"' "$host" "$@"
AGENT
chmod +x "$work/agent"
export TWO_HOSTS_WORK=$work

if [ -n "$cut" ]; then
  {
    case $cut in
    /*) until [ -e "${cut%%:*}" ]; do sleep 0.1; done ;;
    *) sleep "${cut%%:*}" ;;
    esac
    ip -n "${hosts[0]}" link set "v$id" down
    case $cut in *:*)
      sleep "${cut#*:}"
      ip -n "${hosts[0]}" link set "v$id" up
      ;;
    esac
  } &
  timer=$!
fi

# mpirun itself lives on the first host. Each rank may use every core: the "hosts" share them.
"$work/agent" "${hosts[0]}" "exec setsid --wait $(printf '%q ' "$mpirun" --allow-run-as-root --bind-to none \
  --host "${hosts[0]}:$per_host,${hosts[1]}:$per_host" -np $((2 * per_host)) --mca mpi_yield_when_idle 1 \
  --mca plm_rsh_agent "$work/agent" "$@")" &
job=$!
{ wait $job; } 2>/dev/null
code=$?
exit $code
