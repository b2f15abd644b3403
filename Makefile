# Weir. `make run` starts it, `make test` tests all of our own code, `make test-peers` tries it with real peers, `make bench` prints the performance tables,
# `make demo` is `make run` with live traffic. Each does what it needs by itself and can be run again at no cost.

CARGO ?= cargo
WEIR  := target/release/weir
PYTHON_VENV := target/venv-clients
DEMO  := target/demo
CARGO_FLAGS := --locked

.PHONY: help run demo demo-fix demo-cluster dist dist-python test-dist loop test check test-peers test-prebid test-vault test-fix test-litellm test-cluster go-bidder bench bench-pacing bench-llm bench-web bench-clients smoke fmt clippy unit unit-script sim crash interop docs \
  install check-tools hidden-tests unit-build dev-binaries clean valgrind costs-check costs-accept costs-accept-node costs-check-node costs-docs ab web web-unit browser chromium journeys pictures api-contract promtool soak soak-short machine clients-go clients-python

help:
	@echo "make run    build and start Weir with sample budgets; prints the address of the dashboard to open"
	@echo "make dist   a tarball, a Debian package, an image of OCI, a chart and the Python packages, in target/dist"
	@echo "make install  builds weir and puts it into PREFIX/bin, /usr/local by default; DESTDIR for packages"
	@echo "make demo   the same with live auctions: the hammer plays an exchange, DURATION=60s"
	@echo "make demo-fix  FIX desks and a venue against budgets, with kill -9, then an audit; DURATION=20s"
	@echo "make test   every test of our own code: formatting, lints, unit, property, integration, simulator, interop, docs"
	@echo "make check  before a commit is handed in: make test without the simulator and the browser; target/checked has the commit that passed"
	@echo "make loop CRATE=ledger  while editing: the crate's tests, its users' library tests, the rules, 100 seeds"
	@echo "make test-peers   the node with real peers, each by its name: $(PEERS); SKIP=\"NAME ...\" leaves some out"
	@echo "make web    the dashboard's files alone (npm ci, vite build); cargo packs them into the binary"
	@echo "make journeys     the dashboard in a browser, against a real node under load (part of make test)"
	@echo "make pictures     the pictures of the documentation, of a real node under load (four minutes)"
	@echo "make api-contract the admin API against its own OpenAPI document (part of make test)"
	@echo "make bench-web    the dashboard's figures in a browser, beside a naive page (about ten minutes)"
	@echo "make sim    the simulator alone; SEEDS=100000 SIM=target/release/sim for a night"
	@echo "make test-prebid  a real Prebid Server in front of the node (part of make test-peers)"
	@echo "make test-cluster  a log on three real nats-servers that are killed, stopped and put back, and two nodes on it (part of make test-peers)"
	@echo "make demo-cluster  a bank is killed and loses its disk, a standby takes over, every answer is asked for again; exit 1 on any loss"
	@echo "make crash  a node killed 200 times; CYCLES and SEED choose others"
	@echo "make bench-clients  what an ask costs the client libraries (half a minute)"
	@echo "make bench  the performance tables (about ten minutes, on a quiet machine)"
	@echo "make soak   memory of a node with 50,000 campaigns under auctions, for ten minutes"
	@echo "make bench-llm    64 streams at the end of a budget, with kills: counters in Redis beside Weir (a minute)"
	@echo "make costs-check   instructions of the hot path beside the accepted ones (part of make test)"
	@echo "make costs-accept REASON=\"...\"  accepts what the hot path costs now; commit the files with the change"
	@echo "make ab BASE=main  two revisions against each other by the clock; HEAD=rev, ROUNDS=n choose others"
	@echo "make costs-docs    the cost sheet of a node under load, as docs/costs.md (about a minute)"
	@echo "make bench-pacing  what pacing costs, and how good it is on simulated days (about ten minutes)"

check-tools:
	@for tool in cargo node npm java mvn go python3; do command -v $$tool >/dev/null || { \
	  echo "make: $$tool is missing; on Debian: rustup for cargo, Node 20.19 or newer, apt-get install openjdk-17-jdk-headless maven" \
	    "python3-venv, Go 1.24 from its site"; \
	  exit 1; }; done

