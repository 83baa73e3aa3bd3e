#!/bin/sh
# `make demo`: starts the sample process, explains its memory, and says how to look further.
#
# The sample (tests/fixtures/sample.c) leaks, keeps and needs memory in known parts, and ends by
# itself after the number of seconds given to it. It is started and killed here by its own pid.
# The report's exit code is passed on.
set -eu
cd "$(dirname "$0")/.."
seconds=${DEMO_SECONDS:-120}

ninja -C build memwhy tests/fixtures/sample >build/demo.log 2>&1 || {
    cat build/demo.log >&2
    exit 1
}

build/tests/fixtures/sample "$seconds" >build/sample.out 2>&1 &
sample=$!
trap 'kill "$sample" 2>/dev/null && wait "$sample" 2>/dev/null || true' EXIT
trap 'exit 130' HUP INT TERM

# Wait until it has built its memory: it then prints a line that starts with "ready".
tries=0
until grep -q '^ready' build/sample.out 2>/dev/null; do
    tries=$((tries + 1))
    if [ $tries -gt 200 ] || ! kill -0 "$sample" 2>/dev/null; then
        cat build/sample.out >&2
        echo "demo: the sample did not come up" >&2
        exit 1
    fi
    sleep 0.05
done

echo "\$ memwhy $sample"
echo
status=0
build/memwhy "$sample" || status=$?
cat <<TXT

That was the sample, tests/fixtures/sample.c: it leaks, keeps and needs memory in known parts.
To look further, start it again and ask:

  build/tests/fixtures/sample 600 &
  build/memwhy leaks \$!     what is lost, in groups   build/memwhy pins \$!   what keeps memory
  build/memwhy trim \$!      what malloc_trim returns  build/memwhy heap \$!   arenas, sizes
  build/memwhy blocks \$! --size 3400 --fields     what the lost blocks have in common: the call
  build/memwhy --help      everything else
TXT
exit "$status"
