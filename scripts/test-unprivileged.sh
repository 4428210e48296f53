#!/usr/bin/env bash
# Runs the tests of what needs a machine's truth again as users have it: as root, half of it can't be seen.
#
#   scripts/test-unprivileged.sh            builds the binaries, then runs every row below
#
# Rows: another user's daemon beside holders of this one; the same under hidepid; the same without IPv6; the
# evidence layer as root and as that user. A row that can't be run here is printed, and fails if CI=1.
# Needs root, setpriv and unshare (util-linux), ip (iproute2), mount and python3; with faketime, iptables and unshare
# all cases of a row run.
#
# TEST_UNPRIVILEGED_UID is the user, 65534 unless told.
set -euo pipefail

cd "$(dirname "$0")/.."
uid=${TEST_UNPRIVILEGED_UID:-65534}
missing=0
failed=0

say() { printf 'test-unprivileged: %s\n' "$*"; }

cant() {
    say "can't run: $1: $2"
    missing=$((missing + 1))
}

# Why a row of this kind can't be run; nothing if it can.
obstacle() {
    local program
    [ "$(id -u)" = 0 ] || { echo "needs root"; return; }
    for program in setpriv unshare python3; do
        command -v "$program" >/dev/null || { echo "needs $program"; return; }
    done
    case $1 in
    hidepid)
        unshare --mount sh -c 'mount --make-rprivate / && mount -t proc -o hidepid=2 proc /proc' 2>/dev/null ||
            echo "needs mount namespaces and a /proc of its own"
        ;;
    without-ipv6)
        unshare --net sh -c "$no_ipv6" 2>/dev/null || echo "needs network namespaces, ip and sysctl"
        ;;
    esac
}

no_ipv6='ip link set lo up && echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6'

# The newest test binary of a package's integration test, as cargo names it.
binary() {
    cargo test --no-run --message-format=json --package "$1" --test "$2" 2>/dev/null |
        sed -n "s/.*\"executable\":\"\([^\"]*deps\/$2-[^\"]*\)\".*/\1/p" | tail -n 1
}

# Runs a program in the surroundings of a row.
within() {
    local row=$1
    shift
    case $row in
    plain) "$@" ;;
    hidepid)
        unshare --mount sh -c 'mount --make-rprivate / && mount -t proc -o hidepid=2 proc /proc && exec "$@"' sh "$@"
        ;;
    without-ipv6) unshare --net sh -c "$no_ipv6"' && exec "$@"' sh "$@" ;;
    esac
}

# One row: its name and the program, which prints what it leaves out.
row() {
    local name=$1 surroundings=$2 output why
    shift 2
    why=$(obstacle "$surroundings")
    if [ -n "$why" ]; then
        cant "$name" "$why"
        return
    fi
    output=$(mktemp)
    if within "$surroundings" "$@" >"$output" 2>&1; then
        say "ok: $name: $(grep '^test result:' "$output" | tail -n 1)"
    else
        say "failed: $name"
        cat "$output"
        failed=$((failed + 1))
    fi
    grep -o 'not run.*' "$output" | sort -u | sed 's/^/    /' || true
    rm -f "$output"
}

cargo build --package portreeve
lifecycle=$(binary portreeve-test-harness lifecycle)
evidence=$(binary portreeve-evidence evidence)
[ -x "$lifecycle" ] && [ -x "$evidence" ] || { say "the test binaries can't be built"; exit 1; }

# The daemon's user must reach the binary, wherever the workspace lies.
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
cp "$(dirname "$lifecycle")/../portreeve" "$evidence" "$programs/"
chmod -R a+rX "$programs"
evidence=$programs/$(basename "$evidence")

for surroundings in plain hidepid without-ipv6; do
    row "lifecycle, daemon of uid $uid, $surroundings" "$surroundings" \
        env PORTREEVE_TEST_UID="$uid" PORTREEVE_EXE="$programs/portreeve" "$lifecycle" --show-output
done
# Its own cases make the other surroundings, a thread at a time.
row "evidence" plain "$evidence" --show-output
row "evidence as uid $uid" plain \
    env TMPDIR=/tmp setpriv --reuid="$uid" --regid="$uid" --clear-groups "$evidence" --show-output

if [ "$failed" -gt 0 ]; then
    say "$failed rows failed"
    exit 1
fi
if [ "$missing" -gt 0 ]; then
    say "$missing rows could not be run"
    [ "${CI:-}" != 1 ] && [ "${CI:-}" != true ] || exit 1
fi
