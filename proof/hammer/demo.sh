#!/usr/bin/env bash
# A node on sample budgets with live traffic for a minute, and the audit at the end. Ctrl-C ends both.
set -euo pipefail
: "${WEIR:?path of the weir binary}" "${DEMO:?folder for the demo}"
log="$DEMO/node.log"
out="$DEMO/node.out"
"$WEIR" run --budgets "$DEMO/budgets.jsonl" --data "$DEMO/data" >"$out" 2>"$log" &
node=$!
trap 'kill -INT "$node" 2>/dev/null || true; wait "$node" 2>/dev/null || true' EXIT
for _ in $(seq 200); do
  grep -q '^ready' "$out" && break
  kill -0 "$node" 2>/dev/null || { cat "$log"; exit 1; }
  sleep 0.05
done
target=$(awk '$1 == "batch" {print $2}' "$out")
echo "== node at $target; open $(awk '$1 == "admin" {print $2}' "$out")"
echo "== ${DURATION:-60s} of OpenRTB requests (proof/hammer/samples/openrtb.jsonl) as batches, wins settled, then the audit"
"$WEIR" hammer --target "$target" --duration "${DURATION:-60s}" --connections 8 --depth 8 --batch 10 \
  --openrtb proof/hammer/samples/openrtb.jsonl --live
echo "== the node's own books"
"$WEIR" stat --data "$DEMO/data" | grep -E 'decisions|granted|resolves|repeats|resolved|worker_cpu' || true
