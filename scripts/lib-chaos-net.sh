# shellcheck shell=bash
# The network of scripts/chaos: a namespace for each node and one for the clients, joined by a bridge, and its faults.
# Nothing of it touches the machine's own network. Sourced by scripts/chaos.

readonly CLIENTS_AT=254

namespace() { echo "hfchaos-$ID-$1"; }

# Not `ip netns exec`: that takes a copy of all mounts along, and a disk whose power was cut would stay mounted there.
in_node() {
  local node=$1
  shift
  nsenter --net="/run/netns/$(namespace "$node")" "$@"
}

in_hub() { in_node hub "$@"; }

# For what goes on in the background: the shell becomes the command, and $! is its pid.
become_in() {
  local node=$1
  shift
  exec nsenter --net="/run/netns/$(namespace "$node")" "$@"
}

set_up_network() {
  local node
  ip netns add "$(namespace hub)"
  for node in $(nodes); do ip netns add "$(namespace "$node")"; done
  if [[ ${WIRE:-bridge} == slow ]]; then lay_slow_wire; else lay_bridge; fi
  for node in $(nodes) hub; do
    ip -n "$(namespace "$node")" link set lo up
    in_node "$node" nft 'add table inet chaos; add chain inet chaos in { type filter hook input priority 0; }'
  done
}

lay_bridge() {
  local node hub
  hub=$(namespace hub)
  ip -n "$hub" link add br0 type bridge
  ip -n "$hub" addr add "$(address $CLIENTS_AT)/24" dev br0
  ip -n "$hub" link set br0 up
  for node in $(nodes); do
    ip -n "$hub" link add "node$node" type veth peer name eth0 netns "$(namespace "$node")"
    ip -n "$hub" link set "node$node" master br0 up
    ip -n "$(namespace "$node")" addr add "$(address "$node")/24" dev eth0
    ip -n "$(namespace "$node")" link set eth0 up
  done
}

# A wire that can be slow although this kernel has no netem: scripts/slow-wire passes every packet on.
lay_slow_wire() {
  local node hosts
  mapfile -t hosts < <(nodes)
  become_in hub scripts/slow-wire --control "$WORK/wire" "$CLIENTS_AT" "${hosts[@]}" >"$WORK/wire.out" 2>&1 &
  WIRE_PID=$!
  wait_until 10 "the slow wire is laid: $(cat "$WORK/wire.out" 2>/dev/null)" grep -q ready "$WORK/wire.out"
  for node in $(nodes); do
    ip -n "$(namespace hub)" link set "wire$node" netns "$(namespace "$node")"
    ip -n "$(namespace "$node")" addr add "$(address "$node")/24" dev "wire$node"
    ip -n "$(namespace "$node")" link set "wire$node" mtu 1400 up
  done
  ip -n "$(namespace hub)" addr add "$(address $CLIENTS_AT)/24" dev "wire$CLIENTS_AT"
  ip -n "$(namespace hub)" link set "wire$CLIENTS_AT" mtu 1400 up
}

remove_network() {
  local node
  [[ -z ${WIRE_PID:-} ]] || kill "$WIRE_PID" 2>/dev/null || true
  [[ -z ${WIRE_PID:-} ]] || wait "$WIRE_PID" 2>/dev/null || true
  WIRE_PID=
  for node in $(nodes) hub; do ip netns del "$(namespace "$node")" 2>/dev/null || true; done
}

# --- For scenarios. A cut drops packets without a word, at the receiver --------------------------------------------

drop_at() { # NODE, and what to drop, in the language of nft
  local node=$1
  shift
  in_node "$node" nft "add rule inet chaos in $* drop"
}

# Packets of node A no longer reach node B; those of B still reach A.
cut_one_way() { drop_at "$2" ip saddr "$(address "$1")"; }
cut() { cut_one_way "$1" "$2" && cut_one_way "$2" "$1"; }

# No node of one list reaches one of the other: split '1 2' '3 4 5'
split() {
  local a b
  for a in $1; do for b in $2; do cut "$a" "$b"; done; done
}

# From and to the other nodes; its clients still reach it.
isolate() { split "$1" "$(others "$1")"; }

# Its clients no longer reach it; the other nodes do.
cut_clients_off() { drop_at "$1" ip saddr "$(address $CLIENTS_AT)"; }

# So many of 100 packets that a node receives are lost.
lose() { drop_at "$1" numgen random mod 100 '<' "$2"; }

# DELAY and JITTER in milliseconds, on every way. For scenarios with WIRE=slow.
slow_down() { printf '%s %s\n' "$1" "$2" >"$WORK/wire"; }

heal_network() {
  local node
  for node in $(nodes) hub; do in_node "$node" nft flush chain inet chaos in; done
  [[ ${WIRE:-bridge} != slow ]] || slow_down 0 0
}
