#!/usr/bin/env bash
# emulated_hosts.sh HOSTS CUT COMMAND…: emulates 2 or 4 hosts on this machine and runs COMMAND (mpirun …) on the first, with four slots
# in all. A host is a network namespace: daemons and TCP are real, the file system is shared. When the file CUT appears, the last host's
# network is disconnected. `emulated_hosts.sh --check` exits with 0 if this is possible, and otherwise says why not.
# Everything is in separate namespaces and disappears with the last process, however it ends. Requires root and iproute2.
set -euo pipefail
if [ -z "${MILLRACE_INSIDE_HOSTS:-}" ]; then
  [ "$(id -u)" = 0 ] || { echo "network namespaces want root"; exit 1; }
  command -v ip >/dev/null || { echo "ip is not installed (Debian's package iproute2)"; exit 1; }
  unshare --net --mount --uts true 2>/dev/null || { echo "namespaces are not allowed here"; exit 1; }
  MILLRACE_INSIDE_HOSTS=yes exec unshare --net --mount --uts --propagation private "$0" "$@"
fi
unset MILLRACE_INSIDE_HOSTS
mount -t tmpfs none /run  # only in this namespace
mkdir /run/netns
ip link add bridge type bridge && ip link set bridge up || { echo "no bridge can be made here"; exit 1; }
folder=$(mktemp -d -p /run)
hosts=2
[ "$1" = --check ] || hosts=$1
for host in $(seq "$hosts"); do
  ip netns add "host$host"
  ip link add "port$host" type veth peer name eth0 netns "host$host"
  ip link set "port$host" master bridge up
  ip -n "host$host" addr add "10.77.0.$host/24" dev eth0
  ip -n "host$host" link set eth0 up
  ip -n "host$host" link set lo up
  echo "10.77.0.$host slots=$((4 / hosts))" >>"$folder/hosts"
done
[ "$1" = --check ] && exit 0
cut=$2
shift 2
# Replaces ssh: starts mpirun's daemon on the other host.
cat >"$folder/agent" <<'AGENT'
#!/usr/bin/env bash
host=$1
shift
host=host${host##*.}
exec ip netns exec "$host" unshare --uts bash -c "hostname $host; $*"
AGENT
chmod +x "$folder/agent"
export OMPI_MCA_orte_default_hostfile=$folder/hosts OMPI_MCA_plm_rsh_agent=$folder/agent OMPI_MCA_btl=self,tcp
export OMPI_MCA_btl_tcp_if_include=10.77.0.0/24 OMPI_MCA_oob_tcp_if_include=10.77.0.0/24
(
  until [ -e "$cut" ]; do
    kill -0 $$ 2>/dev/null || exit 0  # the command has ended
    sleep 0.05
  done
  ip -n "host$hosts" link set eth0 down
  # The bridge is in this process's namespace, and would disappear with it.
  while kill -0 $$ 2>/dev/null; do sleep 0.2; done
) &
hostname host1
exec ip netns exec host1 "$@"
