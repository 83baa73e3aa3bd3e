# The few commands that a reader needs; Meson and the scripts in tools/ and tests/ do the work.
#
#   make demo      build, start a sample process, explain its memory
#   make test      every test there is; ends in "N passed, N failed, N skipped"
#   make build     build/memwhy               make static   build-static/memwhy, one file
#   make lint      the project's own rules    make bench    timings that also check the answers
#   make fuzz      FUZZ_SECONDS per target    make install  DESTDIR and PREFIX are honoured
#   make matrix    every C library and source again, into docs/guide/exactness.md
#
# On Debian each command first installs the packages that it lacks (it names them; needs root).
# NO_DEPS=1 leaves packages alone. WERROR=1 turns compiler warnings into errors.

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
TESTS ?=
werror = $(if $(filter-out 0 false,$(WERROR)),true,false)

.DEFAULT_GOAL := build
.PHONY: deps build demo test bench fuzz lint static install matrix sources readme clean

deps:
	@tools/deps.sh build demo test lint bench fuzz static

build:
	@tools/deps.sh build
	@tools/configure.sh build gcc -Dwerror=$(werror)
	@ninja -C build memwhy

demo: build
	@tools/deps.sh demo
	@tools/demo.sh

test:
	@tools/deps.sh test
	@tools/deps.sh matrix || echo "test: without them programs of other processors are skipped"
	@tools/deps.sh real || echo "test: without them some real programs are skipped"
	@WERROR=$(werror) tests/run $(TESTS)

bench: build
	@tools/deps.sh bench
	@bench/run

fuzz:
	@tools/deps.sh fuzz
	@tools/fuzz.sh $(FUZZ_SECONDS)

lint: build
	@tools/deps.sh lint
	@tools/lint.sh

static:
	@tools/deps.sh static
	@tools/configure.sh build-static gcc -Dstatic=true -Dtests=disabled -Dbuildtype=release \
	    -Dwerror=$(werror)
	@ninja -C build-static memwhy
	@ls -l build-static/memwhy

install: build
	@DESTDIR='$(DESTDIR)' tools/install.sh '$(PREFIX)'

# Rewrites the file lists of src/*/meson.build and tests/*/meson.build from what is on disk.
sources:
	@tools/lint_sources.py --write

# MATRIX_ROOTS=DIR: folders of C libraries that are there, built from their tags (tests/live/libcs.py).
matrix: build
	@tools/deps.sh test matrix
	@ninja -C build
	@tests/live/matrix.py --write docs/guide/exactness.md

# Refills the screen in README.md with what the demo prints now.
readme: build
	@tools/readme_screen.sh

clean:
	rm -rf build build-asan build-static build-fuzz
