#!/bin/sh
# Boot Debian with systemd in a container, install the service there as the header of its unit says, and run service.sh.
# Needs root, mmdebstrap and systemd-nspawn (systemd-container). Use: boot.sh [FOLDER], which keeps the machine.
set -eu
machine=${1:-/var/tmp/symbiont-machine}
here=$(cd "$(dirname "$0")/../.." && pwd)
for each in mmdebstrap systemd-nspawn; do
    command -v $each > /dev/null || { echo "skipped: there is no $each"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: it needs root"; exit 0; }

if [ ! -d "$machine/opt" ]; then
    mmdebstrap --variant=minbase trixie "$machine" \
        --include=systemd-sysv,dbus,python3-venv,python3-dev,gcc,libc6-dev,openssl,ca-certificates,sqlite3,procps
fi
rm -rf "$machine/srv/checkout" "$machine/opt/symbiont" "$machine/var/lib/private/symbiont" "$machine/etc/symbiont"
mkdir "$machine/srv/checkout"
git -C "$here" ls-files -z | tar -C "$here" --null -T - -cf - | tar -C "$machine/srv/checkout" -xf -
cp "$here"/tests/systemd/service.* "$machine/srv/"
# What the header says: the environment is made here, where the network is, and the rest in the booted machine.
sed -n 's/^#   //p; /^cp /q' "$here/deploy/symbiont.service" > "$machine/srv/install"
cp /etc/resolv.conf /etc/hosts "$machine/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$machine/etc/ssl/certs/"
chroot "$machine" sh -ec 'cd /srv/checkout && grep /opt/symbiont /srv/install | sh -ex'
cat > "$machine/etc/systemd/system/test.service" <<END
[Service]
Type=oneshot
WorkingDirectory=/srv/checkout
ExecStart=/bin/sh -ec 'grep -v /opt/symbiont /srv/install | sed "/^cp/i cp /srv/service.symbiont /etc/symbiont/programs/" | sh -ex; sh /srv/service.sh'
ExecStopPost=/bin/sh -c 'echo \$EXIT_STATUS > /srv/status; systemctl --no-block poweroff'
StandardOutput=file:/srv/output
StandardError=inherit
[Install]
WantedBy=multi-user.target
END
mkdir -p "$machine/etc/systemd/system/multi-user.target.wants"
ln -sf ../test.service "$machine/etc/systemd/system/multi-user.target.wants/"
rm -f "$machine/srv/status" "$machine/etc/systemd/system/multi-user.target.wants/symbiont.service"
# nspawn works in /run/systemd, which must be a tmpfs.
unshare --mount sh -ec 'mount -t tmpfs tmpfs /run/systemd; mkdir /run/systemd/nspawn; exec "$@"' sh \
    timeout 1800 systemd-nspawn --quiet -D "$machine" --boot --private-network --register=no --keep-unit \
    --console=pipe < /dev/null > /dev/null || true
cat "$machine/srv/output"
exit "$(cat "$machine/srv/status")"