# Debian's packages that tests need: $(1) the command, $(2) the package, $(3) what it is for. As root they are installed; elsewhere
# somebody has to. RUNLEVEL=1 keeps a package from starting a service of its own where systemd does not run.
define debian
	@command -v $(1) >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "== installing $(2), $(3)"; export RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive; \
	    { apt-get install -y --no-install-recommends $(2) \
	      || { apt-get update && apt-get install -y --no-install-recommends $(2); }; } >/dev/null; \
	  fi; \
	  command -v $(1) >/dev/null || { echo "make: $(1) is missing; on Debian: apt-get install $(2)"; exit 1; }; }
endef

# The dashboard: cargo itself never runs npm. Without these files the node still builds, and says so on its page.
WEB := web/dist/index.html
web: $(WEB)

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	@command -v npm >/dev/null || { echo "make: npm is missing: the dashboard needs Node 20.19 or newer to be built"; exit 1; }
	@echo "== fetching what the dashboard is built with (npm ci)"
	@cd web && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(WEB): web/node_modules/.package-lock.json schema/live.xml web/index.html web/vite.config.ts web/tsconfig.json \
    $(shell find web/src web/public web/scripts -type f)
	@echo "== building the dashboard (vite)"
	@cd web && npm run --silent build
	@touch $@

$(WEIR): $(WEB) FORCE
	@echo "== building the release binary"
	@$(CARGO) build $(CARGO_FLAGS) --release -p weir
FORCE:

PREFIX ?= /usr/local
install: $(WEIR)
	@install -D -m 755 $(WEIR) $(DESTDIR)$(PREFIX)/bin/weir
	@echo "== $(DESTDIR)$(PREFIX)/bin/weir"

# What Weir is installed from, in target/dist: a tarball, a Debian package, an image, a chart, their checksums; and the Python packages.
dist: $(WEIR) dist-python
	@dist/build --weir $(WEIR) --out target/dist

dist-python: $(PYTHON_VENV)/bin/pytest
	@for package in clients/python clients/python/weir_litellm; do \
	  $(PYTHON_VENV)/bin/python -m build --no-isolation --outdir target/dist/python $$package >/dev/null; done
	@echo "== target/dist/python"

test-dist: $(PYTHON_VENV)/bin/pytest dev-binaries
	@echo "== what dist makes, installed: tarball, deb with an upgrade, image, chart, Python packages"
	@dist/test --weir target/debug/weir --python $(PYTHON_VENV) --work target/dist-test

$(DEMO)/campaigns.jsonl: $(WEIR)
	@mkdir -p $(DEMO)
	@test -s $@ || $(WEIR) sample-campaigns --count 5000 > $@

# The campaigns of the demo, and budgets for whoever tries the spend door.
$(DEMO)/budgets.jsonl: $(DEMO)/campaigns.jsonl proof/hammer/demo.jsonl
	@cat $^ > $@

run: $(DEMO)/budgets.jsonl
	@echo "== starting Weir on sample budgets ($<); Ctrl-C stops it"
	@echo "== open the dashboard at the address that it prints; README.md begins with two curl lines to try"
	@exec $(WEIR) run --budgets $< --data $(DEMO)/data

demo: $(DEMO)/campaigns.jsonl
	@WEIR=$(WEIR) DEMO=$(DEMO) proof/hammer/demo.sh

demo-fix: $(WEIR)
	@WEIR=$(WEIR) DEMO=$(DEMO)-fix proof/hammer/demo-fix.sh

# One step after the other; steps joined by + run two at a time, as each of them keeps less than two cores busy. Those that ask for a
# package of Debian's are never joined with each other.
STEPS_FIRST := machine check-tools fmt+web clippy valgrind hidden-tests+unit-script unit-build unit web-unit+docs+interop+go-bidder
STEPS_LAST  := api-contract promtool+test-dist soak-short clients-go+clients-python
STEPS       := $(STEPS_FIRST) sim+costs-check-node costs-check journeys $(STEPS_LAST)
test:
	@MAKE="$(MAKE)" proof/stopwatch $(STEPS); ending=$$?; \
	sed 's/^/flaky: /' target/flaky 2>/dev/null; exit $$ending
	@echo "== all tests of our own code passed"

# Before a commit is handed in: `make test` but for what takes longest. target/checked has the commit that passed.
check:
	@MAKE="$(MAKE)" proof/check $(STEPS_FIRST) costs-check-node costs-check $(STEPS_LAST)

