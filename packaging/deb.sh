#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages from this tree. Run by `make deb`, which prepares .venv and Debian's tools.
#
# The packages bundle wheels, because Debian 12's numpy is too old. Only the BPF program is compiled, once for all
# kernels. So one machine builds for every release: it only decides which version of Python the wheels are for.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

usage() {
    cat <<END
Usage: packaging/deb.sh [--release 12|13]... [--version VERSION] [--out DIR]
  --release  release of Debian (default: 12 and 13)
  --version  version of the packages (default: $version)
  --out      where the packages go (default: dist)
END
}

declare -A pythons=([12]=3.11 [13]=3.13)
declare -A suites=([12]=bookworm [13]=trixie)
# Of the packages that pyproject.toml names, those that the daemon and its command line use, and the agent's.
daemon_packages=(numpy rich shtab valkey async-timeout)
agent_packages=(fastapi pyroute2 uvicorn)
daemon_kib_max=$((250 * 1024))
releases=()
out=$root/dist
while [ $# -gt 0 ]; do
    case $1 in
    --release) releases+=("$2") && shift 2 ;;
    --version) version=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    -h | --help) usage && exit ;;
    *) usage >&2 && die "unknown option: $1" ;;
    esac
done
[ ${#releases[@]} -gt 0 ] || releases=(12 13)
pip=("$root/.venv/bin/pip" --disable-pip-version-check --quiet)

copy_tree() {
    tree=$work/tree
    mkdir -p "$tree"
    (cd "$root" && git ls-files -z --cached --others --exclude-standard |
        xargs -0 sh -c 'for f; do [ ! -e "$f" ] && [ ! -L "$f" ] || printf "%s\0" "$f"; done' sh |
        tar -c --null -T - | tar -x -C "$tree")
    sed -i "s/^__version__ = .*/__version__ = \"$version\"/" "$tree/src/ltp_switcher/__init__.py"
}

# The wheels for a version of Python, checked against the lock file, once.
fetch_wheels() { # PYTHON
    local name
    name=$1-$(sha256sum "$root/requirements-runtime.lock" | cut -c -12)
    wheels=${LTP_CACHE:-$root/.cache}/deb-wheels/$name
    target=(--only-binary :all: --implementation cp --python-version "$1"
        --abi "cp${1/./}" --abi abi3 --abi none --platform any)
    for platform in manylinux_2_28 manylinux_2_27 manylinux_2_17 manylinux2014; do
        target+=(--platform "${platform}_x86_64")
    done
    [ ! -e "$wheels" ] || return 0
    say "wheels for Python $1 → $wheels"
    rm -rf "$wheels.part"
    "${pip[@]}" download "${target[@]}" --require-hashes -r "$root/requirements-runtime.lock" -d "$wheels.part"
    mv "$wheels.part" "$wheels"
}

# The packages' files as pip lays them out, without parts that only developers use.
unpack() { # PLACE REQUIREMENT…
    local place=$1
    shift
    "${pip[@]}" install "${target[@]}" --no-index --find-links "$wheels" --find-links "$work/wheel" \
        --no-compile --target "$place" "$@"
    rm -rf "$place/bin" "$place/ltp_switcher/eval" "$place"/numpy/{f2py,distutils,typing/tests}
    find "$place" -type d -name tests -prune -exec rm -rf {} +
    find "$place" \( -name '*.pyi' -o -name '*.h' -o -name '*.a' -o -name '*.pyx' -o -name '*.pxd' \) -delete
    # pip's notes about where it found a package, and that it was asked to install it.
    find "$place" -path '*.dist-info/*' \( -name REQUESTED -o -name direct_url.json -o -name RECORD \) -delete
    # No interpreter of another machine, and no program where a module is.
    find "$place" -type f -exec chmod 644 {} +
    find "$place" -name '*.py' -exec sed -i '1{/^#!/d}' {} +
}

stage() {
    local all=$stage/all
    local daemon=$stage/ltp-switcher/usr/lib/ltp-switcher/python
    local api=$stage/ltp-switcher-api/usr/lib/ltp-switcher/python
    local agent=$stage/ltp-owl-agent/usr/lib/ltp-owl-agent/python
    unpack "$all" "ltp-switcher[fleet]==$version"
    unpack "$daemon" "${daemon_packages[@]}"
    cp -r "$all"/ltp_switcher{,-*.dist-info} "$daemon"
    rm -r "$daemon/ltp_switcher/api"
    unpack "$agent" "${agent_packages[@]}"
    cp -r "$all"/ltp_switcher{,-*.dist-info} "$agent"
    mkdir -p "$api"
    cp -r "$all/." "$api"
    (cd "$daemon" && find . -type f -print0) | (cd "$api" && xargs -0 rm -f)
    find "$api" -type d -empty -delete
    rm -r "$all"

    "$root/.venv/bin/python" "$root/packaging/manual.py" "$stage"
    program ltp-switcher ltp-switcher ltp_switcher.daemon.cli.main
    program ltp-switcher-fleet ltp-switcher ltp_switcher.daemon.fleet.process
    # It is part of the daemon's package.
    cp -r "$stage/ltp-switcher-fleet/." "$stage/ltp-switcher"
    rm -r "$stage/ltp-switcher-fleet"
    program ltp-switcher-api ltp-switcher ltp_switcher.api.main
    program ltp-owl-agent ltp-owl-agent ltp_switcher.api.network_agent.main
    install -Dm644 "$root/packaging/config.toml" "$stage/ltp-switcher/etc/ltp-switcher/config.toml"
    install -Dm644 -t "$stage/ltp-switcher/usr/lib/ltp-switcher" "$root/kmod-mutant/build/choose.bpf.o"
    install -Dm644 -t "$stage/ltp-switcher/usr/share/doc/ltp-switcher" "$root"/docs/{operations,fleet,gain,owl-network,api,netlink}.md

    local watch=$stage/ltp-switcher-api/usr/share/ltp-switcher-api
    install -Dm644 -t "$watch/prometheus" "$root"/packaging/prometheus/*.yml
    install -Dm644 -t "$watch/grafana" "$root"/packaging/grafana/*.json

    local source=$stage/ltp-switcher-dkms/usr/src/$module-$version
    mkdir -p "$source"
    (cd "$root/kmod-mutant" && git ls-files -z -- '*.c' '*.h' Makefile Kbuild ':!tests' |
        xargs -0 cp --parents -t "$source")
    cp "$root/packaging/systemd/ltp-switcher.sysusers" "$tree/debian/ltp-switcher.sysusers"
    units ltp-switcher ltp-switcher.{socket,service} ltp-switcher-use.{path,service} ltp-switcher-network.service \
        ltp-switcher-fleet.service
    units ltp-switcher-api ltp-switcher-api.{socket,service}
    units ltp-owl-agent ltp-owl-agent.service
}

# Debian 12's debhelper looks for units here alone; debian/rules moves them to /usr.
units() { # PACKAGE UNIT…
    local package=$1
    shift
    install -Dm644 -t "$stage/$package/lib/systemd/system" "${@/#/$root/packaging/systemd/}"
}

program() { # PROGRAM PACKAGE MODULE
    mkdir -p "$stage/$1"/usr/{bin,"lib/$2/bin"}
    local words="s/@PROGRAM@/$1/; s/@PACKAGE@/$2/; s/@MODULE@/$3/; s/@PYTHON@/$python/g"
    sed "$words" "$root/packaging/debian/launch" >"$stage/$1/usr/bin/$1"
    sed "$words" "$root/packaging/debian/program" >"$stage/$1/usr/lib/$2/bin/$1"
    chmod 755 "$stage/$1/usr/bin/$1"
}

debian_folder() { # RELEASE
    rm -rf "$tree/debian"
    cp -r "$root/packaging/debian" "$tree/debian"
    rm "$tree/debian"/{launch,program,lintian-overrides}
    find "$tree/debian" -type f -exec sed -i "s/@VERSION@/$version/g; s/@PYTHON@/$python/g" {} +
    sed "s/@VERSION@/$version/" "$root/kmod-mutant/dkms.conf" >"$tree/debian/ltp-switcher-dkms.dkms"
    for package in ltp-switcher ltp-switcher-api ltp-owl-agent; do
        sed "s/@PACKAGE@/$package/" "$root/packaging/debian/lintian-overrides" \
            >"$tree/debian/$package.lintian-overrides"
    done
    cat >"$tree/debian/changelog" <<END
ltp-switcher ($version+deb${1}u1) ${suites[$1]}; urgency=medium

  * Version $version. /usr/share/doc/ltp-switcher has the list of changes.

 -- The ltp-switcher authors <ltp-switcher@localhost>  $(git -C "$root" log -1 --format=%cD)
END
}

build() { # RELEASE
    python=${pythons[$1]:-}
    [ "$python" ] || die "Debian $1 is not known" "known: ${!pythons[*]}"
    stage=$tree/stage
    rm -rf "$stage"
    fetch_wheels "$python"
    debian_folder "$1"
    stage
    say "Debian $1: packages"
    (cd "$tree" && dpkg-buildpackage -b -us -uc) >"$work/build.log" 2>&1 || {
        tail -n 30 "$work/build.log" >&2
        die "dpkg-buildpackage failed"
    }
    say "Debian $1: lintian"
    lintian --fail-on error,warning --suppress-tags "$(paste -sd, <"$root/packaging/lintian-suppressed")" \
        "$work"/*+deb"$1"u1_*.changes || die "lintian has complaints"
}

sizes() {
    local file kib
    say "installed, KiB:"
    for file in "$work"/*.deb; do
        kib=$(dpkg-deb -f "$file" Installed-Size)
        printf '  %8d  %s\n' "$kib" "$(basename "$file")"
        case $(basename "$file") in
        ltp-switcher_*) [ "$kib" -le "$daemon_kib_max" ] || die "the daemon is larger than $daemon_kib_max KiB" ;;
        esac
    done
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copy_tree
make -s -C "$root/kmod-mutant" bpf
"${pip[@]}" wheel --no-deps --no-build-isolation --wheel-dir "$work/wheel" "$tree"
for release in "${releases[@]}"; do build "$release"; done
sizes
mkdir -p "$out"
mv "$work"/*.deb "$out"
say "packages → $out"
