#!/bin/sh
# `make fuzz`: runs each fuzz target for some seconds with libFuzzer, ASan and UBSan.
#
#   tools/fuzz.sh SECONDS [TARGET...]
#
# New inputs are kept in build-fuzz/corpus/<target>, the corpus in the tree is only read. An input
# that fails is left in build-fuzz/ and named; add it to tests/fuzz/corpus/<target>/ with its fix.
set -eu
cd "$(dirname "$0")/.."
seconds=$1
shift
tools/configure.sh build-fuzz clang -Dfuzz=true -Dtests=enabled -Db_sanitize=address,undefined \
    -Db_lundef=false
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
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
status=0
for target in "$@"; do
    kept=build-fuzz/corpus/$target
    mkdir -p "$kept"
    seeds=tests/fuzz/corpus/$target
    [ -d "$seeds" ] || seeds=
    echo "== $target, $seconds s"
    # shellcheck disable=SC2086  # no seeds: no argument
    if ! "build-fuzz/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -rss_limit_mb=2048 \
        -timeout=10 -print_final_stats=1 -artifact_prefix="build-fuzz/$target-" "$kept" $seeds \
        >"build-fuzz/$target.log" 2>&1; then
        tail -n 60 "build-fuzz/$target.log"
        status=1
    fi
    grep -E '^stat::number_of_executed_units' "build-fuzz/$target.log" || true
done
exit $status
