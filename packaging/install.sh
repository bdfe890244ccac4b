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
    [ "$with_module" ] && [ ! "$staged" ] || return 0
    [ "${KERNEL:-}" ] || [ -e /proc/modules ] || die "this kernel ($kernel) cannot load modules" \
        "install on a kernel with CONFIG_MODULES, or leave the module out: --no-module"
    command -v dkms >/dev/null || die "dkms is missing" "apt install dkms"
    [ -e "/lib/modules/$kernel/build/Makefile" ] || die "the headers of this kernel are missing" \
        "apt install linux-headers-$kernel" \
        "(if there is no such package, the kernel was upgraded since it booted: reboot first)"
}

install_module() {
    say "module source → $DESTDIR$module_source"
    rm -rf "$DESTDIR$module_source"
    mkdir -p "$DESTDIR$module_source"
    (cd "$root/kmod-mutant" && find . \( -name '*.[ch]' -o -name Makefile -o -name Kbuild \) \
        -not -name '*.mod.c' -not -path './tests/*' -not -path './build/*' -print0 |
        xargs -0 cp --parents -t "$DESTDIR$module_source")
    sed "s/@VERSION@/$version/" "$root/kmod-mutant/dkms.conf" >"$DESTDIR$module_source/dkms.conf"
    [ "$with_module" ] && [ ! "$staged" ] || return 0

    local old
    for old in $(dkms_versions); do
        say "module $old: out of DKMS"
        dkms remove "$module/$old" --all >/dev/null
        [ "$old" = "$version" ] || rm -rf "/usr/src/$module-$old"
    done
    say "module $version: DKMS builds and installs it for $kernel"
    local log
    if ! log=$(dkms install "$module_source" -k "$kernel" 2>&1); then
        printf '%s\n' "$log" >&2
        tail -n 20 "/var/lib/dkms/$module/$version/build/make.log" >&2 || true
        die "DKMS could not build the module" \
            "its log: /var/lib/dkms/$module/$version/build/make.log"
    fi
}

# Wheels are fetched once, against the hashes of the lock file; the build tools among them stay in a
# throw-away environment, and the installed one has neither them nor pip.
install_python() {
    local work
    work=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    local pip=("$work/build/bin/pip" --disable-pip-version-check --quiet)
    local offline=(--no-index --find-links "$work/wheels")

    say "Python packages, checked against requirements-runtime.lock"
    "$PYTHON" -m venv "$work/build"
    "${pip[@]}" wheel --require-hashes -r "$root/requirements-runtime.lock" --wheel-dir "$work/wheels"
    "${pip[@]}" install "${offline[@]}" hatchling
    "${pip[@]}" wheel --no-deps --no-build-isolation --wheel-dir "$work/wheels" "$root"

    say "daemon and API → $DESTDIR$lib"
    rm -rf "$DESTDIR$lib"
    mkdir -p "$DESTDIR$lib"
    "$PYTHON" -m venv --without-pip "$DESTDIR$lib"
    "${pip[@]}" --python "$DESTDIR$lib/bin/python3" install --no-compile "${offline[@]}" "ltp-switcher==$version"
    if [ "$staged" ]; then # the environment will live elsewhere than where it was made
        grep -rlIZ "$DESTDIR$lib" "$DESTDIR$lib/bin" "$DESTDIR$lib/pyvenv.cfg" |
            xargs -0 -r sed -i "s|$DESTDIR$lib|$lib|g"
    fi
    "$DESTDIR$lib/bin/python3" -m compileall -q -s "$DESTDIR" "$DESTDIR$lib"/lib/python3*/site-packages

    local command
    mkdir -p "$DESTDIR$bin"
    for command in "${commands[@]}"; do
        say "command → $DESTDIR$bin/$command"
        ln -sfn "../lib/ltp-switcher/bin/$command" "$DESTDIR$bin/$command"
    done
}

# An existing configuration is the administrator's. The example shows new keys.
install_config() {
    mkdir -p "$DESTDIR$doc" "$DESTDIR$config"
    "$DESTDIR$lib/bin/python3" -m ltp_switcher.daemon.cli config --example >"$DESTDIR$doc/config.example.toml"
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
    for unit in "${services[@]}"; do place "$root/packaging/systemd/$unit" "$units/$unit"; done
    place "$root/packaging/systemd/ltp-switcher.sysusers" "$sysusers"
    place "$root/packaging/systemd/ltp-switcher.tmpfiles" "$tmpfiles"
    # Only the operator's pages: the others link into the source tree.
    (cd "$root" && install -Dm644 -t "$DESTDIR$doc" CHANGELOG.md docs/{operations,api,netlink}.md LICENSES/*)
    say "documentation → $DESTDIR$doc"
}

start() {
    systemd_runs || return 0
    say "users and groups"
    systemd-sysusers "$sysusers"
    systemd-tmpfiles --create "$tmpfiles"
    systemctl daemon-reload
    [ "$with_start" ] || return 0
    say "services enabled and started: ${services[*]}"
    systemctl enable --quiet "${services[@]}"
    systemctl restart "${services[@]}" || die "everything is installed, but the services do not start" \
        "journalctl -u ltp-switcher -u ltp-switcher-api -n 20" "ltp-switcher doctor"
}

check_machine
say "ltp-switcher $version"
install_module
install_python
install_config
install_files
start
say "done; \`ltp-switcher doctor\` checks this machine"
