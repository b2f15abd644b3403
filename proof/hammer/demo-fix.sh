#!/usr/bin/env bash
# A node as FIX gate of two desks and a venue, which the hammer plays. In the middle the node is killed (kill -9) and started again. At the
# end every order and every budget is compared with the venue's books.
#
# exit 0: nothing is lost, nothing differs; 1: something is or does; 2: it could not run
set -euo pipefail
: "${WEIR:?path of the weir binary}" "${DEMO:?folder for the demo}"
door=${FIX:-127.0.0.1:7702} venue=${VENUE:-127.0.0.1:7790} admin=${ADMIN:-127.0.0.1:7780}
duration=${DURATION:-20s}
seconds=${duration%s}
[[ "$seconds" =~ ^[0-9]+$ && "$seconds" -ge 4 ]] || { echo "demo-fix: DURATION=$duration: expected seconds, 4s or more" >&2; exit 2; }
rm -rf "$DEMO"
mkdir -p "$DEMO"
session() { printf '[[fix.session]]\nsender_comp_id = "GATE"\ntarget_comp_id = "%s"\nlimits = "budgets"\nroute = "venue1"\n' "$1"; }
{
  printf '[fix]\nlisten = "%s"\n' "$door"
  session DESK1
  session DESK2
  printf 'order_quantity_max = "100000"\n'
  printf '[[fix.venue]]\nname = "venue1"\nsender_comp_id = "GATE"\ntarget_comp_id = "VENUE"\nconnect = ["%s"]\n' "$venue"
  # What the desks sent just before the kill is not too old after the restart.
  printf 'max_order_age_ms = 60000\n'
} >"$DEMO/weir.toml"
cat >"$DEMO/budgets.jsonl" <<'BUDGETS'
{"id":1,"name":"Account A1","limit":"900000000","orders":{"account":"A1"}}
{"id":2,"name":"Account A2","limit":"2000000","orders":{"account":"A2"}}
{"id":3,"name":"Desk 2 buys","limit":"40000000","orders":{"session":"DESK2","side":"buy"}}
{"id":4,"name":"ACME, shares","unit":"count","limit":"3000000","orders":{"symbol":"ACME"}}
{"id":5,"name":"BOLT sold short","limit":"3000000","orders":{"symbol":"BOLT","side":"short"}}
BUDGETS
start() {
  "$WEIR" run --config "$DEMO/weir.toml" --budgets "$DEMO/budgets.jsonl" --data "$DEMO/data" --admin "$admin" \
    --batch "" --spend "" --openrtb "" --keys "" >"$DEMO/node.out" 2>>"$DEMO/node.log" &
  node=$!
  for _ in $(seq 400); do
    grep -q '^ready' "$DEMO/node.out" && return
    kill -0 "$node" 2>/dev/null || break
    sleep 0.05
  done
  cat "$DEMO/node.log"
  exit 2
}
stop() { for one in ${hammer:-} ${node:-}; do kill -INT "$one" 2>/dev/null || true; wait "$one" 2>/dev/null || true; done; }
trap stop EXIT
start
echo "== node with two desks, a venue and $(wc -l <"$DEMO/budgets.jsonl") budgets; open http://$admin/ui/"
"$WEIR" hammer --fix --target "$door" --venue "$venue" --admin "$admin" --duration "$duration" --drain 30s --seed "${SEED:-1}" &
hammer=$!
for _ in 1 2; do
  sleep $((seconds / 4))
  kill -0 "$hammer" 2>/dev/null || break
  echo "== kill -9 of the node, and a start on what it kept"
  kill -9 "$node"
  wait "$node" 2>/dev/null || true
  start
done
status=0
wait "$hammer" || status=$?
hammer=
echo "== orders as the node lists them"
"$WEIR" fix orders --target "$admin" | sed -n 1,8p || true
echo "== what the node refused, and what it doubts"
"$WEIR" stat --target "$admin" | grep -E 'refused_(limit|quantity|no_reference|no_order)|doubtful|order_alarms' || true
exit "$status"
