# SPDX-License-Identifier: Apache-2.0
# For run.sh and chroot.sh: checks, apt, and a memory of what was there before the packages.
# shellcheck shell=bash disable=SC2034
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
packages=(ltp-switcher-dkms ltp-switcher ltp-switcher-api ltp-owl-agent)
sysctl=/proc/sys/net/ipv4/tcp_congestion_control
step=none

step() { step=$1; }
check() { # NAME COMMAND…
    local name=$1 ok=true said began=$EPOCHREALTIME
    shift
    said=$("$@" 2>&1) || ok=false
    # Bash makes nothing of a text that is shorter than the part asked for.
    [ ${#said} -le 2000 ] || said=${said: -2000}
    # A serial port is a terminal: without -M jq writes colours.
    jq -Mnc --arg step "$step" --arg check "$name" --argjson ok $ok --arg said "$said" \
        --arg began "$began" --arg ended "$EPOCHREALTIME" \
        '{$step, $check, $ok, s: (($ended | tonumber) - ($began | tonumber)), $said}' >>"$report"
    $ok || { journalctl -b -n 60 --no-pager >/dev/ttyS0 2>/dev/null; false; }
}
eventually() { # COMMAND…: within ten minutes
    local until=$((SECONDS + 600)) said
    until said=$("$@" 2>&1); do
        [ $SECONDS -lt $until ] || { echo "$said" && return 1; }
        sleep 1
    done
    echo "$said"
}
is() { [ "$1" = "$2" ] || { printf 'is: %s\nwanted: %s\n' "$1" "$2" && false; }; }
# apt's own questions and progress are no part of the result.
apt_get() { apt-get -y -q -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold "$@" </dev/null; }
at_version() { apt_get install --allow-downgrades "${packages[@]/%/=$1}"; }
upstream() { echo "${1%+deb*}"; }
module_of() { # VERSION: DKMS has this one alone, for this kernel
    is "$(dkms status -m tcp_mutant | tr -d ' ')" "tcp_mutant/$1,$kernel,x86_64:installed"
}

# All that a purge has to take away. Debian's own notes of what was installed are not counted, nor the key that DKMS
# makes at its first build.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var/tmp -o -path /var/log \
        -o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /run -o -path /root \) -prune \
        -o -not -name __pycache__ -not -name '*.pyc' -not -path '/var/lib/dkms/mok.*' \
        -not -path /var/lib/systemd/random-seed -not -path '/var/backups/*' -print | sort
    find /run -xdev -iname '*ltp*' | sort
}
others() { # units, users and groups, routes, BPF, sysctl
    systemctl list-unit-files --no-legend 'ltp-*' 'modprobe@tcp*'
    systemctl list-units --all --no-legend --plain 'ltp-*'
    getent passwd | cut -d: -f1 | sort
    getent group | cut -d: -f1 | sort
    ip route show table all proto 109
    ls /sys/fs/bpf
    bpftool cgroup show /sys/fs/cgroup 2>/dev/null | grep choose_mutant
    cat $sysctl
    dkms status
    ls -d /sys/module/tcp_mutant 2>/dev/null
    grep tcp_mutant "/lib/modules/$kernel/modules.dep"
    dpkg -l 'ltp-*' 2>/dev/null | grep '^[a-z]i\|^[a-z]c\|^r'
}
# At home, which a reboot keeps and `files` leaves out.
remember() {
    files >~/files.before
    others >~/others.before
}
nothing_left() {
    diff ~/files.before <(files) && diff ~/others.before <(others)
}

use_archive() { # FOLDER: the only source of packages
    # DKMS's compiler finds the module's objects there; see machine.py.
    export DEBIAN_KERNEL_USE_CCACHE=1 CCACHE_DIR=$1/ccache CCACHE_READONLY=1 CCACHE_NOSTATS=1 CCACHE_TEMPDIR=/run
    # The objects were compiled without a locale.
    export CCACHE_SLOPPINESS=locale
    echo "deb [trusted=yes] file:$1/debs ./" >/etc/apt/sources.list
    rm -f /etc/apt/sources.list.d/*
    check "apt knows the packages" apt-get update -q
}
