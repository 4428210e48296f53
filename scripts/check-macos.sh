#!/usr/bin/env bash
# Type-checks, or links, for macOS on a Linux machine. Nothing is run: there is no Mac here.
#
#   scripts/check-macos.sh check [PACKAGE…]   type-checks (portreeve-evidence unless told); no C is compiled
#   scripts/check-macos.sh link               builds the whole binary, SQLite's C included, to a Mach-O file
#
# The standard library for macOS comes from rustup where that has the target or can get it. Otherwise it is
# built from source by Debian's newer toolchain (rustc-web, cargo-web, rust-web-src), installed if missing and
# if this is root. `link` also needs Python's venv module, and gets a linker (ziglang, cargo-zigbuild) into a
# virtual environment below its target directory. CHECK_MACOS_STD=source skips rustup.
#
# Builds go to CHECK_MACOS_TARGET_DIR, or else to target/macos: never among those of this machine's own.
set -euo pipefail

target=aarch64-apple-darwin
cd "$(dirname "$0")/.."
mode=${1:-}
export CARGO_TARGET_DIR=${CHECK_MACOS_TARGET_DIR:-$PWD/target/macos}
cargo=(cargo)
std=()

say() { printf 'check-macos: %s\n' "$*" >&2; }

# A package of Debian's, unless the program is there.
want() {
    local program=$1 package=$2
    [ -e "$program" ] && return
    if [ "$(id -u)" != 0 ]; then
        say "$program is missing; install $package"
        exit 1
    fi
    say "installing $package"
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "$package" >/dev/null
}

# Which toolchain has, or can make, a standard library for macOS.
choose_std() {
    if [ "${CHECK_MACOS_STD:-}" != source ] && command -v rustup >/dev/null; then
        if rustup target list --installed | grep -qx "$target" || timeout 120 rustup target add "$target"; then
            say "standard library from rustup"
            return
        fi
    fi
    want /usr/bin/rustc rustc-web
    want /usr/bin/cargo cargo-web
    # rustc-web may be older than this workspace until the package list is read again.
    want /usr/lib/rustlib/src/rust/library/std/Cargo.toml rust-web-src
    local need have
    need=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    have=$(/usr/bin/rustc --version | cut -d' ' -f2)
    if [ "$(printf '%s\n' "$need" "$have" | sort -V | head -n 1)" != "$need" ]; then
        [ "$(id -u)" = 0 ] || { say "/usr/bin/rustc $have is older than $need"; exit 1; }
        say "updating rustc-web from $have"
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends rustc-web cargo-web rust-web-src >/dev/null
    fi
    say "standard library from source, by $(/usr/bin/rustc --version)"
    export RUSTC=/usr/bin/rustc CARGO=/usr/bin/cargo RUSTC_BOOTSTRAP=1
    cargo=(/usr/bin/cargo)
    std=(-Zbuild-std=std,panic_unwind)
    CARGO_TARGET_DIR=$CARGO_TARGET_DIR/source
}

case $mode in
check)
    shift
    packages=("$@")
    [ ${#packages[@]} -gt 0 ] || packages=(portreeve-evidence)
    choose_std
    "${cargo[@]}" check "${packages[@]/#/--package=}" "${std[@]}" --target "$target"
    ;;
link)
    choose_std
    venv=$CARGO_TARGET_DIR/venv
    if [ ! -x "$venv/bin/cargo-zigbuild" ]; then
        say "installing ziglang and cargo-zigbuild below $venv"
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet ziglang cargo-zigbuild
    fi
    # Debian's toolchain, where it was chosen, has to be met before rustup's.
    path=$venv/bin:$PATH
    [ ${#std[@]} -eq 0 ] || path=$venv/bin:/usr/bin:$PATH
    # strip is the host's, and knows no Mach-O.
    PATH=$path CARGO_PROFILE_RELEASE_STRIP=none cargo-zigbuild zigbuild --package portreeve "${std[@]}" \
        --target "$target" --release
    file=$CARGO_TARGET_DIR/$target/release/portreeve
    magic=$(head -c 4 "$file" | od -An -tx1 | tr -d ' ')
    [ "$magic" = cffaedfe ] || { say "$file is no 64-bit Mach-O file"; exit 1; }
    say "linked $file ($(wc -c <"$file") bytes), not run"
    ;;
*)
    sed -n '2,14s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