# Other people's programs beside the node, by name: each at most four minutes. SKIP="prebid" leaves some out on a laptop, none in CI.
PEERS := prebid vault fix litellm cluster
SKIP  ?=
test-peers:
	@test -z "$(SKIP)" || test "$(CI)" != true || { echo "make: CI skips no peer; SKIP is \"$(SKIP)\""; exit 2; }
	@for name in $(SKIP); do case " $(PEERS) " in *" $$name "*) echo "== skipped: $$name" ;; \
	  *) echo "make: there is no peer $$name to skip; there are: $(PEERS)"; exit 2 ;; esac; done
	@MAKE="$(MAKE)" proof/stopwatch $(addprefix test-,$(filter-out $(SKIP),$(PEERS)))
	@echo "== all peers passed but those that were skipped: $(or $(SKIP),none)"

# What to run while editing a crate: CONTRIBUTING.md.
loop:
	@test -n "$(CRATE)" || { echo "make: say which crate you edit: make loop CRATE=ledger"; exit 2; }
	@proof/loop $(CRATE)

# What tests may depend on, so that a failure elsewhere can be placed.
machine:
	@proof/machine

fmt:
	@echo "== formatting"
	@$(CARGO) fmt --all --check

clippy:
	@echo "== lints (warnings are errors)"
	@$(CARGO) clippy $(CARGO_FLAGS) --workspace --all-targets --quiet -- -D warnings

# Unit, property, integration and documentation tests of every crate; replays the fuzz corpora; the architecture
# test; every benchmark once in small. CORPUS=FOLDER also replays real request files from there.
#
# Examples are left to the lints, which compile them; the one that has a test runs. A test that depends on load may run once more.
unit:
	@echo "== tests of all crates"
	@proof/unit/run

# Each failure that `make unit` forgives, and each that it does not, planted.
unit-script:
	@echo "== make unit forgives what it should, and nothing else"
	@proof/unit/test_run.py

unit-build:
	@echo "== building the tests of all crates"
	@$(CARGO) test $(CARGO_FLAGS) --workspace --tests --no-run --quiet

hidden-tests:
	@proof/hidden-tests

# The first time it needs a network and a minute or two: it builds Prebid Server from its published source.
test-prebid: dev-binaries
	@echo "== a real Prebid Server in front of the node, offline; the books compared at every step"
	@WEIR=$(CURDIR)/target/debug/weir proof/prebid/run

# The first time it needs a network: clients from PyPI, the Go module proxy and Maven Central.
test-vault: dev-binaries
	@echo "== real clients of Transit: hvac, the Go modules of OpenBao and Vault, Spring Vault"
	@WEIR=$(CURDIR)/target/debug/weir proof/vault-peers/run

# The same: quickfixgo, QuickFIX/J and simplefix.
test-fix: dev-binaries
	@echo "== real FIX engines before and behind the node, in three versions of FIX"
	@WEIR=$(CURDIR)/target/debug/weir proof/fix-peers/run

# The same: a LiteLLM proxy.
test-litellm: dev-binaries
	@echo "== a real LiteLLM proxy whose budgets are the node's: calls, streams, retries, a race, kill -9"
	@WEIR=$(CURDIR)/target/debug/weir proof/litellm/run

# The first time it needs a network: the server comes through the Go module proxy.
test-cluster: dev-binaries
	@echo "== three real nats-servers that are killed, stopped and put back, and two nodes that take over from each other"
	@WEIR=$(CURDIR)/target/debug/weir proof/cluster/run

demo-cluster: dev-binaries
	@echo "== a bank, a standby that follows, kill -9, takeover, audit"
	@WEIR=$(CURDIR)/target/debug/weir proof/cluster/run demo

web-unit: $(WEB)
	@echo "== the dashboard's types and its parts without a browser"
	@cd web && npm run --silent fmt && npx tsc --noEmit && npx vitest run

chromium:
	$(call debian,chromium,chromium,the browser of the tests)

# The programs that the tests of all crates have built: then nothing is compiled here. Cargo unites the features of what it builds
# together, so with `-p weir` it would build most of Weir once more; `--test memory` counts in what only tests depend on.
dev-binaries: $(WEB)
	@echo "== building the node, the simulator, the scripted node and the counter of instructions"
	@$(CARGO) build $(CARGO_FLAGS) --quiet --workspace --bin weir --bin sim --bin instructions --bin fake-node --test memory --features instructions/node

