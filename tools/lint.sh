#!/bin/sh
# `make lint`: runs every tools/lint_*.py; exit 1 if one of them complains.
#
# clang-format is asked at the end and only reports: a file it would change is no failure.
cd "$(dirname "$0")/.." || exit 1
status=0
for lint in tools/lint_*.py; do
    "$lint"
    code=$?
    case $code in
    0) echo "ok    $lint" ;;
    77) echo "skip  $lint" ;;
    *)
        echo "FAIL  $lint"
        status=1
        ;;
    esac
done
if command -v clang-format >/dev/null 2>&1; then
    changed=$(git ls-files '*.c' '*.h' | while read -r file; do
        clang-format --dry-run -Werror "$file" 2>/dev/null || echo "$file"
    done)
    [ -z "$changed" ] || echo "note: clang-format would change: $(echo $changed)"
fi
exit $status
