#!/usr/bin/env bash
# A node on sample campaigns, the hammer as its exchange for a minute, and the audit at the end. At a terminal the node then stays, with
# its dashboard, until Ctrl-C ends it.
set -euo pipefail
: "${WEIR:?path of the weir binary}" "${DEMO:?folder for the demo}"
campaigns="$DEMO/campaigns.jsonl"
log="$DEMO/node.log"
out="$DEMO/node.out"
"$WEIR" run --budgets "$campaigns" --data "$DEMO/data" --openrtb 127.0.0.1:0 >"$out" 2>"$log" &
node=$!
trap 'kill -INT "$node" 2>/dev/null || true; wait "$node" 2>/dev/null || true' EXIT
for _ in $(seq 400); do
  grep -q '^ready' "$out" && break
  kill -0 "$node" 2>/dev/null || { cat "$log"; exit 1; }
  sleep 0.05
done
address() { awk -v name="$1" '$1 == name {print $2; exit}' "$out"; }
echo "== node on $(wc -l < "$campaigns") campaigns; open $(address admin)"
echo "== ${DURATION:-60s} as an exchange: requests at $(address openrtb), wins billed, books audited at $(address batch)"
status=0
"$WEIR" hammer --openrtb --target "$(address openrtb)" --books "$(address batch)" --duration "${DURATION:-60s}" \
  --rate "${RATE:-10000}" --win 0.2 --gzip 0.3 --repeat 0.05 --bad-macro 0.02 --absurd 0.01 --win-notice-lost 0.02 \
  --loss-notice-lost 0.8 --audit-every 5s --live || status=$?
echo "== the node's own books"
"$WEIR" stat --data "$DEMO/data" | grep -E 'openrtb|bids|granted|settled|repeats|worker_cpu' | head -20 || true
campaign=$(head -1 "$campaigns" | grep -o '"id":[0-9]\+' | head -1 | cut -d: -f2)
echo "== why campaign ${campaign:-1} does not bid more"
"$WEIR" why "${campaign:-1}" --data "$DEMO/data" || true
if [ -t 1 ] && [ "$status" -eq 0 ]; then
  echo "== the node stays, and so does its dashboard at $(address admin)ui/ ; Ctrl-C ends it"
  trap 'exit 0' INT
  wait "$node" || true
fi
exit "$status"