# JOURNEY=name runs those whose names hold it; SHOTS=FOLDER keeps the screenshots; SLOW=4 slows each page, which must change nothing.
journeys: chromium dev-binaries
	@echo "== the dashboard in a browser, against a real node under load"
	@cd web && WEIR=$(CURDIR)/target/debug/weir node journeys/run.mjs $(JOURNEY)

pictures: chromium dev-binaries
	@echo "== the pictures of the documentation, of a real node under load (four minutes)"
	@cd web && WEIR=$(CURDIR)/target/debug/weir node journeys/pictures.mjs

VENV := target/venv
$(VENV)/bin/schemathesis: proof/api/requirements.txt
	@echo "== fetching the tester of the API's contract"
	@python3 -m venv $(VENV) && $(VENV)/bin/pip install --quiet --disable-pip-version-check -r proof/api/requirements.txt
	@touch $@

api-contract: $(VENV)/bin/schemathesis dev-binaries
	@echo "== the admin API against its own OpenAPI document: generated calls, good and bad"
	@WEIR=$(CURDIR)/target/debug/weir SCHEMATHESIS=$(CURDIR)/$(VENV)/bin/schemathesis proof/api/run

promtool: dev-binaries
	$(call debian,promtool,prometheus,whose promtool checks our metrics)
	@echo "== promtool on the metrics of a node under load"
	@WEIR=$(CURDIR)/target/debug/weir proof/api/metrics

# A node under steady auctions does not grow. Ten minutes of it with 50,000 campaigns, in release; a short form is part of `make test`.
soak: $(WEIR)
	@WEIR=$(WEIR) proof/soak
soak-short: dev-binaries
	@echo "== memory of a node under auctions does not grow"
	@WEIR=target/debug/weir proof/soak --campaigns 2000 --rate 300 --seconds 24 --settle 8 --slack-mb 12

# Clients of other languages: their own tests, and the plays of clients/conform against the scripted node.
FAKE_NODE := $(CURDIR)/target/debug/fake-node
clients-go: dev-binaries
	@echo "== the Go client: vet, unit tests, the conformance suite, with the race detector where there is a C compiler"
	@cd clients/go && test -z "$$(gofmt -l . ../../proof/clients/go)" || { echo "make: gofmt -l names files in clients/go"; exit 1; }
	@race=; command -v cc >/dev/null && race=-race; \
	cd clients/go && go vet ./... && WEIR=$(CURDIR)/target/debug/weir WEIR_FAKE_NODE=$(FAKE_NODE) go test $$race ./... \
	  && cd ../../proof/clients/go && go vet ./...

$(PYTHON_VENV)/bin/pytest: clients/python/requirements-test.txt
	@echo "== fetching what the Python client is tested and built with"
	@python3 -m venv $(PYTHON_VENV) && $(PYTHON_VENV)/bin/pip install --quiet --disable-pip-version-check -r clients/python/requirements-test.txt
	@touch $@

clients-python: $(PYTHON_VENV)/bin/pytest dev-binaries
	@echo "== the Python client: types, unit tests, the conformance suite, its wheel"
	@cd clients/python && $(CURDIR)/$(PYTHON_VENV)/bin/mypy --no-error-summary --cache-dir $(CURDIR)/target/mypy \
	  && WEIR=$(CURDIR)/target/debug/weir WEIR_FAKE_NODE=$(FAKE_NODE) $(CURDIR)/$(PYTHON_VENV)/bin/python -X dev -m pytest -q \
	    -p no:cacheprovider \
	  && $(CURDIR)/$(PYTHON_VENV)/bin/python -m build --no-isolation --wheel --outdir $(CURDIR)/target/wheel . >/dev/null

# What an ask costs the clients in processor time, all against the same node.
bench-clients:
	@$(CARGO) build $(CARGO_FLAGS) --release --quiet -p weir -p clients
	@WEIR=$(CURDIR)/$(WEIR) proof/clients/run

go-bidder:
	$(call debian,redis-server,redis-server,the store of the Go bidder)
	@echo "== the Go bidder that Weir is measured beside"
	@cd proof/peers/go-bidder && go vet ./... && go test ./... && go build -o ../../../target/go-bidder .

