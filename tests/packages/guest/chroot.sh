#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs as root in the file system of a Debian machine, as when an image is made: no service runs, and no module is
# loaded. Each check is a line of JSON in the file REPORT.
# Usage: chroot.sh FOLDER OLD NEW KERNEL, where OLD and NEW are versions of the packages.
old=$2
new=$3
kernel=$4
report=$REPORT
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

installed() { # VERSION
    check "DKMS has the module of this version alone" module_of "$(upstream "$1")"
    check "the commands are of this version" is "$(ltp-switcher --version; ltp-switcher-api --version)" \
        "ltp-switcher $(upstream "$1")"$'\n'"ltp-switcher-api $(upstream "$1")"
    check "dpkg finds every file as it was" dpkg --verify "${packages[@]}"
    check "one source of the module" is "$(ls -d /usr/src/tcp_mutant-*)" "/usr/src/tcp_mutant-$(upstream "$1")"
    check "no folder of another version" is "$(ls /var/lib/dkms/tcp_mutant)" \
        "$(upstream "$1")"$'\n'"kernel-$kernel-x86_64"
}

# The agent brings all that it needs, and tells about a queue.
agent_answers() {
    local agent
    ip link set lo up
    ip link show near >/dev/null 2>&1 || ip link add near type veth peer name far
    tc qdisc replace dev near root tbf rate 20mbit burst 64kb latency 100ms
    ltp-owl-agent --node qdisc:near@20 --listen 127.0.0.1:9481 --allow 127.0.0.0/8 &
    agent=$!
    eventually curl -sS --fail-with-body http://127.0.0.1:9481/v1/network
    local answered=$?
    kill $agent
    wait $agent
    return $answered
}

cd / || exit
step machine
use_archive "$1"
remember
step lintian
check "no complaints of this release's lintian" lintian --fail-on error,warning \
    --suppress-tags "$(paste -sd, <"$1/lintian-suppressed")" "$1"/debs/ltp-*_"$new"_*.deb
step install
check "install" at_version "$new"
installed "$new"
check "the agent answers" agent_answers
step purge
check "purge" apt_get purge "${packages[@]}"
check "nothing is left" nothing_left
step upgrade
check "install the older version" at_version "$old"
installed "$old"
echo '# ours' >>/etc/ltp-switcher/config.toml
check "upgrade" at_version "$new"
check "the operator's configuration is kept" grep -q '^# ours' /etc/ltp-switcher/config.toml
sed -i '/^# ours/d' /etc/ltp-switcher/config.toml
installed "$new"
step rollback
check "roll back" at_version "$old"
installed "$old"
check "no unit is enabled that is gone" is "$(find /etc/systemd/system -xtype l -name 'ltp-*')" ""
check "purge of the older version" apt_get purge "${packages[@]}"
check "nothing is left" nothing_left
check "install the older version again" at_version "$old"
check "upgrade again" at_version "$new"
installed "$new"
step "remove, then purge"
check "remove" apt_get remove "${packages[@]}"
check "the configuration stays" test -e /etc/ltp-switcher/config.toml
check "install again" at_version "$new"
check "purge" apt_get purge "${packages[@]}"
check "nothing is left" nothing_left
step end
check end true
