# shellcheck shell=bash
# What a scenario of scripts/chaos is made of: a cluster of real nodes, faults, and their end.
# Sourced. Expects BINARY, N (how many nodes), WORK (a scratch folder), ID (a few letters of this run alone), and that the
# files lib-chaos-net.sh and lib-chaos-disk.sh are sourced too.

# A new lock must be granted, and every node be ready, so many seconds after the last fault is gone.
readonly HEALED_WITHIN=${HEALED_WITHIN:-15}
# When each TTL of the clients (at most 3 s) is over, with a second to spare.
# shellcheck disable=SC2034 # For scenarios.
readonly LONGER_THAN_A_LEASE=4

declare -A NODE_PID=()
FAULTS=0
ORDER=()
LEADER=

say() { printf 'chaos: %s\n' "$*"; }

fail() {
  printf 'chaos: FAILED: %s\n' "$*" >&2
  exit 1
}

# Waits until the command succeeds, at most SECONDS; WHAT says in words what is waited for.
wait_until() {
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    ((SECONDS < deadline)) || fail "not in time: $what"
    sleep 0.05
  done
}

# --- For scenarios -------------------------------------------------------------------------------------------------

# All nodes, all but one, and how many are a majority.
nodes() { seq 1 "$N"; }
others() { nodes | grep -vxF "$1"; }
majority_size() { echo $((N / 2 + 1)); }

# Sets ORDER to the nodes in an order that chance has chosen; ORDER[0] is any one of them.
shuffle() {
  local at other kept
  mapfile -t ORDER < <(nodes)
  for ((at = N - 1; at > 0; at--)); do
    other=$((RANDOM % (at + 1)))
    kept=${ORDER[at]} ORDER[at]=${ORDER[other]} ORDER[other]=$kept
  done
}

time_is_left() { ((SECONDS < SCENARIO_END)); }

# Lets LEAST to MOST seconds pass, but no more than are left.
pass() {
  local seconds=$(($1 + RANDOM % ($2 - $1 + 1)))
  while ((seconds-- > 0)) && time_is_left; do sleep 1; done
}

# Says what is about to be done to the cluster, here and in the history.
fault() {
  FAULTS=$((FAULTS + 1))
  say "  fault $FAULTS: $*"
  mark fault "$FAULTS: $*"
}

# Ends every fault, waits until all nodes serve and a new lock is granted, and says so.
heal() {
  heal_network
  heal_disks
  local node start=$EPOCHREALTIME
  for node in $(nodes); do
    resume "$node"
    is_running "$node" || start_node "$node"
  done
  healed "$start"
}

stop() { kill -STOP "${NODE_PID[$1]}"; }
resume() { ! is_running "$1" || kill -CONT "${NODE_PID[$1]}"; }

# As kill -9, for any number of nodes at once.
kill_nodes() {
  local node pids=()
  for node in "$@"; do pids+=("${NODE_PID[$node]}"); done
  kill -KILL "${pids[@]}" 2>/dev/null || true # A node without a disk may have ended by itself.
  for node in "$@"; do
    wait "${NODE_PID[$node]}" 2>/dev/null || true
    unset "NODE_PID[$node]"
  done
}

# Sets LEADER to the node that leads, as the first node that knows one tells.
find_leader() {
  LEADER=
  wait_until "$HEALED_WITHIN" "a node knows a leader" look_for_leader
}

look_for_leader() {
  local node
  for node in $(nodes); do
    LEADER=$(ask "$node" /v1/cluster | jq -r '.leader_id // empty') || LEADER=
    [[ -z $LEADER ]] || return 0
  done
  return 1
}

# Sets the wall clock of one node forward or back by SECONDS; 0 sets it right. For scenarios with CLOCKS=shimmed.
set_wall_clock() { printf '%s\n' "$2" >"$WORK/clock-$1"; }

# --- The cluster ---------------------------------------------------------------------------------------------------

address() { echo "10.77.0.$1"; }
url() { echo "http://$(address "$1"):7101"; }

endpoints() {
  local node list=
  for node in $(nodes); do list+=",$(url "$node")"; done
  echo "${list#,}"
}

