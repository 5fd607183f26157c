# make serve             build, and serve with a private MariaDB
# make quick             the tests that need no server and do not take long: under a minute behind the build
# make test              the tests, but for what takes long and finds little; at its end it says what that is
# make test-all          all tests
# make test-rest         those of them that make test leaves out
# make check             formatting, lints, documentation, dependencies
# make fuzz              every fuzz target for FUZZ_SECONDS each
# make simulate          the engine on SEEDS seeds, alone and as one of three workers, with clusters of MariaDBs and of MySQLs, and an eighth of them with a group of MySQLs; several Onramps in front of one server, and of a cluster, and freezing, on a quarter of them
# make micro             micro-benchmarks of the hot path: classification, replies, the engine's turns
# make scheduling        the thread pools' known weaknesses in the simulator, side by side; writes docs/SCHEDULING.md
# make differential      random programs of session-changing statements, direct and through, packet by packet
# make leaks             random programs, and what is left on their backends when their clients have gone
# make conformance       others' test suites, direct and through; writes docs/CONFORMANCE.md
# make challenge         100,000 clients, with and without Onramp: a page with charts in ./challenge-report
# make compare           Onramp beside the servers and proxies that are installed; writes docs/BENCHMARKS.md
# make compare-pool      thread pools under load; writes their part of docs/BENCHMARKS.md
# make compare-overload  thread pools in bad times: a crowd, a storm, locks; writes their part of docs/BENCHMARKS.md
# make compare-limit     limits that find themselves beside fixed ones; writes their part of docs/BENCHMARKS.md
# make compare-logins    floods of logins beside statements; writes their part of docs/BENCHMARKS.md
# make image             an image for container engines, by podman, buildah or docker (docs/CONTAINER.md)
# make docs-page         pictures of the page, taken of a real load; writes docs/page
# make packages          a .deb and an .rpm in target/packages/out, with checksums and a bill of materials
# make test-packages     installs, upgrades, removes and purges them in a small Debian of their own; as root
# make docs-options      writes docs/OPTIONS.md from the table of options
# make docs-admin        writes the tables of docs/ADMIN.md and docs/METRICS.md from their declarations

# What `make serve` passes on, such as ARGUMENTS="--listen 127.0.0.1:3307".
ARGUMENTS ?=
FUZZ_SECONDS ?= 10
SEEDS ?= 200
DIFFERENTIAL_SECONDS ?= 120
LEAK_SECONDS ?= 120
# Which of the files run once more in `make test-rest`: 2/3 is the second of three parts.
AGAIN ?= 1/1
# Where cargo puts what it builds.
BUILT := $(or $(CARGO_TARGET_DIR),target)

.PHONY: help serve quick test test-all test-rest check fuzz simulate micro scheduling differential leaks conformance challenge
.PHONY: compare compare-pool compare-overload compare-limit compare-logins docs-page docs-options docs-admin image
.PHONY: packages test-packages
.PHONY: programs-built clients-installed programs end-to-end programs-rest end-to-end-rest

help:
	@sed -n '/^$$/q; s/^# //p' Makefile

serve:
	@command -v cargo >/dev/null || { echo "Rust is needed: https://rustup.rs" >&2; exit 1; }
	@.ci/install serve
	cargo build --release --locked --package onramp
	exec $(BUILT)/release/onramp serve $(ARGUMENTS)