# SEEDS=100000 SIM=target/release/sim for a night: optimised, a seed takes less than half of the time, but to compile
# that costs more than 2,000 seeds save.
SEEDS ?= 2000
SIM   ?= target/debug/sim
target/debug/sim: dev-binaries
target/release/sim: FORCE
	@$(CARGO) build $(CARGO_FLAGS) --release --quiet -p sim
sim: $(SIM)
	@echo "== simulator: $(SEEDS) seeds without a broken promise, every rare case reached"
	@$(SIM) --seeds $(SEEDS)
	@echo "== simulator: every planted fault is found"
	@$(SIM) --planted

# The gate counts with valgrind's callgrind.
valgrind:
	$(call debian,valgrind,valgrind,which counts instructions)

INSTRUCTIONS  := target/release/instructions
NODE_BASELINE := proof/costs/node/baseline.json

# Against what was accepted and the last release; then whether the gate that says so can be believed. BASE=main also builds that
# revision and compares with it, by the clock too; OTHER_TOOLS=pass passes on a machine with other tools than the accepted figures'.
costs-check: valgrind
	@echo "== instructions of the hot path: no workload more than 2 % above what was accepted (docs/ci.md)"
	@$(CARGO) build $(CARGO_FLAGS) --release --quiet -p instructions
	@proof/instructions/check-step $(BASE)
	@echo "== the gate itself: silent on the same program and on 1 % more, shut at 3 % more"
	@$(INSTRUCTIONS) rates --runs 2 decide codec

# WORKLOADS="settle codec" accepts these alone; RELEASE=0.2.0 begins to add up anew. The workloads through
# the node's own worker have figures of their own: costs-accept-node.
export REASON
costs-accept: valgrind
	@test -n "$$REASON" || { echo "make: say why: make costs-accept REASON=\"...\""; exit 2; }
	@$(CARGO) build $(CARGO_FLAGS) --release --quiet -p instructions
	@$(INSTRUCTIONS) accept --reason "$$REASON" $(if $(RELEASE),--release "$(RELEASE)") $(WORKLOADS)

# The workloads through the node's own worker, as the tests have compiled it: a node with optimisation takes minutes more. Always without
# incremental compilation: with it a crate is cut into other units, what is inlined differs, and so do the counts.
costs-check-node costs-accept-node: export CARGO_INCREMENTAL := 0
costs-check-node: valgrind dev-binaries
	@echo "== instructions of the node's own worker and doors: no workload more than 2 % above what was accepted (docs/ci.md)"
	@target/debug/instructions --baseline $(NODE_BASELINE) check worker exchange call order \
	  || { ending=$$?; test $$ending = 3 -a "$(OTHER_TOOLS)" = pass; }

costs-accept-node: valgrind dev-binaries
	@test -n "$$REASON" || { echo "make: say why: make costs-accept-node REASON=\"...\""; exit 2; }
	@target/debug/instructions --baseline $(NODE_BASELINE) accept --reason "$$REASON" \
	  $(if $(RELEASE),--release "$(RELEASE)") worker exchange call order

# BASE against HEAD, or against the files as they are. Each revision has a work tree under target/ab; all share one
# target folder, so that a second comparison compiles little.
ROUNDS ?= 15
AB     := target/ab
ab:
	@test -n "$(BASE)" || { echo "make: say what to compare with: make ab BASE=main"; exit 2; }
	@export CARGO_TARGET_DIR="$(CURDIR)/$(AB)/target"; \
	proof/instructions/build-revision "$(BASE)" $(AB)/base-tree $(AB)/base || exit 1; \
	if [ -n "$(HEAD)" ]; then proof/instructions/build-revision "$(HEAD)" $(AB)/head-tree $(AB)/head || exit 1; \
	else $(CARGO) build $(CARGO_FLAGS) --release --quiet -p instructions \
	  && cp $(AB)/target/release/instructions $(AB)/head || exit 1; fi; \
	echo "== $(ROUNDS) rounds of both, by the clock"; \
	$(AB)/head ab --base $(AB)/base --head $(AB)/head --rounds $(ROUNDS)

# The real node, killed with kill -9 at random moments; `make test` runs a dozen cycles of it.
CYCLES ?= 200
SEED   ?= 1
crash:
	@echo "== $(CYCLES) lives of a node, killed at random moments, and the audit (seed $(SEED))"
	@CRASH_CYCLES=$(CYCLES) CRASH_SEED=$(SEED) $(CARGO) test $(CARGO_FLAGS) --release -p weir --test it \
	  crashes:: -- --nocapture --test-threads=1

