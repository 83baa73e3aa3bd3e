#!/bin/sh
# `make install`: copies the program and its man pages to PREFIX below DESTDIR.
#
#   DESTDIR=... tools/install.sh PREFIX
set -eu
cd "$(dirname "$0")/.."
prefix=${DESTDIR:-}$1
install -d "$prefix/bin" "$prefix/share/man/man1"
install -m 755 build/memwhy "$prefix/bin/memwhy"
for page in man/*.1; do
    install -m 644 "$page" "$prefix/share/man/man1/"
done
echo "installed $prefix/bin/memwhy and $(ls man/*.1 | wc -l) man pages"
