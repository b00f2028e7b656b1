# shellcheck shell=bash
# Questions to the three nodes of a compose project, and checks of the answers.
# Sourced. Expects WORK, a scratch folder, and PROJECT, the name of the compose project.

readonly NODES=(n1 n2 n3)
CHECKS=0
LAST_FENCE=0
STATUS=
BODY=

say() { printf 'compose-test: %s\n' "$*"; }

passed() {
  CHECKS=$((CHECKS + 1))
  printf 'compose-test:   ok: %s\n' "$*"
}

fail() {
  printf 'compose-test: FAILED: %s\n' "$*" >&2
  [[ -z $STATUS ]] || printf 'compose-test: the last answer was %s %s\n' "$STATUS" "$BODY" >&2
  exit 1
}

# Runs a command whose output matters only when it fails.
quietly() {
  if ! "$@" >"$WORK/output" 2>&1; then
    cat "$WORK/output" >&2
    return 1
  fi
}

# Waits until the command succeeds, at most SECONDS; WHAT says in words what is waited for.
wait_until() {
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    ((SECONDS < deadline)) || fail "not in time: $what"
    sleep 0.2
  done
}

compose() {
  if command -v docker-compose >/dev/null; then
    docker-compose --project-name "$PROJECT" "$@"
  else
    docker compose --project-name "$PROJECT" "$@"
  fi
}

# Sets PORTS to three ports that are free now, and has docker-compose publish n1, n2 and n3 there.
pick_free_ports() {
  read -r -a PORTS < <(python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(s.getsockname()[1] for s in sockets))')
  export HOLDFAST_PORT_1=${PORTS[0]} HOLDFAST_PORT_2=${PORTS[1]} HOLDFAST_PORT_3=${PORTS[2]}
}

url() { printf 'http://127.0.0.1:%s' "${PORTS[${1#n} - 1]}"; }

container() {
  docker ps --all --quiet --filter "label=com.docker.compose.project=$PROJECT" \
    --filter "label=com.docker.compose.service=$1"
}

health_is() { [[ $(docker inspect --format '{{.State.Health.Status}}' "$(container "$1")") == "$2" ]]; }

wait_for_health() {
  local node
  for node in "$@"; do
    wait_until 40 "$node is healthy" health_is "$node" healthy
  done
  passed "healthy: $*"
}

# Sends one request to a published port. Sets STATUS (000 when there was no answer) and BODY.
# The service answers within 5 s whatever happens, so 7 s is silence.
request() {
  local method=$1 where=$2 body=${3:-}
  local args=(--silent --max-time 7 --output "$WORK/answer" --write-out '%{http_code}' --request "$method")
  [[ -z $body ]] || args+=(--header 'content-type: application/json' --data "$body")
  : >"$WORK/answer"
  STATUS=$(curl "${args[@]}" "$where") || true
  BODY=$(<"$WORK/answer")
}

# As `request`, but from within the container of a NODE that the host no longer reaches. The image has no curl.
request_inside() {
  local node=$1 method=$2 path=$3 body=${4:-} answer
  # shellcheck disable=SC2016 # Expanded by the shell in the container.
  answer=$(docker exec "$(container "$node")" timeout 7 bash -c '
    exec 3<>/dev/tcp/127.0.0.1/7101
    printf "%s %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" "$1" "$2" >&3
    printf "content-type: application/json\r\ncontent-length: %s\r\n\r\n%s" "${#3}" "$3" >&3
    cat <&3' inside "$method" "$path" "$body") || true
  STATUS=$(awk 'NR == 1 { print $2 }' <<<"$answer")
  STATUS=${STATUS:-000}
  BODY=$(awk 'past { print } /^\r?$/ { past = 1 }' <<<"$answer")
}

# What a node without a majority may answer: nothing was done, or nobody knows.
refuses() {
  local node=$1
  shift
  request_inside "$node" "$@"
  [[ $STATUS == 503 || $STATUS == 504 ]] || fail "$node is cut off and answered $1 $2"
}

answered() {
  request "$@"
  [[ $STATUS != 000 && $STATUS != 503 && $STATUS != 504 ]]
}

# Repeats a request until the cluster answers it, as every client may: the token makes it safe.
request_served() { wait_until 20 "an answer from $2" answered "$@"; }

new_token() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

body_for() { printf '{"owner":"compose-test","token":"%s","ttl_ms":%s}' "$1" "$2"; }

# Acquires a lock of its own through NODE: it must be granted, with a higher fence than any before.
take_through() {
  local node=$1 fence
  request_served POST "$(url "$node")/v1/locks/compose%2F$RANDOM$RANDOM/acquire" "$(body_for "$(new_token)" 30000)"
  [[ $STATUS == 200 ]] || fail "no grant through $node"
  fence=$(jq -r .fence <<<"$BODY")
  ((fence > LAST_FENCE)) || fail "through $node came fence $fence, after $LAST_FENCE"
  passed "$node grants, fence $fence"
  LAST_FENCE=$fence
}

# The lock that is held, for 60 s at a time, through every fault of the test.
hold_the_long_lock() {
  HELD_TOKEN=$(new_token)
  request_served POST "$(url n1)/v1/locks/held/acquire" "$(body_for "$HELD_TOKEN" 60000)"
  [[ $STATUS == 200 ]] || fail "the lock \"held\" was not granted"
  HELD_FENCE=$(jq -r .fence <<<"$BODY")
  LAST_FENCE=$HELD_FENCE
  passed "the lock \"held\" is ours for 60 s, fence $HELD_FENCE"
}

# Through NODE the long lock must still be ours, be refused to others, and be renewable.
long_lock_is_held_through() {
  local node=$1 where
  where=$(url "$node")/v1/locks/held
  request_served GET "$where"
  [[ $STATUS == 200 && $(jq -c '[.state, .holders[].fence]' <<<"$BODY") == "[\"held\",$HELD_FENCE]" ]] ||
    fail "$node does not show \"held\" with fence $HELD_FENCE"
  request_served POST "$where/acquire" "$(body_for "$(new_token)" 1000)"
  [[ $STATUS == 409 && $(jq -r .code <<<"$BODY") == held ]] || fail "$node did not refuse \"held\" to somebody else"
  request_served POST "$where/renew" "{\"token\":\"$HELD_TOKEN\"}"
  [[ $STATUS == 200 && $(jq -r .fence <<<"$BODY") == "$HELD_FENCE" ]] || fail "$node did not renew \"held\""
  passed "$node: \"held\" still has fence $HELD_FENCE, is refused to others, and is renewed"
}

# Sets LEADER to the service name of the leader that NODE knows; fails when it knows none.
find_leader() {
  local id
  request GET "$(url "$1")/v1/cluster"
  id=$(jq -r '.leader_id // empty' <<<"$BODY" 2>/dev/null) || return 1
  [[ -n $id ]] && LEADER=n$id
}

# Whether NODE knows a leader, and it is not FORMER.
other_leader_than() { find_leader "$2" && [[ $LEADER != "$1" ]]; }

all_nodes_name_one_leader() {
  local node first=
  for node in "${NODES[@]}"; do
    find_leader "$node" || return 1
    [[ -z $first || $LEADER == "$first" ]] || return 1
    first=$LEADER
  done
}

# Sets SURVIVORS to the nodes other than NODE.
all_but() {
  local node
  SURVIVORS=()
  for node in "${NODES[@]}"; do [[ $node == "$1" ]] || SURVIVORS+=("$node"); done
}
