# Pinnace's yard. `make help` lists the targets.

PREFIX ?= /usr/local
STAGE := $(CURDIR)/target/stage
EXAMPLES := $(CURDIR)/target/examples
FUZZ_SECONDS ?= 120

# A library named here is staged and installed as it is, without building one.
LIBRARY ?=
BUILT := $(CURDIR)/target/release/libpinnace.so
# The command goes with the library that was built with it, unless one is named.
COMMAND ?= $(if $(LIBRARY),,$(CURDIR)/target/release/pinnace)

help:
	@echo 'make build             the library and the command, staged as an installation below target/stage'
	@echo 'make demo              two million messages between two processes, and what others need for them'
	@echo 'make demo-delivery     guaranteed delivery between two processes, of which one is killed in the middle'
	@echo 'make test              everything, with what it needs installed first'
	@echo 'make check             its short form: format, lints, the crates, conformance over one transport'
	@echo 'tools/test WORD        the steps of make test whose name holds the word'
	@echo 'make examples          the C programs, below target/examples'
	@echo 'make install PREFIX=   library, command, headers, man pages and the like (DESTDIR is honoured) [$(PREFIX)]'
	@echo 'make clients           the stock clients'"'"' own tests on our library, in full'
	@echo 'make mutation          each row of docs/compatibility.md: its test passes, and fails with the feature off'
	@echo 'make pgm               a library with pgm:// and epgm:// (OpenPGM), and its tests'
	@echo 'make faults            the long forms of the robustness tests'
	@echo 'make interop           against every other implementation of ZMTP, as a table'
	@echo 'make older             against older builds of ours; each is built first, which takes minutes [REVISIONS=]'
	@echo 'make fuzz              every fuzz target for FUZZ_SECONDS each [$(FUZZ_SECONDS)]'
	@echo 'make bench             our library and the system'"'"'s libzmq in turn, as a table and as a page'
	@echo 'make counts            the instructions of the hot paths beside their baseline (UPDATE=1: writes it anew)'
	@echo 'make bench-beside      shared memory beside iceoryx2 and a bare ring (QUICK=1: whether it runs)'
	@echo 'make bench-delivery    guaranteed delivery beside liner, plain sockets and the disk (QUICK=1: whether it runs)'
	@echo 'make tidy              the rules of the house'
	@echo 'make clean'

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

demo-delivery:
	tools/setup build
	tools/demo-delivery

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

interop: build
	tools/setup interop
	tests/interop-matrix/install
	tests/interop-matrix/run $(if $(LIBRARY),--library $(LIBRARY))

older: build
	tests/interop-matrix/older $(if $(LIBRARY),--library $(LIBRARY)) $(REVISIONS)

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

tidy:
	tools/tidy

clean:
	rm -rf target

.PHONY: help build install examples examples-sanitized demo demo-delivery test check clients mutation pgm faults \
	interop older fuzz bench counts bench-beside bench-delivery tidy clean
