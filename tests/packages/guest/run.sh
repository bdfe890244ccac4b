#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs as root in a Debian machine with systemd, without a network beyond its host. Are the packages installed, upgraded, rolled
# back and purged as they should be? Each check is a line of JSON on the second serial port.
# Usage: run.sh FOLDER OLD NEW PYTHON PART. OLD and NEW are versions of the packages; PART is fresh or upgrade.
folder=$1
old=$2
new=$3
python=$4
part=$5
report=${REPORT:-/dev/ttyS1}
here=$(dirname "$0")
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$here/common.sh"
kernel=$(uname -r)
state=/run/flows.json
services=(ltp-switcher ltp-switcher-api ltp-switcher-network ltp-owl-agent)
get() { curl -sS --fail-with-body --max-time 600 --unix-socket /run/ltp-switcher-api/api.sock "http://localhost$1" "${@:2}"; }
says() { get "$1" | jq -ce "$2"; }
pid_of() { systemctl show -p MainPID --value "$1"; }
active() { systemctl is-active "$@"; }

# The flows run to a network namespace behind a link of 20 ms.
start_network() {
    ip netns add peer
    ip link add near type veth peer name far netns peer
    ip address add 10.9.0.1/24 dev near
    ip link set near up
    ip -n peer address add 10.9.0.2/24 dev far
    ip -n peer link set far up
    ip -n peer link set lo up
    # After a reboot the default may be mutant already; a namespace that took it over would hold the module.
    ip netns exec peer sysctl -qw net.ipv4.tcp_congestion_control=cubic
    tc qdisc add dev near root netem delay 10ms limit 1000 rate 20mbit
    tc -n peer qdisc add dev far root netem delay 10ms limit 1000
    ip netns exec peer "/usr/bin/python$python" "$here/flows.py" sink 10.9.0.2 >/dev/ttyS0 2>&1 &
    sink=$!
}
# The host's browser comes in over eth0, to port 80. Its API listens on the loopback alone, as everywhere.
open_dashboard() {
    ip address add 10.0.2.15/24 dev eth0
    ip link set eth0 up
    sed -i 's/^#tcp = .*/tcp = "127.0.0.1:9480"/' /etc/ltp-switcher/config.toml
    systemctl restart ltp-switcher-api && eventually curl -sS --fail-with-body http://127.0.0.1:9480/health || return 1
    /usr/bin/systemd-socket-activate -l 10.0.2.15:80 /lib/systemd/systemd-socket-proxyd 127.0.0.1:9480 >/dev/ttyS0 2>&1 &
    echo $! >/run/proxy
}
close_dashboard() {
    kill "$(cat /run/proxy)"
    ip link set eth0 down
    ip address flush dev eth0
    sed -i 's/^tcp = /#tcp = /' /etc/ltp-switcher/config.toml
    systemctl restart ltp-switcher-api
}
# The browser's checks come as lines of JSON for the report.
browser() { timeout 1200 "/usr/bin/python$python" "$here/browser.py" 10.0.2.15 81 >>"$report" 2>/dev/ttyS0; }
dashboard() {
    step dashboard
    check "its port is forwarded" open_dashboard
    check "ready for a browser" test -e /run/proxy
    browser
    check "the browser came to its end" is $? 0
    check "the browser's pool is the daemon's" says /v1/pool '.arms | index("htcp")'
    check "and its k" is "$(get /v1/k | jq .k)" 2
    check "and the kernel runs the arm of its pin" eventually eval "arms_in_kernel | grep m/vegas"
    check "close it" close_dashboard
}
# A step is rarer than by default: the emulated processor is slow.
configure() { sed -i 's/^#take_default = .*/take_default = true/; s/^#step_ms = .*/step_ms = 100.0/' /etc/ltp-switcher/config.toml; }
start_flows() {
    rm -f $state
    "/usr/bin/python$python" "$here/flows.py" source 10.9.0.2 $state >/dev/ttyS0 2>&1 &
    flows=$!
    check "flows start" eventually test -s $state
}
end_flows() {
    kill "$flows"
    wait "$flows" 2>/dev/null
}
progress() { jq -ce 'if .errors == [] then .acknowledged else error("\(.errors)") end' $state; }
flows_go_on() { # every flow, by ten blocks more, and without an error
    local before
    before=$(progress) || return 1
    eventually moved "$before"
}
moved() { jq -ce --argjson before "$1" '.errors == [] and ([.acknowledged, $before] | transpose | all(.[0] >= .[1] + 10))' $state; }
steered() { # the daemon has all flows, and has switched some
    says /v1/flows '(.total >= 6) and ([.flows[].switches] | add > 0)'
}
arms_in_kernel() { ss -tin dst 10.9.0.2 | grep -o 'm/[a-z0-9]*' | sort | uniq -c | grep .; }
pinned_arm_runs() {
    local cookie
    cookie=$(get '/v1/flows?limit=1' | jq -r '.flows[0].cookie')
    ltp-switcher pin "$cookie" vegas && eventually says "/v1/flows/$cookie" '.arm == "vegas"' &&
        ss -tin dst 10.9.0.2 | grep -q m/vegas && ltp-switcher unpin "$cookie"
}
came_back() { # UNIT PID-BEFORE
    local pid
    pid=$(pid_of "$1")
    [ "$pid" != 0 ] && [ "$pid" != "$2" ] && systemctl is-active -q "$1"
}
killed_comes_back() { # UNIT
    local before
    before=$(pid_of "$1")
    [ "$before" != 0 ] || { echo "does not run" && return 1; }
    kill -9 "$before"
    eventually came_back "$1" "$before"
}
# The daemon may take longer to start in an emulated machine than the API waits for it.
served() {
    local answer
    answer=$(get /v1/mode 2>&1) || [[ $answer == *'no answer within'* ]] || echo "$answer"
}
ask_all_the_time() {
    rm -f /run/asked
    while [ ! -e /run/asked ]; do served; sleep 0.5; done >/run/refused 2>&1 &
    asking=$!
}
stop_asking() {
    touch /run/asked
    wait $asking
}

