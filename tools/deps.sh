#!/bin/sh
# Installs the Debian packages that a purpose needs, if any are missing.
#
#   tools/deps.sh PURPOSE...       purposes: build demo test matrix real static fuzz lint bench
#   tools/deps.sh --list PURPOSE   prints the packages of a purpose, one a line
#
# The lists below are the only place that names packages. When all are present it costs a few
# milliseconds and prints nothing. It trusts dpkg's data base. NO_DEPS=1 makes it do nothing.
# Exit 1: something is missing and cannot be installed here; the way out is printed.
set -eu

packages_of() {
    case $1 in
    build) echo meson ninja-build gcc libc6-dev pkg-config libzstd-dev libjansson-dev \
        libdw-dev libelf-dev liblzma-dev libiberty-dev libcapstone-dev ;;
    demo) packages_of build ;;
    static) packages_of build && echo zlib1g-dev libbz2-dev ;;
    lint) packages_of build && echo python3 ;;
    bench) packages_of build && echo python3 strace ;;
    fuzz) packages_of build && echo clang libclang-rt-14-dev ;;
    test) packages_of static && echo clang libclang-rt-14-dev libcmocka-dev python3 gdb zstd procps \
        libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0 \
        util-linux git man-db musl-tools binutils xz-utils g++ zlib1g libssl3 libglib2.0-0 \
        libuv1 ;;
    # Programs of another processor for tests/live/matrix.py, optional as well.
    matrix) echo gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user ;;
    # Programs that tests/real explains. Each is optional: without it its test is skipped by name.
    real) echo postgresql redis-server nginx-light nodejs openjdk-17-jdk-headless icinga2-bin \
        icinga2-common ;;
    *)
        echo "deps: unknown purpose '$1'" >&2
        exit 2
        ;;
    esac
}

if [ "${1:-}" = --list ]; then
    shift
    for purpose in "$@"; do packages_of "$purpose" >/dev/null; done # a wrong name ends it here
    for purpose in "$@"; do packages_of "$purpose"; done | tr ' ' '\n' | sort -u
    exit 0
fi
[ -n "${NO_DEPS:-}" ] && exit 0
command -v dpkg-query >/dev/null 2>&1 || exit 0 # not Debian: the build says itself what it lacks

for purpose in "$@"; do packages_of "$purpose" >/dev/null; done
wanted=$(for purpose in "$@"; do packages_of "$purpose"; done | tr ' ' '\n' | sort -u)
# shellcheck disable=SC2086  # a list of package names
present=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' $wanted 2>/dev/null |
    awk 'substr($1, 2, 1) == "i" { print $2 }' | sort -u)
missing=
for package in $wanted; do
    echo "$present" | grep -qxF -- "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
    echo "deps: missing for $*:$missing" >&2
    echo "hint: sudo apt-get install$missing" >&2
    exit 1
fi
echo "deps: installing for $*:$missing"
export DEBIAN_FRONTEND=noninteractive

# Packages of servers would start them; the tests start their own, with their own data.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

log=$(mktemp)
install_packages() {
    # shellcheck disable=SC2086
    apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing \
        >"$log" 2>&1 </dev/null
}
if ! install_packages; then
    apt-get -q -o DPkg::Lock::Timeout=300 update >>"$log" 2>&1 </dev/null || true
    if ! install_packages; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        echo "deps: cannot install:$missing" >&2
        exit 1
    fi
fi
rm -f "$log"
