#!/bin/sh
# Makes or updates a Meson build directory, and does nothing when it already is as asked.
#
#   tools/configure.sh DIR COMPILER [-Doption=value...]
#
# DIR/.configured remembers the compiler and the options, one a line, so that `make build` after
# `make test` does not make Ninja start anew. A changed compiler means a new directory.
set -eu
dir=$1
compiler=$2
shift 2
cd "$(dirname "$0")/.."
stamp=$dir/.configured

if [ -f "$dir/build.ninja" ] && [ "$(head -n 1 "$stamp" 2>/dev/null)" = "$compiler" ]; then
    changed=no
    for option in "$@"; do
        grep -qxF -- "$option" "$stamp" || changed=yes
    done
    [ $changed = yes ] || exit 0
    meson configure "$dir" "$@" >/dev/null
    { # the options of before, less those given now, and those given now
        echo "$compiler"
        sed 1d "$stamp" | while read -r old; do
            for option in "$@"; do
                [ "${old%%=*}" = "${option%%=*}" ] && continue 2
            done
            echo "$old"
        done
        printf '%s\n' "$@"
    } >"$stamp.new"
    mv "$stamp.new" "$stamp"
else
    rm -rf "$dir"
    log=$(mktemp)
    if ! CC=$compiler meson setup "$dir" "$@" >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        exit 1
    fi
    rm -f "$log"
    printf '%s\n' "$compiler" "$@" >"$stamp"
fi