unloaded() { [ ! -e /sys/module/tcp_mutant ]; }

services_run() { # VERSION
    check "daemon and API run" eventually active ltp-switcher.socket ltp-switcher-api.socket ltp-switcher.service ltp-switcher-api.service
    check "API is ready" eventually says /health '.ready'
    check "the API is of this version" says /v1/openapi.json ".info.version == \"$1\""
    check "the commands are of this version" is "$(ltp-switcher --version; ltp-switcher-api --version)" \
        "ltp-switcher $1"$'\n'"ltp-switcher-api $1"
    check "no unit has failed" is "$(systemctl list-units --failed --no-legend --plain 'ltp-*')" ""
}

fresh_install() {
    step install
    check "install, offline" at_version "$new"
    check "DKMS has built and installed the module" module_of "$(upstream "$new")"
    check "the module is loaded" test -e /sys/module/tcp_mutant
    services_run "$(upstream "$new")"
    check "mode is advise at first" is "$(get /v1/mode | jq -r .mode)" advise
    check "units are clean" systemd-analyze verify --man=no ltp-switcher.{socket,service} ltp-switcher-api.{socket,service} \
        ltp-switcher-network.service ltp-switcher-fleet.service ltp-switcher-use.{path,service} ltp-owl-agent.service
    check "the doctor finds no fault" ltp-switcher doctor
    check "sandbox of the daemon: CAP_NET_ADMIN alone" is \
        "$(sed -n 's/^CapBnd:\s*//p' "/proc/$(pid_of ltp-switcher)/status")" 0000000000001000
}

