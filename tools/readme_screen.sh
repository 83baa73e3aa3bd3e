#!/bin/sh
# `make readme`: refills the block between the screen marks of README.md with the demo's output.
#
# Only what memwhy itself prints goes in (from "$ memwhy PID" to before the demo's own closing
# words). Nothing is changed when the demo fails or the marks are missing.
set -eu
cd "$(dirname "$0")/.."
grep -q '^<!-- screen:begin -->$' README.md && grep -q '^<!-- screen:end -->$' README.md || {
    echo "readme: README.md has no screen marks" >&2
    exit 1
}
screen=$(mktemp)
page=$(mktemp)
trap 'rm -f "$screen" "$page"' EXIT
tools/demo.sh >"$screen" || {
    echo "readme: the demo ended with $?" >&2
    exit 1
}
awk -v screen="$screen" '
    /^<!-- screen:begin -->$/ {
        print; print "```"
        while ((getline line < screen) > 0) {
            if (line ~ /^That was the sample/) break
            if (line == "") { blank = 1; continue }
            if (blank && started) print ""
            blank = 0; started = 1
            print line
        }
        print "```"; inside = 1; next
    }
    /^<!-- screen:end -->$/ { inside = 0 }
    !inside { print }
' README.md >"$page"
cat "$page" >README.md
echo "readme: README.md now shows what the demo prints"
