# SPDX-License-Identifier: Apache-2.0
# Common parts of install.sh and uninstall.sh: the places of all files, and their messages.
# shellcheck shell=bash disable=SC2034

# Other users than root need the installed files, regardless of root's umask.
umask 022

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$root/src/ltp_switcher/__init__.py")
module=tcp_mutant

PREFIX=${PREFIX:-/usr}
DESTDIR=${DESTDIR:-}
PYTHON=${PYTHON:-/usr/bin/python3}
# With a DESTDIR files are staged for a package or an image: nothing on this machine changes.
staged=${DESTDIR:+yes}

lib=$PREFIX/lib/ltp-switcher
current=$lib/current # a link to the environment of one version
bin=$PREFIX/bin
units=$PREFIX/lib/systemd/system
sysusers=$PREFIX/lib/sysusers.d/ltp-switcher.conf
doc=$PREFIX/share/doc/ltp-switcher
watch=$PREFIX/share/ltp-switcher-api # for Prometheus and Grafana
module_source=/usr/src/$module-$version # where DKMS looks
config=/etc/ltp-switcher
state=/var/lib/ltp-switcher
run=(/run/ltp-switcher /run/ltp-switcher-api)
# Of earlier versions.
obsolete=("$PREFIX/lib/tmpfiles.d/ltp-switcher.conf" "$units"/ltp-switcher-routes.{path,service})

commands=(ltp-switcher ltp-switcher-fleet ltp-switcher-api ltp-owl-agent)
services=(ltp-switcher.service ltp-switcher-api.service ltp-switcher-network.service ltp-switcher-fleet.service
    ltp-switcher-use.service)
# Units that start a service when it is wanted.
sockets=(ltp-switcher.socket ltp-switcher-api.socket ltp-switcher-use.path)

say() { printf '%s\n' "$*"; }
die() {
    printf '%s: %s\n' "$(basename "$0")" "$1" >&2
    shift
    [ $# -eq 0 ] || printf '  %s\n' "$@" >&2
    exit 1
}

need_root() {
    [ "$staged" ] || [ "$(id -u)" = 0 ] || die "must run as root (sudo make $(basename "$0" .sh))" \
        "or set DESTDIR to put the files below another directory"
}

systemd_runs() { [ ! "$staged" ] && [ -d /run/systemd/system ]; }

# Every version of the module that DKMS has, one a line.
dkms_versions() { dkms status -m "$module" 2>/dev/null | sed -n "s|^$module/\([^,: ]*\).*|\1|p" | sort -u; }