steer_flows() {
    step steer
    check "the services begin with the machine" eventually says /health '.ready'
    configure
    check "restart with take_default" systemctl restart ltp-switcher
    check "the default is mutant" eventually is_default mutant
    start_flows
    check "mode active over the command line" ltp-switcher mode active
    check "the API says active" is "$(get /v1/mode | jq -r .mode)" active
    check "flows are steered" eventually steered
    check "the kernel shows their arms" arms_in_kernel
    check "a pin reaches the kernel" pinned_arm_runs
    check "ltp-switcher use" ltp-switcher use 10.9.0.0/25
    check "no route is added" is "$(ip route show table all proto 109)" ""
    check "its program is attached" program_there
    check "its service ends well" eventually use_done
    check "a line in the file is enough" eval "echo 10.9.1.0/24 >>/etc/ltp-switcher/prefixes"
    check "and comes into force" eventually in_force 10.9.1.0/24
    check "a policy names flows" eval "printf '[[policy]]\nprefix = \"10.9.2.0/24\"\nexclude = true\n' >/run/policy.toml && ltp-switcher policy apply /run/policy.toml"
    check "and comes into force as well" eventually in_force 10.9.2.0/24
    check "sandbox of its service: three capabilities" is "$(systemctl show -p CapabilityBoundingSet --value ltp-switcher-use)" "cap_net_admin cap_perfmon cap_bpf"
    check "flows go on" flows_go_on
}

kill_services() {
    step kill
    tc qdisc replace dev near root tbf rate 20mbit burst 64kb latency 100ms
    echo 'ARGUMENTS="--node qdisc:near@20 --listen 127.0.0.1:9481 --allow 127.0.0.0/8"' >/etc/default/ltp-owl-agent
    sed -i 's|^#owl_network_urls = .*|owl_network_urls = ["http://127.0.0.1:9481"]|' /etc/ltp-switcher/config.toml
    check "the agent starts" systemctl enable --now ltp-owl-agent
    check "the agent is told to the daemon" systemctl restart ltp-switcher ltp-switcher-network
    check "all services run" eventually active "${services[@]/%/.service}"
    for unit in "${services[@]}"; do check "killed $unit comes back" killed_comes_back $unit; done
    check "API is ready again" eventually says /health '.ready'
    check "flows are steered again" eventually steered
    check "the mode outlives it" is "$(get /v1/mode | jq -r .mode)" active
    check "flows go on" flows_go_on
}
is_default() { is "$(cat $sysctl)" "$1"; }
in_force() { ltp-switcher used --json | jq -e ".[] | select(.match == \"$1\") | .state == \"in force\""; }
program_there() { bpftool cgroup show /sys/fs/cgroup | grep choose_mutant && ls /sys/fs/bpf/ltp-switcher; }
use_done() { is "$(systemctl show -p Result --value ltp-switcher-use)" success && is "$(systemctl show -p ActiveState --value ltp-switcher-use)" inactive; }

# A security update of Debian's interpreter: the same packages with a higher version, under running services.
other_python() {
    step python
    check "update of python$python, offline" apt_get install --only-upgrade "python$python"
    check "it is another build" is "$(dpkg-query -W -f '${Version}' "python$python" | grep -o '+update$')" +update
    check "flows go on" flows_go_on
    check "services restart on it" systemctl restart "${services[@]/%/.service}"
    check "API is ready" eventually says /health '.ready'
    ln -sfn python3.99 /usr/bin/python3.new && mv -T /usr/bin/python3.new /usr/bin/python3
    check "services restart when /usr/bin/python3 is another" systemctl restart ltp-switcher ltp-switcher-api
    check "API is ready with it" eventually says /health '.ready'
    ln -sfn "python$python" /usr/bin/python3.new && mv -T /usr/bin/python3.new /usr/bin/python3
    mv "/usr/bin/python$python" "/usr/bin/python$python.away"
    check "commands name a python$python that is gone" eval "! ltp-switcher status && ltp-switcher status 2>&1 | grep 'python$python is gone'"
    mv "/usr/bin/python$python.away" "/usr/bin/python$python"
    check "and work when it is back" ltp-switcher status
    check "flows go on" flows_go_on
}

