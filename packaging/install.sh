#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs module (through DKMS), daemon, API and units. Running it again upgrades or repairs.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

usage() {
    cat <<END
Usage: packaging/install.sh [--no-module] [--no-start]
  --no-module  leave the kernel module out (its source still goes to $module_source)
  --no-start   install the services, but neither enable nor start them
Environment:
  DESTDIR  put every file below this directory, and change nothing else
  PREFIX   where programs go (default /usr; /usr/local works too)
  KERNEL   release of the kernel to build the module for (default: the running one)
  PYTHON   the interpreter to run on (default /usr/bin/python3)
END
}

kernel=${KERNEL:-$(uname -r)}
with_module=yes
with_start=yes
for option; do
    case $option in
    --no-module) with_module= ;;
    --no-start) with_start= ;;
    -h | --help) usage && exit ;;
    *) usage >&2 && die "unknown option: $option" ;;
    esac
done

check_machine() {
    need_root
    "$PYTHON" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        die "Python 3.11 or newer with venv is missing" "apt install python3-venv"
    for program in clang bpftool; do
        command -v $program >/dev/null || [ -x /usr/sbin/$program ] || die "$program is missing" \
            "apt install clang libbpf-dev bpftool (for \`ltp-switcher use\`)"
    done
    [ "$with_module" ] && [ ! "$staged" ] || return 0
    [ "${KERNEL:-}" ] || [ -e /proc/modules ] || die "this kernel ($kernel) cannot load modules" \
        "install on a kernel with CONFIG_MODULES, or leave the module out: --no-module"
    command -v dkms >/dev/null || die "dkms is missing" "apt install dkms"
    [ -e "/lib/modules/$kernel/build/Makefile" ] || die "the headers of this kernel are missing" \
        "apt install linux-headers-$kernel" \
        "(if there is no such package, the kernel was upgraded since it booted: reboot first)"
}

# What can fail comes first and touches nothing that is in use: a module is built apart, an environment in a
# directory of its own. The switch at the end takes moments.
prepare_module() {
    local source=$work/source/$module-$version
    mkdir -p "$source"
    (cd "$root/kmod-mutant" && find . \( -name '*.[ch]' -o -name Makefile -o -name Kbuild \) \
        -not -name '*.mod.c' -not -path './tests/*' -not -path './build/*' -print0 |
        xargs -0 cp --parents -t "$source")
    sed "s/@VERSION@/$version/" "$root/kmod-mutant/dkms.conf" >"$source/dkms.conf"
    [ "$with_module" ] && [ ! "$staged" ] || return 0

    say "module $version: a trial build for $kernel"
    mkdir -p "$work/dkms"
    local log
    if ! log=$(dkms build --dkmstree "$work/dkms" --sourcetree "$work/source" -m "$module/$version" -k "$kernel" 2>&1)
    then
        printf '%s\n' "$log" >&2
        tail -n 20 "$work/dkms/$module/$version/build/make.log" >&2 || true
        die "DKMS could not build the module; nothing was changed"
    fi
}

# The program that gives named flows mutant. It belongs to the environment whose commands load it.
prepare_program() {
    make -s -C "$root/kmod-mutant" bpf BUILD="$work/bpf"
    install -m 644 "$work/bpf/choose.bpf.o" "$DESTDIR$environment"
}

install_module() {
    local place=$DESTDIR$module_source old kept=
    say "module source → $place"
    mkdir -p "$(dirname "$place")"
    if [ -e "$place" ]; then
        kept=$place.before
        rm -rf "$kept"
        mv "$place" "$kept"
    fi
    cp -r "$work/source/$module-$version" "$place"
    if [ "$with_module" ] && [ ! "$staged" ]; then
        say "module $version: DKMS builds and installs it for $kernel"
        # DKMS takes no other source of the same version while it has one.
        ! dkms_versions | grep -qx "$version" || dkms remove "$module/$version" --all >/dev/null
        # By force: DKMS takes the module of another version for this one, and leaves it in its place. And by
        # name: by its path, force has DKMS remove the source before it is read.
        if ! dkms install --force "$module/$version" -k "$kernel" >"$work/dkms.log" 2>&1; then
            cat "$work/dkms.log" >&2
            if [ "$kept" ]; then
                say "module: the one before is installed again"
                dkms remove "$module/$version" --all >/dev/null 2>&1 || true
                rm -rf "$place"
                mv "$kept" "$place"
                dkms install "$module/$version" -k "$kernel" >/dev/null
            fi
            die "DKMS could not install the module"
        fi
        for old in $(dkms_versions); do
            [ "$old" != "$version" ] || continue
            say "module $old: out of DKMS"
            dkms remove "$module/$old" --all >/dev/null
            rm -rf "/usr/src/$module-$old"
        done
    fi
    [ -z "$kept" ] || rm -rf "$kept"
}