interop:
	@echo "== the official SBE tool's Java codec reads and writes our golden vectors"
	@proof/interop/run

docs:
	@echo "== documentation builds without warnings"
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(CARGO_FLAGS) --workspace --no-deps --quiet

# Redis and PostgreSQL are measured beside Weir. What is missing is installed only as root and only where systemd does
# not run: RUNLEVEL=1 keeps the packages from starting services of their own, but systemd would not heed it.
bench:
	@missing=; command -v redis-server >/dev/null || missing="redis-server"; \
	test -x /usr/lib/postgresql/15/bin/postgres || missing="$$missing postgresql-15"; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && [ ! -d /run/systemd/system ] && command -v apt-get >/dev/null; then \
	  echo "== installing $$missing to measure beside Weir; their own services are not started"; \
	  RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$missing \
	    && missing= || echo "== the installation failed"; \
	fi; \
	test -z "$$missing" || echo "== not installed: $$missing; these rows will say NOT MEASURED"
	@echo "== building the benchmarks"
	@$(CARGO) build $(CARGO_FLAGS) --release -p weir -p peers -p costs
	@target/release/peers
	@echo "== every abstraction beside its alternatives (target/pairs.md)"
	@target/release/costs pairs --json proof/costs/alternatives.json --markdown target/pairs.md
	@echo "== the vault: over HTTP, a message alone, a million serials in Go and Node.js, Welch's test over what does not open"
	@proof/vault-costs/run
	@proof/vault-costs/run --whole
	@proof/vault-costs/run --beside
	@$(CARGO) run $(CARGO_FLAGS) --release --quiet -p vault --example bench
	@if command -v go >/dev/null; then cd proof/vault-costs/serials && CGO_ENABLED=0 go run .; else echo "go: NOT MEASURED"; fi
	@if command -v node >/dev/null; then node proof/vault-costs/serials/serials.mjs; else echo "node: NOT MEASURED"; fi
	@$(CARGO) run $(CARGO_FLAGS) --release --quiet -p vault --example timing
	@echo "== an order's events: fills, busts, replaces"
	@$(CARGO) run $(CARGO_FLAGS) --release --quiet -p gate-orders --example cost
	@$(CARGO) run $(CARGO_FLAGS) --release --quiet -p ledger --example named

costs-docs: $(WEIR)
	@echo "== the cost sheet of a node under load (docs/costs.md)"
	@$(WEIR) costs --bench --markdown > target/costs.md && mv target/costs.md docs/costs.md

# The real server, a real browser, 50,000 rows; a page that keeps all rows in React stands beside it in the same run.
# Needs redis-server. How much more than a budget is spent when the caller and the store are killed.
LLM_SEED ?= 1
bench-llm:
	$(call debian,redis-server,redis-server,the counters that Weir is compared with)
	@echo "== building Weir and the comparison"
	@$(CARGO) build $(CARGO_FLAGS) --release --quiet -p weir -p llm
	@target/release/llm --weir target/release/weir --seed $(LLM_SEED)

bench-web: chromium $(WEB)
	@echo "== building the server of the benchmark"
	@$(CARGO) build $(CARGO_FLAGS) --release --quiet -p weir -p board-bench
	@cd web && BOARD=$(CURDIR)/target/release/board-bench WEIR=$(CURDIR)/target/release/weir node bench/run.mjs

# What a request and a tick cost; then every strategy on simulated days that go wrong in a dozen ways, in second and
# first price auctions, with bills every 15 minutes and every hour. The days follow from their seeds: two runs differ
# in no figure but times.
bench-pacing:
	@echo "== building the benchmarks"
	@$(CARGO) build $(CARGO_FLAGS) --release -p weir -p peers
	@echo "== what pacing costs: a request, a tick, memory (about 10 s)"
	@target/release/peers pacing
	@for every in 15m 1h; do \
	  echo "== how well it spends: all scenarios, both auctions, 3 seeds, bills every $$every (about 4 minutes)"; \
	  $(WEIR) pace --scenario all --auction both --seeds 3 --reconcile $$every || exit 1; done

clean:
	@$(CARGO) clean
