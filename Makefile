# `make help` lists the targets.

PREFIX ?= /usr/local
STAGE := $(CURDIR)/target/stage
EXAMPLES := $(CURDIR)/target/examples
FUZZ_SECONDS ?= 120

# If set, this library is staged and installed as it is, and none is built.
LIBRARY ?=
BUILT := $(CURDIR)/target/release/libpinnace.so
# The command that was built along with the library. With LIBRARY set: none, unless COMMAND names one.
COMMAND ?= $(if $(LIBRARY),,$(CURDIR)/target/release/pinnace)

help:
	@echo 'make build             the library and the command, staged as an installation below target/stage'
	@echo 'make demo              two million messages between two processes, compared with libzmq and other means'
	@echo 'make demo-delivery     guaranteed delivery: receivers, subscribers and workers are killed, and all is counted'
	@echo 'make demo-files        file transfer: a client is killed, and the digests are compared'
	@echo 'make demo-erlang       two nodes of Erlang, whose ports are killed, and all is counted'
	@echo 'make test              all tests; installs the required packages first'
	@echo 'make check             the short form: format, lints, the crates, conformance over one transport'
	@echo 'tools/test WORD        the steps of make test with the word in their name'
	@echo 'make examples          the C programs, below target/examples'
	@echo 'make install PREFIX=   library, command, headers, man pages, units of systemd (DESTDIR is honoured) [$(PREFIX)]'
	@echo 'make clients           the stock clients'"'"' own test suites on our library, in full'
	@echo 'make mutation          each row of docs/compatibility.md: its test passes, and fails with the feature off'
	@echo 'make pgm               a library with pgm:// and epgm:// (OpenPGM), and its tests'
	@echo 'make faults            the long forms of the robustness tests'
	@echo 'make features          the Rust crates with each Cargo feature alone, and with none'
	@echo 'make simulate          guaranteed delivery in virtual time [RUNS=N seeds] [SEED=N: from it, or it alone]'
	@echo 'make simulate-files    file transfer in virtual time, likewise'
	@echo 'make simulate-selftest faults planted in the code one by one; the simulation finds each'
	@echo 'make interop           interoperation with every other implementation of ZMTP, as a table'
	@echo 'make older             interoperation with older builds of Pinnace; building each takes minutes [REVISIONS=]'
	@echo 'make older-delivery    guaranteed delivery beside an older build of Pinnace; building it takes minutes'
	@echo 'make fuzz              every fuzz target for FUZZ_SECONDS each [$(FUZZ_SECONDS)]'
	@echo 'make bench             our library and the system'"'"'s libzmq in turn, as a table and as a page'
	@echo 'make counts            instruction counts of the hot paths against their baseline (UPDATE=1: rewrites it)'
	@echo 'make bench-beside      shared memory, compared with iceoryx2 and a bare ring (QUICK=1: a smoke test)'
	@echo 'make bench-delivery    guaranteed delivery, compared with liner, plain sockets and the disk (QUICK=1: likewise)'
	@echo 'make bench-files       file transfer, compared with models of the Guide, rsync and cp (QUICK=1: likewise)'
	@echo 'make bench-erlang      Erlang, compared with a NIF and with a bare port (QUICK=1: likewise)'
	@echo 'make tidy              the source rules: layout, unsafe, threads, words'
	@echo 'make clean             removes target/'

build:
	$(if $(LIBRARY),,cargo build --release --locked)
	DESTDIR= tools/install $(or $(LIBRARY),$(BUILT)) $(STAGE) $(COMMAND)

install:
	tools/install $(or $(LIBRARY),$(BUILT)) $(PREFIX) $(COMMAND)

examples: build
	$(MAKE) --no-print-directory -C examples/c STAGE=$(STAGE) OUT=$(EXAMPLES)

examples-sanitized: build
	$(MAKE) --no-print-directory -C examples/c STAGE=$(STAGE) OUT=$(EXAMPLES)-sanitized \
		SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=all'

demo:
	tools/setup build
	tools/demo
	tools/demo-delivery
	tools/demo-files

demo-delivery:
	tools/setup build
	tools/demo-delivery

demo-files:
	tools/setup build
	tools/demo-files

demo-erlang:
	tools/setup demo-erlang
	$(MAKE) --no-print-directory build
	tools/demo-erlang

test:
	tools/setup test
	tools/test

check:
	tools/setup test
	tools/test --check

clients:
	tools/setup clients
	$(MAKE) --no-print-directory build
	tests/clients/run --full

mutation:
	tools/setup test
	$(MAKE) --no-print-directory build
	tests/mutation/run

pgm:
	tools/setup pgm
	tools/test-pgm

faults:
	tools/setup test
	tools/faults

features:
	tools/setup build
	for feature in '' redis sqlite tls zstd; do \
		cargo clippy --locked -p pinnace --no-default-features --features "$$feature" -- -D warnings || exit 1; \
	done
	cargo clippy --locked -p pinnace-port --no-default-features -- -D warnings
	cargo test --locked -p pinnace-delivery --no-default-features --lib without_features

simulate:
	tools/simulate $(if $(SEED),--seed $(SEED)) $(if $(RUNS),--runs $(RUNS))

simulate-files:
	tools/simulate --files $(if $(SEED),--seed $(SEED)) $(if $(RUNS),--runs $(RUNS))

simulate-selftest:
	tools/test-simulate

interop: build
	tools/setup interop
	tests/interop-matrix/install
	tests/interop-matrix/run $(if $(LIBRARY),--library $(LIBRARY))

older: build
	tests/interop-matrix/older $(if $(LIBRARY),--library $(LIBRARY)) $(REVISIONS)

older-delivery: build
	tools/setup older-delivery
	tests/older-delivery/run

fuzz:
	tools/setup fuzz
	tools/fuzz --seconds $(FUZZ_SECONDS)

bench: examples
	bench/run
	bench/watched

counts:
	tools/setup counts
	$(MAKE) --no-print-directory build
	tools/count-instructions $(if $(UPDATE),--update)

bench-beside: build
	bench/beside/run $(if $(QUICK),--quick)

bench-delivery:
	tools/setup bench-delivery
	bench/delivery/run $(if $(QUICK),--quick)

bench-files:
	tools/setup bench-files
	bench/files/run $(if $(QUICK),--quick)

bench-erlang:
	tools/setup bench-erlang
	$(MAKE) --no-print-directory build
	bench/erlang/run $(if $(QUICK),--quick)

tidy:
	tools/tidy

clean:
	rm -rf target

.PHONY: help build install examples examples-sanitized demo demo-delivery demo-files demo-erlang test check \
	clients mutation pgm faults \
	features simulate simulate-files simulate-selftest interop older older-delivery fuzz bench counts bench-beside \
	bench-delivery bench-files bench-erlang tidy clean
