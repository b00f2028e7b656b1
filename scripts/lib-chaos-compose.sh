# shellcheck shell=bash
# The same scenarios on the containers of docker-compose.yml: what lib-chaos.sh does with processes and namespaces of its
# own, done with containers. Sourced by scripts/chaos --compose after the other libraries, whose functions it replaces, and
# after lib-image.sh.

# What lib-image.sh calls while it makes images.
quietly() {
  if ! "$@" >"$WORK/output" 2>&1; then
    cat "$WORK/output" >&2
    return 1
  fi
}

docker_compose() {
  if command -v docker-compose >/dev/null; then
    docker-compose --project-name "hfchaos$ID" "$@"
  else
    docker compose --project-name "hfchaos$ID" "$@"
  fi
}

# Scenarios that need a wire, clocks or disks of their own are for namespaces.
is_for_containers() { ! grep -q '^export ' "scripts/chaos.d/$1"; }

make_image() {
  WORK=$1
  export HOLDFAST_IMAGE=hfchaos$ID:latest
  import_runtime_base "hfchaos$ID-runtime:latest"
  build_image_around "$HOLDFAST_IMAGE" "hfchaos$ID-runtime:latest" "$BINARY"
}

remove_images() {
  docker image rm --force "$HOLDFAST_IMAGE" "$HOLDFAST_IMAGE-base" "hfchaos$ID-runtime:latest" >/dev/null 2>&1 || true
}

# --- Instead of namespaces -----------------------------------------------------------------------------------------

declare -A CONTAINERS=()
container() { echo "${CONTAINERS[$1]}"; }
pid_of() { docker inspect --format '{{.State.Pid}}' "$(container "$1")"; }

# With the tools of this machine in the network of a container.
in_node() {
  local node=$1
  shift
  nsenter --net="/proc/$(pid_of "$node")/ns/net" "$@"
}

in_hub() { "$@"; }

become_in() { # Clients only, which are on this machine.
  shift
  exec "$@"
}

address() {
  if [[ $1 == "$CLIENTS_AT" ]]; then
    docker network inspect --format '{{(index .IPAM.Config 0).Gateway}}' "hfchaos${ID}_default"
  else
    docker inspect --format '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$(container "$1")"
  fi
}

url() { echo "http://127.0.0.1:${PORTS[$1 - 1]}"; }

set_up_network() {
  read -r -a PORTS < <(python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(s.getsockname()[1] for s in sockets))')
  export HOLDFAST_PORT_1=${PORTS[0]} HOLDFAST_PORT_2=${PORTS[1]} HOLDFAST_PORT_3=${PORTS[2]}
}

add_chain() {
  in_node "$1" nft 'add table inet chaos; add chain inet chaos in { type filter hook input priority 0; }'
}

heal_network() {
  local node
  for node in $(nodes); do
    ! is_running "$node" || in_node "$node" nft flush chain inet chaos in
  done
}

remove_network() { docker_compose down --volumes --remove-orphans --timeout 5 >/dev/null 2>&1 || true; }

# --- Instead of processes ------------------------------------------------------------------------------------------

is_running() { [[ $(docker inspect --format '{{.State.Running}}' "$(container "$1")" 2>/dev/null) == true ]]; }

start_cluster() {
  local node
  quietly docker_compose up -d --no-build || fail "docker-compose up failed"
  for node in $(nodes); do
    CONTAINERS[$node]=$(docker_compose ps --quiet "n$node")
    add_chain "$node"
    wait_until 40 "node $node is ready" is_ready "$node"
  done
}

start_node() {
  docker start "$(container "$1")" >/dev/null
  wait_until 10 "the container of node $1 runs" is_running "$1"
  add_chain "$1"
}

stop() { docker pause "$(container "$1")" >/dev/null; }

resume() {
  [[ $(docker inspect --format '{{.State.Paused}}' "$(container "$1")") != true ]] ||
    docker unpause "$(container "$1")" >/dev/null
}

kill_nodes() {
  local node containers=()
  for node in "$@"; do containers+=("$(container "$node")"); done
  docker kill "${containers[@]}" >/dev/null
}

keep_logs() {
  local node
  for node in $(nodes); do docker logs "$(container "$node")" >"$WORK/node-$node.log" 2>&1 || true; done
}

prepare_folder() { :; }
remove_folders() { :; }
heal_disks() { :; }
