#!/bin/sh
# Installs Sluice from a folder, or from an address that has the files of a release:
#
#     install.sh FROM [PREFIX]
#
# FROM is a folder or an address with SHA256SUMS and sluice-VERSION-ARCH-linux.tar.gz. PREFIX is /usr/local for root and
# ~/.local for others. Nothing is installed whose checksum is not in SHA256SUMS.
set -eu

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

from=${1:?"usage: install.sh FROM [PREFIX]"}
if [ "$(id -u)" = 0 ]; then prefix=${2:-/usr/local}; else prefix=${2:-$HOME/.local}; fi
[ "$(uname -s)" = Linux ] || fail "Sluice runs on Linux"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

get() {
    case $from in
        http://* | https://*)
            if command -v curl >/dev/null; then
                curl -fsSL --retry 3 -o "$work/$1" "${from%/}/$1" || fail "cannot fetch $1 from $from"
            elif command -v wget >/dev/null; then
                wget -q -O "$work/$1" "${from%/}/$1" || fail "cannot fetch $1 from $from"
            else
                fail "install curl or wget"
            fi
            ;;
        *) cp "$from/$1" "$work/$1" || fail "there is no $1 in $from" ;;
    esac
}

get SHA256SUMS
archive=$(awk -v end="-$(uname -m)-linux.tar.gz" '
    $2 ~ /^sluice-[0-9A-Za-z._+~-]+$/ && substr($2, length($2) - length(end) + 1) == end { print $2 }
' "$work/SHA256SUMS" | tail -n 1)
[ -n "$archive" ] || fail "SHA256SUMS names no archive for $(uname -m)"
get "$archive"
(cd "$work" && awk -v name="$archive" '$2 == name' SHA256SUMS | sha256sum --check --status) ||
    fail "the checksum of $archive is not that of SHA256SUMS; nothing was installed"

mkdir -p "$prefix"
unpack() { tar -xzf "$work/$archive" --strip-components=1 --no-same-owner --no-overwrite-dir "$@"; }
unpack -C "$prefix" --exclude='*/lib/systemd'
unpack -C "$work" --wildcards '*/lib/systemd/*'
# The units name the programs of the package. systemd looks for those of a user who is not root elsewhere.
if [ "$(id -u)" = 0 ]; then units=lib/systemd; else units=share/systemd; fi
for unit in system/sluice.service user/sluice.service; do
    mkdir -p "$(dirname "$prefix/$units/$unit")"
    sed "s,/usr/bin/sluice,$prefix/bin/sluice,;s,/usr/share/doc,$prefix/share/doc," "$work/lib/systemd/$unit" \
        >"$prefix/$units/$unit"
done
"$prefix/bin/sluice" -V >/dev/null || fail "$prefix/bin/sluice does not run on this machine"
echo "installed $("$prefix/bin/sluice" -V) in $prefix"
case ":$PATH:" in *":$prefix/bin:"*) ;; *) echo "add $prefix/bin to PATH" ;; esac
