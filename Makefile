# Pinnace's yard. `make help` lists the targets.

PREFIX ?= /usr/local
STAGE := $(CURDIR)/target/stage
EXAMPLES := $(CURDIR)/target/examples
FUZZ_SECONDS ?= 60

# A library named here is staged and installed as it is, without building one.
LIBRARY ?=
BUILT := $(CURDIR)/target/release/libpinnace.so

help:
	@echo 'make build             the library, staged as an installation below target/stage'
	@echo 'make demo              two million messages between two processes, and what others need for them'
	@echo 'make test              everything, with what it needs installed first'
	@echo 'make examples          the C programs, below target/examples'
	@echo 'make install PREFIX=   library, headers, pkg-config and CMake files (DESTDIR is honoured) [$(PREFIX)]'
	@echo 'make faults            the long forms of the robustness tests'
	@echo 'make fuzz              every fuzz target for FUZZ_SECONDS each [$(FUZZ_SECONDS)]'
	@echo 'make bench             our library and the system'"'"'s libzmq in turn, as a table and as a page'
	@echo 'make tidy              the rules of the house'
	@echo 'make clean'

build:
	$(if $(LIBRARY),,cargo build --release --locked)
	DESTDIR= tools/install $(or $(LIBRARY),$(BUILT)) $(STAGE)

install:
	tools/install $(or $(LIBRARY),$(BUILT)) $(PREFIX)

examples: build
	$(MAKE) --no-print-directory -C examples/c STAGE=$(STAGE) OUT=$(EXAMPLES)

examples-sanitized: build
	$(MAKE) --no-print-directory -C examples/c STAGE=$(STAGE) OUT=$(EXAMPLES)-sanitized \
		SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=all'

demo:
	tools/setup build
	tools/demo

test:
	tools/setup test
	tools/test

faults:
	tools/setup test
	tools/faults

fuzz:
	tools/setup fuzz
	tools/fuzz $(FUZZ_SECONDS)

bench: examples
	bench/run

tidy:
	tools/tidy

clean:
	rm -rf target fuzz/target

.PHONY: help build install examples examples-sanitized demo test faults fuzz bench tidy clean
