#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Removes everything that install.sh installed. Configuration and learned state stay, unless --purge.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

purge=
for option; do
    case $option in
    --purge) purge=yes ;;
    -h | --help) say "Usage: packaging/uninstall.sh [--purge]   (DESTDIR and PREFIX as for install.sh)" && exit ;;
    *) die "unknown option: $option" "see --help" ;;
    esac
done

gone() { # PATH...
    local path
    for path; do
        if [ -e "$DESTDIR$path" ] || [ -L "$DESTDIR$path" ]; then
            say "removed $DESTDIR$path"
            rm -rf -- "$DESTDIR${path:?}"
        fi
    done
}

stop() {
    systemd_runs || return 0
    say "services stopped and disabled: ${services[*]}"
    # The sockets first: a request would start a service again.
    systemctl disable --now --quiet "${sockets[@]}" "${services[@]}" 2>/dev/null || true
}

# A stopping daemon restores the default itself; this is for one that was killed and did not come back.
put_back_default() {
    local file=$state/replaced-congestion-control sysctl=/proc/sys/net/ipv4/tcp_congestion_control
    [ ! "$staged" ] && [ -e "$file" ] && [ "$(cat $sysctl)" = mutant ] || return 0
    say "new connections use $(cat "$file") again"
    cat "$file" >$sysctl
    rm "$file"
}

remove_module() {
    [ ! "$staged" ] || return 0
    local installed
    if command -v dkms >/dev/null; then
        for installed in $(dkms_versions); do
            say "module $installed: out of DKMS"
            dkms remove "$module/$installed" --all >/dev/null
            gone "/usr/src/$module-$installed"
        done
    fi
    [ -e "/sys/module/$module" ] || return 0
    if rmmod "$module" 2>/dev/null; then
        say "module unloaded"
    else
        say "module still in use: it stays loaded until its flows end, or until a reboot"
        say "  \`ss -tin | grep -B1 ' m/'\` shows them; then: rmmod $module"
    fi
}

# After the services, which would put the rules in force again.
withdraw_program() {
    [ ! "$staged" ] && [ -x "$bin/ltp-switcher" ] || return 0
    say "no prefix is used any more"
    "$bin/ltp-switcher" unuse --all || true
    "$bin/ltp-switcher" used --withdraw || true
}

need_root
stop
withdraw_program
put_back_default
remove_module
gone "/usr/src/$module-$version" "$lib" "${commands[@]/#/$bin/}" "${services[@]/#/$units/}" "${sockets[@]/#/$units/}" \
    "$sysusers" "$doc" "$watch" "${run[@]}" "${obsolete[@]}"
systemd_runs && systemctl daemon-reload
if [ "$purge" ]; then
    gone "$config" "$state"
    if [ ! "$staged" ]; then
        for user in ltp-switcher-api ltp-switcher; do
            ! getent passwd "$user" >/dev/null || userdel "$user"
        done
        ! getent group ltp-switcher >/dev/null || groupdel ltp-switcher
    fi
else
    for kept in "$config" "$state"; do
        [ ! -e "$DESTDIR$kept" ] || say "kept $DESTDIR$kept (--purge removes it)"
    done
fi
say "done"