members() {
  local node list=
  for node in $(nodes); do list+=",$node=$(address "$node"):7201"; done
  echo "${list#,}"
}

is_running() { [[ -n ${NODE_PID[$1]:-} ]] && kill -0 "${NODE_PID[$1]}" 2>/dev/null; }

start_node() {
  local node=$1 environment=()
  [[ -z ${CLOCK_SHIM:-} ]] || environment=(LD_PRELOAD="$CLOCK_SHIM" CHAOS_WALL_CLOCK="$WORK/clock-$node")
  become_in "$node" env "${environment[@]}" "$BINARY" serve --node-id "$node" --data-dir "$(folder "$node")/data" \
    --listen "$(address "$node"):7101" --peer-listen "$(address "$node"):7201" --initial-cluster "$(members)" \
    --log-level 'info,openraft=error' </dev/null >>"$WORK/node-$node.log" 2>&1 &
  NODE_PID[$node]=$!
}

# Asks a node from where the clients are; nothing is printed where it does not answer.
ask() { in_hub curl --silent --max-time 2 "$(url "$1")$2"; }

is_ready() {
  is_running "$1" || fail "node $1 has ended by itself: $(tail -n 5 "$WORK/node-$1.log")"
  [[ $(in_hub curl --silent --max-time 2 --output /dev/null --write-out '%{http_code}' "$(url "$1")/readyz") == 200 ]]
}

grants_a_new_lock() {
  local token
  token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  in_hub "$BINARY" acquire "healed-$token" --endpoints "$(endpoints)" --ttl 1s --timeout 2s >/dev/null 2>&1
}

# Everything has been healed at START: waits until it shows.
healed() {
  local start=$1 node
  wait_until "$HEALED_WITHIN" "a new lock is granted" grants_a_new_lock
  say "  healed: a new lock was granted after $(seconds_since "$start") s"
  for node in $(nodes); do wait_until "$HEALED_WITHIN" "node $node is ready" is_ready "$node"; done
  say "  healed: all $N nodes are ready after $(seconds_since "$start") s"
  mark healthy "after fault $FAULTS"
}

seconds_since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'; }

# --- The clients ---------------------------------------------------------------------------------------------------

start_clients() {
  mkfifo "$WORK/marks"
  exec {MARKS}<>"$WORK/marks"
  become_in hub "$BINARY" chaos --endpoints "$(endpoints)" --history "$WORK/history.jsonl" --seconds 86400 \
    --seed "$SEED" --clients "$CLIENTS" --marks <"$WORK/marks" >"$WORK/clients.out" 2>&1 &
  CLIENTS_PID=$!
}

# Writes a mark into the history. It is there when this returns.
mark() {
  printf '%s %s\n' "$1" "$2" >&"$MARKS"
  wait_until 10 "the mark \"$2\" is in the history" grep -qF "\"text\":\"$2\"" "$WORK/history.jsonl"
}

stop_clients() {
  kill -TERM "$CLIENTS_PID"
  wait "$CLIENTS_PID" || fail "the clients failed: $(<"$WORK/clients.out")"
  CLIENTS_PID=
  say "  clients: $(head -n 1 "$WORK/clients.out" | sed 's/, in .*//')"
}

start_cluster() {
  local node
  for node in $(nodes); do
    prepare_folder "$node"
    [[ -z ${CLOCK_SHIM:-} ]] || set_wall_clock "$node" 0
    start_node "$node"
  done
  for node in $(nodes); do wait_until 30 "node $node is ready" is_ready "$node"; done
}

# Ends what this run has started, whatever state it is in.
tear_down() {
  local pid
  for pid in "${CLIENTS_PID:-}" "${NODE_PID[@]}"; do
    [[ -z $pid ]] || kill -KILL "$pid" 2>/dev/null || true
    [[ -z $pid ]] || wait "$pid" 2>/dev/null || true
  done
  CLIENTS_PID=
  NODE_PID=()
  [[ -z ${MARKS:-} ]] || exec {MARKS}>&-
  MARKS=
  remove_folders
  remove_network
}
