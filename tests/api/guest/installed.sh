#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs in a machine with systemd on which `make install` was done: does everything work, and go again?
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
sysctl=/proc/sys/net/ipv4/tcp_congestion_control

check() { # NAME COMMAND…
    local name=$1
    shift
    if "$@"; then echo "CHECK ok $name"; else echo "CHECK failed $name"; fi
}
eventually() { # COMMAND…: within five minutes
    local _
    for _ in {1..300}; do
        if "$@"; then return; fi
        sleep 1
    done
    return 1
}
pid_of() { systemctl show -p MainPID --value "$1"; }
is() { [ "$1" = "$2" ]; }
status() { sed -n "s/^$2:\s*//p" "/proc/$(pid_of "$1")/status"; }
get() { curl -sS --unix-socket /run/ltp-switcher-api/api.sock "http://localhost$1" "${@:2}"; }
as() { setpriv --reuid=nobody --regid="$1" --clear-groups curl -sf -o /dev/null --unix-socket /run/ltp-switcher-api/api.sock http://localhost/health; }
ready() { get /health | jq -e .ready >/dev/null; }
has_flows() { get /v1/flows | jq -e '.total > 0' >/dev/null; }
restarted() { # PID-BEFORE
    systemctl is-active -q ltp-switcher && [ "$(pid_of ltp-switcher)" != "$1" ]
}

before=$(cat $sysctl)
sed -i 's/^#mode = .*/mode = "active"/; s/^#take_default = .*/take_default = true/' /etc/ltp-switcher/config.toml

units=(ltp-switcher.socket ltp-switcher-api.socket ltp-switcher.service ltp-switcher-api.service)
check "services start" systemctl enable --now "${units[@]}"
check "units are clean" systemd-analyze verify "${units[@]}"
check "module is DKMS's" grep "tcp_mutant.*installed" <(dkms status)
check "daemon is no root" is "$(stat -c %U "/proc/$(pid_of ltp-switcher)")" ltp-switcher
check "daemon has CAP_NET_ADMIN alone" is "$(status ltp-switcher CapEff) $(status ltp-switcher CapBnd)" \
    "0000000000001000 0000000000001000"
check "API has no capability" is "$(status ltp-switcher-api CapBnd)" 0000000000000000
check "API is ready" eventually ready
check "mode is the configuration's" is "$(get /v1/mode | jq -r .mode)" active
check "socket is 0660" is "$(stat -c '%a %G' /run/ltp-switcher-api/api.sock)" "660 ltp-switcher"
check "the socket's folder is root's" is "$(stat -c '%U %a' /run/ltp-switcher /run/ltp-switcher-api)" $'root 755\nroot 755'
check "the group is served" as ltp-switcher
check "others are refused" eval '! as nogroup'
check "default is taken" is "$(cat $sysctl)" mutant

iperf3 -s -D
iperf3 -c 127.0.0.1 -t 300 >/dev/null &
check "flows are seen" eventually has_flows

victim=$(pid_of ltp-switcher)
kill -9 "$victim"
check "killed daemon comes back" eventually restarted "$victim"
victim=$(pid_of ltp-switcher)
kill -STOP "$victim"
check "hanging daemon is restarted" eventually restarted "$victim"
check "service is active again" eventually systemctl is-active --quiet ltp-switcher
check "reload" systemctl reload ltp-switcher

check "a choice is taken" get "/v1/k" -X PUT --json '{"k": 2}'
until [ -e /tmp/restarted ]; do get /v1/mode | jq -e .mode >/dev/null || echo refused; done >/tmp/refused 2>&1 &
asking=$!
systemctl restart ltp-switcher ltp-switcher-api
systemctl restart ltp-switcher-api ltp-switcher
touch /tmp/restarted
wait $asking
check "a restart refuses no request" is "$(cat /tmp/refused)" ""
check "a choice outlives a restart" is "$(get /v1/k)" '{"k":2}'
check "a change has its author" is "$(get /v1/changes | jq -r '.changes[0].caller | "\(.uid) \(.via.uid)"')" "0 $(id -u ltp-switcher-api)"

cp -r /checkout /broken
echo '#error "no module"' >>/broken/kmod-mutant/mutant_main.c
check "an upgrade that cannot build fails" eval '! /broken/packaging/install.sh'
check "and leaves the module" grep "tcp_mutant.*installed" <(dkms status)
check "and the service" get /health

systemctl stop ltp-switcher.socket
check "default is given back" is "$(cat $sysctl)" "$before"
check "API says that the daemon is down" is "$(get /health | jq .status)" 503
# Stopped while it waits to be restarted: no daemon is there that could give anything back.
systemctl start ltp-switcher
systemctl kill -s KILL ltp-switcher
systemctl stop ltp-switcher
check "default is given back after a crash" is "$(cat $sysctl)" "$before"
kill %1

check "uninstall" /checkout/packaging/uninstall.sh --purge
left=$(find /usr /etc /var/lib /run/ltp-switcher /run/ltp-switcher-api -iname '*ltp-switcher*' -o -name '*tcp_mutant*' 2>/dev/null)
echo "$left"
check "nothing is left" is "$left" ""
check "users are gone" eval '! getent passwd ltp-switcher ltp-switcher-api'
echo "CHECK end"