# Wheels are fetched once, against the hashes of the lock file; the build tools among them stay in a
# throw-away environment, and the installed one has neither them nor pip.
prepare_python() {
    local pip=("$work/build/bin/pip" --disable-pip-version-check --quiet)
    local offline=(--no-index --find-links "$work/wheels")
    # By its version: the environment outlives a system upgrade that changes /usr/bin/python3.
    local python number=0
    python=$(readlink -f "$PYTHON")

    say "Python packages, checked against requirements-runtime.lock"
    "$python" -m venv "$work/build"
    "${pip[@]}" wheel --require-hashes -r "$root/requirements-runtime.lock" --wheel-dir "$work/wheels"
    "${pip[@]}" install "${offline[@]}" hatchling
    "${pip[@]}" wheel --no-deps --no-build-isolation --wheel-dir "$work/wheels" "$root"

    environment=$lib/$version
    while [ -e "$DESTDIR$environment" ]; do
        number=$((number + 1))
        environment=$lib/$version-$number
    done
    local place=$DESTDIR$environment
    say "daemon and API → $place"
    unfinished=$place
    mkdir -p "$place"
    "$python" -m venv --without-pip "$place"
    "${pip[@]}" --python "$place/bin/python3" install --no-compile "${offline[@]}" "ltp-switcher[fleet]==$version"
    if [ "$staged" ]; then # the environment will live elsewhere than where it was made
        grep -rlIZ "$place" "$place/bin" "$place/pyvenv.cfg" | xargs -0 -r sed -i "s|$place|$environment|g"
    fi
    "$place/bin/python3" -m compileall -q -s "$DESTDIR" "$place"/lib/python3*/site-packages
    "$place/bin/python3" -m ltp_switcher.daemon.cli config --example >"$work/config.example.toml"
    unfinished=
}

# The environment that was in use stays until the next upgrade; running processes load from it.
switch_python() {
    local before command old
    before=$(readlink "$DESTDIR$current" || true)
    say "current → $(basename "$environment")"
    ln -s "$(basename "$environment")" "$DESTDIR$current.new"
    mv -T "$DESTDIR$current.new" "$DESTDIR$current"
    install -m 755 "$root/packaging/launch" "$DESTDIR$lib/launch.new"
    mv -T "$DESTDIR$lib/launch.new" "$DESTDIR$lib/launch"
    for old in "$DESTDIR$lib"/*; do
        case $(basename "$old") in
        current | launch | "$(basename "$environment")" | "${before:-current}") ;;
        *) rm -rf "$old" ;;
        esac
    done
    mkdir -p "$DESTDIR$bin"
    for command in "${commands[@]}"; do
        say "command → $DESTDIR$bin/$command"
        ln -s ../lib/ltp-switcher/launch "$DESTDIR$bin/$command.new"
        mv -T "$DESTDIR$bin/$command.new" "$DESTDIR$bin/$command"
    done
}

clean_up() {
    rm -rf "$work"
    [ -z "$unfinished" ] || rm -rf "$unfinished"
}

# An existing configuration is the administrator's. The example shows new keys.
install_config() {
    mkdir -p "$DESTDIR$doc" "$DESTDIR$config"
    install -m 644 "$work/config.example.toml" "$DESTDIR$doc/config.example.toml"
    if [ -e "$DESTDIR$config/config.toml" ]; then
        say "configuration kept: $DESTDIR$config/config.toml"
    else
        say "configuration → $DESTDIR$config/config.toml; mode: advise (decides and logs, changes nothing)"
        cp "$DESTDIR$doc/config.example.toml" "$DESTDIR$config/config.toml"
    fi
}

# Unit files name paths below /usr.
place() { # SOURCE TARGET
    say "$(basename "$2") → $DESTDIR$2"
    mkdir -p "$DESTDIR$(dirname "$2")"
    sed "s|/usr/bin/ltp|$bin/ltp|; s|/usr/share/doc/ltp|$PREFIX/share/doc/ltp|" "$1" >"$DESTDIR$2"
    chmod 644 "$DESTDIR$2"
}

install_files() {
    local unit
    for unit in "${services[@]}" "${sockets[@]}"; do
        place "$root/packaging/systemd/$unit" "$units/$unit"
    done
    place "$root/packaging/systemd/ltp-switcher.sysusers" "$sysusers"
    drop_routes
    rm -f "${obsolete[@]/#/$DESTDIR}"
    # Only the operator's pages: the others link into the source tree.
    (cd "$root" && install -Dm644 -t "$DESTDIR$doc" CHANGELOG.md docs/{operations,fleet,gain,owl-network,api,netlink}.md LICENSES/*)
    say "documentation → $DESTDIR$doc"
    install -Dm644 -t "$DESTDIR$watch/prometheus" "$root"/packaging/prometheus/*.yml
    install -Dm644 -t "$DESTDIR$watch/grafana" "$root"/packaging/grafana/*.json
    say "alerts, recording rules and a dashboard for Grafana → $DESTDIR$watch"
}

# Earlier versions copied routes. Ours go, with the service that kept them; the prefixes stay in force.
drop_routes() {
    [ ! "$staged" ] && [ -e "$units/ltp-switcher-routes.service" ] || return 0
    say "routes of the earlier version removed"
    ! systemd_runs || systemctl disable --now --quiet ltp-switcher-routes.path ltp-switcher-routes.service
    ip -4 route flush proto 109
    ip -6 route flush proto 109
}

start() {
    systemd_runs || return 0
    say "users and groups"
    systemd-sysusers "$sysusers"
    # Of earlier versions, in which members of the group could replace a socket.
    ! [ -e "${run[0]}" ] || { chown root:root "${run[0]}" && chmod 0755 "${run[0]}"; }
    systemctl daemon-reload
    [ "$with_start" ] || return 0
    say "services enabled and started: ${services[*]}"
    systemctl enable --quiet "${sockets[@]}" "${services[@]}"
    # A service of an earlier version listens by itself.
    systemctl is-active --quiet "${sockets[@]}" || systemctl stop "${services[@]}"
    systemctl start "${sockets[@]}" && systemctl restart "${services[@]}" || die "everything is installed, but the services do not start" \
        "journalctl -u ltp-switcher -u ltp-switcher-api -n 20" "ltp-switcher doctor"
}

check_machine
work=$(mktemp -d)
unfinished=
trap clean_up EXIT
say "ltp-switcher $version"
prepare_module
prepare_python
prepare_program
install_module
switch_python
install_config
install_files
start
say "done; \`ltp-switcher doctor\` checks this machine"
