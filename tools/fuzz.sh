#!/bin/sh
# `make fuzz`: runs each fuzz target for some seconds with ASan and UBSan, and says how many inputs
# that were.
#
#   tools/fuzz.sh SECONDS [TARGET...]
#
# With libFuzzer where clang has it, else with the random mutants of tests/fuzz/driver.c. New inputs
# are kept in build-fuzz/corpus/<target>, the corpus in the tree is only read. An input that fails is
# left in build-fuzz/ and named; add it to tests/fuzz/corpus/<target>/ with its fix.
set -eu
cd "$(dirname "$0")/.."
seconds=$1
shift
if echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
    clang -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null; then
    engine=libFuzzer
    tools/configure.sh build-fuzz clang -Dfuzz=true -Dtests=enabled \
        -Db_sanitize=address,undefined -Db_lundef=false
else
    engine='random mutants'
    tools/configure.sh build-fuzz gcc -Dfuzz=false -Dtests=enabled -Db_sanitize=address,undefined
fi
if [ $# -eq 0 ]; then
    for source in tests/fuzz/fuzz_*.c; do
        name=${source##*/fuzz_}
        set -- "$@" "${name%.c}"
    done
fi
# shellcheck disable=SC2046  # one word a target
ninja -C build-fuzz $(printf 'tests/fuzz/fuzz_%s ' "$@") >build-fuzz/ninja.log || {
    cat build-fuzz/ninja.log >&2
    exit 1
}
export UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:print_stacktrace=1
status=0

# Without entropic scheduling: with the thousands of features that a whole analysis has, it takes
# more time than the target.
run_target() {
    program=build-fuzz/tests/fuzz/fuzz_$1
    if [ "$engine" = libFuzzer ]; then
        # shellcheck disable=SC2086  # no seeds: no argument
        "$program" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=60 -entropic=0 \
            -print_final_stats=1 -artifact_prefix="build-fuzz/$1-" "$kept" $seeds
    else
        ASAN_OPTIONS=abort_on_error=1 "$program" --mutate "$seconds" "$(date +%s)" \
            "build-fuzz/$1-crash" $seeds
    fi
}

for target in "$@"; do
    kept=build-fuzz/corpus/$target
    mkdir -p "$kept"
    seeds=tests/fuzz/corpus/$target
    [ -d "$seeds" ] || seeds=
    if ! run_target "$target" >"build-fuzz/$target.log" 2>&1; then
        tail -n 60 "build-fuzz/$target.log"
        echo "$target: FAILED"
        status=1
    fi
    awk -v target="$target" -v seconds="$seconds" -v engine="$engine" '
        /^stat::number_of_executed_units/ { count = $2 }
        /^stat::average_exec_per_sec/ { rate = $2 }
        END { printf "%s: %d executions in %d s, %d a second (%s)\n", target, count, seconds, rate,
              engine }' "build-fuzz/$target.log"
done
exit $status