# Programs of tests that start servers; all others are quick.
START_SERVERS := challenge mariadb serve
PROGRAMS_OF_TESTS := $(basename $(notdir $(wildcard crates/*/tests/*.rs))) $(notdir $(patsubst %/main.rs,%,$(wildcard crates/*/tests/*/main.rs)))

# The module of a program's tests that take long.
AT_LENGTH := at_length

# Prints where servers of tests keep their data.
PLACE := python3 -B tests/drivers/harness/folders.py

quick:
	cargo test --workspace --locked --lib --bins $(addprefix --test ,$(filter-out $(START_SERVERS),$(PROGRAMS_OF_TESTS))) -- --skip $(AT_LENGTH)
	python3 -B -m unittest discover --quiet --start-directory tests/benchmark

# The end-to-end tests bring their own Python and Node packages into ignored folders. What takes long is left out, and what needs a
# MySQL server, which is another registry's: ten minutes on two cores.
test:
	@.ci/install test
	@$(MAKE) --no-print-directory --jobs 2 programs-built clients-installed
	@$(MAKE) --no-print-directory --jobs 2 programs end-to-end
	@echo
	@echo "Left out, and part of make test-all:"
	@echo "- end-to-end tests with a MySQL server, and those marked slow:" $$(cd tests/drivers && grep -l pytest.mark.slow test_*.py)
	@echo "- tests of programs that take long:" $$(grep -rl "mod $(AT_LENGTH)" crates/*/tests)
	@echo "- the ledger (tests/ledger/run)"
	@echo "- private servers, and everything with MariaDB, once more on epoll and with three workers"

# What `make test` does beside each other: one after the other they left a quarter of two cores idle. What the programs write is shown at
# their end.
programs-built:
	cargo test --workspace --locked --no-run

clients-installed:
	tests/drivers/run install

programs:
	python3 -B -m unittest discover --quiet --start-directory tests/benchmark
	@echo "running the programs of tests; what they write goes to $(BUILT)/programs-of-tests.txt first"
	@mkdir -p $(BUILT)
	@TMPDIR="$$($(PLACE))" cargo test --workspace --locked -- --skip $(AT_LENGTH) >$(BUILT)/programs-of-tests.txt 2>&1; \
	status=$$?; cat $(BUILT)/programs-of-tests.txt; exit $$status

end-to-end:
	tests/drivers/run usual

# A MySQL server is brought into one more ignored folder. Where it cannot be had, the tests that need it are skipped; the last lines
# say so. The second run, for the sake of time, does without MySQL, since what is a driver's or the workers' own does not depend on the
# kind of server, and without tests in which neither of them plays a part.
test-all: test test-rest

test-rest: programs-rest end-to-end-rest

programs-rest:
	TMPDIR="$$($(PLACE))" cargo test --workspace --locked $(AT_LENGTH)
	TMPDIR="$$($(PLACE))" ONRAMP_DRIVER=epoll cargo test --locked --package onramp --test serve

end-to-end-rest:
	@python3 -B tests/drivers/harness/parts.py "$(AGAIN)"
	@.ci/install mysql || true
	tests/drivers/run rest
	tests/drivers/run ledger --connections 100 --seconds 10
	ONRAMP_DRIVER=epoll ONRAMP_WORKERS=3 ONRAMP_COALESCE_READS=on MYSQL_HOME= ONRAMP_TEST_PART=$(AGAIN) tests/drivers/run again

check:
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --document-private-items
	cargo test --locked --package onramp --test licenses --test tidy
	@if command -v cargo-deny >/dev/null; then cargo deny --offline check bans licenses sources; \
	else echo "cargo-deny is not installed; tests/licenses.rs has checked licenses, sources and versions"; fi

# `make image NAME=registry.example/onramp:1` names it. CONTAINER_ENGINE=docker chooses by what it is made.
image:
	cargo build --release --locked --package onramp
	deploy/container/build $(BUILT)/release/onramp $(NAME)

# About five minutes.
docs-page:
	@.ci/install test
	tests/drivers/run pictures

# Minutes, for the release build and, once, for cargo-deb and cargo-generate-rpm.
packages:
	cargo build --release --locked --package onramp
	deploy/packages/build target/packages/out

# Not part of .ci/run, for the sake of time: two tools are built for it and a Debian is downloaded.
test-packages: packages
	@.ci/install packages
	deploy/packages/build target/packages/later 99.0.0
	ONRAMP_BIN="$(abspath $(BUILT))/release/onramp" ONRAMP_PACKAGES="$(abspath target/packages)" tests/drivers/run test_packages.py test_first_minutes.py

docs-options:
	UPDATE_DOCS=1 cargo test --package config --locked reference_page

docs-admin:
	UPDATE_DOCS=1 cargo test --package admin --package onramp --locked manual

fuzz:
	@if ! cargo +nightly --version >/dev/null 2>&1; then \
	  echo "skipped: fuzzing needs a nightly toolchain (rustup toolchain install nightly)"; exit 0; \
	fi; \
	set -e; \
	cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz; \
	for target in $$(cargo +nightly fuzz list); do \
	  echo "fuzzing $$target for $(FUZZ_SECONDS) s"; \
	  cargo +nightly fuzz run "$$target" -- -max_total_time=$(FUZZ_SECONDS) -verbosity=0; \
	done

simulate:
	cargo run --locked --package simulator -- --seeds $(SEEDS)
	cargo run --locked --package simulator -- --seeds $(SEEDS) --workers 3
	cargo run --locked --package simulator -- --seeds $(shell expr \( $(SEEDS) + 3 \) / 4) --freeze 20
	cargo run --locked --package simulator -- --seeds $(shell expr \( $(SEEDS) + 3 \) / 4) --workers 3 --freeze 20
	cargo run --locked --package simulator -- --seeds $(SEEDS) --cluster
	cargo run --locked --package simulator -- --seeds $(SEEDS) --cluster --workers 3
	cargo run --locked --package simulator -- --seeds $(SEEDS) --cluster --mysql
	cargo run --locked --package simulator -- --seeds $(shell expr \( $(SEEDS) + 7 \) / 8) --cluster --group
	cargo run --locked --package simulator -- --seeds $(shell expr \( $(SEEDS) + 3 \) / 4) --onramps 2
	cargo run --locked --package simulator -- --seeds $(shell expr \( $(SEEDS) + 3 \) / 4) --onramps 3 --workers 2
	cargo run --locked --package simulator -- --seeds $(shell expr \( $(SEEDS) + 3 \) / 4) --cluster --onramps 2
	cargo run --locked --package simulator -- --seeds $(shell expr \( $(SEEDS) + 3 \) / 4) --cluster --onramps 3 --workers 2

# Seconds behind the build. `make micro ARGUMENTS=point_select` measures those with that in their names.
micro:
	cargo bench --locked --package sql --package wire --package simulator --bench classify --bench reply --bench turn -- $(ARGUMENTS)

# Two minutes; `make differential DIFFERENTIAL_SECONDS=3600` for an hour, ARGUMENTS="--in-order --programs 40" for the same
# programs each time, ARGUMENTS="--server-directory /usr/sbin" for the server there, a MySQL say. Programs that differ are
# written to target/differential.
differential:
	@.ci/install test
	cargo build --locked --package onramp
	cargo run --locked --package differential -- --kept crates/differential/kept --seconds $(DIFFERENTIAL_SECONDS) $(ARGUMENTS)

# Two minutes; `make leaks LEAK_SECONDS=3600` for an hour, ARGUMENTS="--server-directory DIR" and so on as above. Programs that leave
# something are made small and written to target/leaks.
leaks:
	@.ci/install test
	cargo build --locked --package onramp
	cargo run --locked --package differential -- --leaks --kept crates/differential/kept/leaks --found $(BUILT)/leaks \
	  --seconds $(LEAK_SECONDS) $(ARGUMENTS)

# Half an hour; `make conformance ARGUMENTS=PyMySQL` runs one suite.
conformance:
	@.ci/install test
	cargo build --locked --package onramp
	ONRAMP_BIN="$(BUILT)/debug/onramp" python3 -B tests/suites/conformance.py $(ARGUMENTS)

# A few minutes. `make scheduling ARGUMENTS="--seed 2"` draws other times.
scheduling:
	cargo run --release --locked --package simulator --bin scheduling -- --docs docs $(ARGUMENTS)

# About an hour; `make compare ARGUMENTS=--quick` takes a few minutes. MYSQL_HOME names a MySQL server's folder.
compare:
	@.ci/install test
	cargo build --release --locked --package onramp
	exec python3 tests/benchmark/main.py $(ARGUMENTS)

# At most 12 minutes; `make compare-pool ARGUMENTS=--help` says how long which part takes.
compare-pool:
	@.ci/install test
	cargo build --release --locked --package onramp
	exec python3 tests/benchmark/pool.py $(ARGUMENTS)

# About 14 minutes; `make compare-overload ARGUMENTS=--quick` takes five.
compare-overload:
	@.ci/install test
	cargo build --release --locked --package onramp
	exec python3 tests/benchmark/overload.py $(ARGUMENTS)

# Three rounds of about an hour; `make compare-limit ARGUMENTS="--rounds 1 --only cold-disk"` takes eight minutes.
compare-limit:
	@.ci/install test
	cargo build --release --locked --package onramp
	exec python3 tests/benchmark/limit.py $(ARGUMENTS)

# About 16 minutes; `make compare-logins ARGUMENTS=--quick` takes four.
compare-logins:
	@.ci/install test
	cargo build --release --locked --package onramp
	exec python3 tests/benchmark/logins.py $(ARGUMENTS)

# Five to ten minutes; `make challenge ARGUMENTS="--steps 1000,10000"` takes less. docs/CHALLENGE.md says what it measures.
challenge:
	@command -v cargo >/dev/null || { echo "Rust is needed: https://rustup.rs" >&2; exit 1; }
	@.ci/install serve
	cargo build --release --locked --package onramp
	exec $(BUILT)/release/onramp challenge $(ARGUMENTS)