purge_all() {
    check "purge" apt_get purge "${packages[@]}"
    check "flows go on without the daemon" flows_go_on
    end_flows
    check "without flows the module goes" eventually eval "rmmod tcp_mutant 2>/dev/null; unloaded"
    systemctl daemon-reload
    # The older version's path unit begins this service anew while its package is removed.
    systemctl reset-failed ltp-switcher-routes.service 2>/dev/null
    check "nothing is left" nothing_left
}

# The older version copied routes, and its module has records of another version. Flows hold that module, so the new
# daemon can begin only when they have ended, or after a reboot.
install_older() {
    step "older version"
    check "install the older version, offline" at_version "$old"
    check "DKMS has built and installed its module" module_of "$(upstream "$old")"
    services_run "$(upstream "$old")"
    configure
}
upgrade() {
    step upgrade
    check "the older version is ready" eventually says /health '.ready'
    check "the default is mutant" eventually is_default mutant
    start_flows
    check "mode active" ltp-switcher mode active
    check "a choice" ltp-switcher k 2
    check "a prefix, by a route" eval "ltp-switcher use 10.9.0.0/25 && ip route show proto 109 | grep 10.9.0.0/25"
    check "flows are steered" eventually steered
    check "upgrade with flows open" eval "at_version '$new' >/run/upgrade.txt 2>&1 || { cat /run/upgrade.txt; false; }"
    check "no flow is lost" flows_go_on
    check "DKMS has the new module alone" module_of "$(upstream "$new")"
    check "and the source of the older is gone" eval "! ls -d /usr/src/tcp_mutant-$(upstream "$old") 2>/dev/null"
    check "the older module stays loaded" eval "test -e /sys/module/tcp_mutant && ! is_new_module"
    check "apt says so, and how the new one is loaded" \
        eval "grep -A9 '^ltp-switcher: the module tcp_mutant of the version before' /run/upgrade.txt | grep 'systemctl restart ltp-switcher '"
    check "the daemon names both versions" eval "journalctl -b -u ltp-switcher | grep 'record version 3 .* this daemon version 4'"
    check "systemd does not start it over and over" no_new_start
    check "the default is given back" is_default cubic
    check "open flows run the fallback arm" eventually is_arm_of_all m/cubic
    check "the route is gone" is "$(ip route show table all proto 109)" ""
    check "its prefix is in force" eventually in_force 10.9.0.0/25
    check "so new connections to it run the older module" eval "born_under | grep -E '^m/|^mutant'"
    check "the operator's configuration is kept" grep -q '^take_default = true' /etc/ltp-switcher/config.toml
    check "no flow is lost till the end" flows_go_on

    step "new module"
    check "no new connection takes the older one" ltp-switcher used --withdraw
    check "they run the default" is "$(born_under)" cubic
    end_flows
    check "without flows it is free" eventually eval "is \$(cat /sys/module/tcp_mutant/refcnt) 0"
    check "the daemon begins, without a reboot" eval "systemctl restart ltp-switcher && systemctl start ltp-switcher-use"
    upgraded
}
is_new_module() { is "$(cat /sys/module/tcp_mutant/srcversion)" "$(modinfo -F srcversion tcp_mutant)"; }
starts() { journalctl -b -u ltp-switcher | grep -c 'record version'; }
no_new_start() {
    local before
    before=$(starts)
    sleep 30
    is "$(starts)" "$before"
}
is_arm_of_all() { is "$(ss -tin dst 10.9.0.2 | grep -o 'm/[a-z0-9]*' | sort -u)" "$1"; }
# The congestion control of a new connection that asks for none.
born_under() {
    "/usr/bin/python$python" -c 'import socket
print(socket.create_connection(("10.9.0.2", 7000)).getsockopt(6, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode())'
}

# All that the older version was told holds, on the new module.
upgraded() {
    check "the new module is loaded" eventually is_new_module
    services_run "$(upstream "$new")"
    check "the mode is kept" is "$(get /v1/mode | jq -r .mode)" active
    check "the choice is kept" is "$(get /v1/k)" '{"k":2}'
    check "the default is mutant" eventually is_default mutant
    check "no route is there" is "$(ip route show table all proto 109)" ""
    check "the prefix is in force" eventually in_force 10.9.0.0/25
    start_flows
    check "flows are steered on the new module" eventually steered
    check "the kernel shows their arms" arms_in_kernel
}

after_reboot() {
    step "after a reboot"
    upgraded
    end_flows
    check "rmmod while a prefix is set" eval "systemctl stop ltp-switcher.socket ltp-switcher && eventually rmmod tcp_mutant"
    check "connections to it run the default" is "$(born_under)" cubic
    check "and are counted" eval "ltp-switcher used --json | jq -e '.[0].state | test(\"could not have it\")'"
    check "the daemon loads the module again" systemctl start ltp-switcher
    check "API is ready" eventually says /health '.ready'
    start_flows
    check "flows are steered again" eventually steered
    local daemon
    daemon=$(pid_of ltp-switcher)
    ask_all_the_time
    check "the same version once more, with flows open" apt_get install --reinstall "ltp-switcher=$new" "ltp-switcher-api=$new"
    check "no flow is lost" flows_go_on
    check "the daemon is another process" eventually came_back ltp-switcher "$daemon"
    check "API is ready" eventually says /health '.ready'
    stop_asking
    check "no request was refused" is "$(cat /run/refused)" ""
}

# The older daemon knows nothing of the newer module, and its unit replaces none.
roll_back() {
    step rollback
    check "API is ready" eventually says /health '.ready'
    check "the prefix is in force" eventually in_force 10.9.0.0/25
    start_flows
    check "flows are steered" eventually steered
    check "roll back with flows open" at_version "$old"
    check "no flow is lost" flows_go_on
    check "DKMS has the older module alone" module_of "$(upstream "$old")"
    end_flows
    check "the older module loads without a reboot" reload_module
    services_run "$(upstream "$old")"
    check "the mode is kept" is "$(get /v1/mode | jq -r .mode)" active
    check "the choice is kept" is "$(get /v1/k)" '{"k":2}'
    check "neither program nor pin is left" eval "! program_there"
    start_flows
    check "flows are steered on the older module" eventually steered
}

# As docs/operations.md says for versions before.
reload_module() {
    systemctl stop ltp-switcher.socket ltp-switcher
    # After too many starts.
    systemctl reset-failed ltp-switcher ltp-switcher.socket 2>/dev/null
    eventually rmmod tcp_mutant && systemctl start ltp-switcher && is_new_module
}

# The machine goes on with the stage STAGE. This service would power it off when it stops.
boot_into() { # STAGE
    mkdir -p /run/systemd/system/checks.service.d
    printf '[Service]\nExecStopPost=\n' >/run/systemd/system/checks.service.d/reboot.conf
    systemctl daemon-reload
    echo "$1" >~/stage
    sync
    step machine
    check reboot echo "$1"
    systemctl reboot
    sleep infinity
}

cd / || exit
step machine
check "kernel" uname -r
use_archive "$folder"
check "systemd has started" eventually systemctl is-active basic.target
modprobe -a sch_netem sch_tbf
start_network
case $part-$(cat ~/stage 2>/dev/null) in
fresh-)
    remember
    fresh_install
    boot_into steer
    ;;
fresh-steer)
    steer_flows
    dashboard
    kill_services
    other_python
    step purge
    ;;
upgrade-)
    remember
    install_older
    boot_into upgrade
    ;;
upgrade-upgrade)
    upgrade
    boot_into rebooted
    ;;
upgrade-rebooted)
    after_reboot
    boot_into rollback
    ;;
upgrade-rollback)
    roll_back
    step "purge after the rollback"
    ;;
*)
    check "a stage of this part" false
    exit
    ;;
esac
purge_all
kill "$sink"
step end
check end true
