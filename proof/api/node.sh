# A node on free ports, for the scripts beside this one; to be sourced. Sets `admin`, `batch` and `openrtb`, and ends what
# it started.
#
# start_node CAMPAIGNS   a node on so many sample campaigns, in a folder of its own
: "${WEIR:?path of the weir binary}"
folder=$(mktemp -d)
node=
load=
end() {
  for process in $load $node; do kill -INT "$process" 2>/dev/null || true; done
  for process in $load $node; do wait "$process" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap end EXIT

start_node() {
  "$WEIR" sample-campaigns --count "$1" >"$folder/campaigns.jsonl"
  "$WEIR" run --budgets "$folder/campaigns.jsonl" --data "$folder/data" --admin 127.0.0.1:0 --batch 127.0.0.1:0 \
    --openrtb 127.0.0.1:0 --spend 127.0.0.1:0 >"$folder/out" 2>"$folder/log" &
  node=$!
  for _ in $(seq 1800); do
    grep -q '^ready' "$folder/out" && break
    kill -0 "$node" 2>/dev/null || { cat "$folder/log" >&2; exit 2; }
    sleep 0.05
  done
  grep -q '^ready' "$folder/out" || { echo "the node is not ready after 90 s" >&2; cat "$folder/log" >&2; exit 2; }
  address() { awk -v name="$1" '$1 == name {print $2; exit}' "$folder/out"; }
  admin=$(address admin | sed "s,^http://,,; s,/$,,") batch=$(address batch) openrtb=$(address openrtb)
}

# Auctions from now on, until the script ends.
start_load() {
  "$WEIR" hammer --openrtb --target "$openrtb" --books "$batch" --duration 10m --rate 500 --win 0.2 >"$folder/load" 2>&1 &
  load=$!
}
