# Commands of root on the running and on the stopped service, a restored backup, and a lost database. Run by boot.sh.
set -u
state=/var/lib/private/symbiont
key=secret://file//etc/symbiont/credentials/master-key
failed=0
export PATH=/opt/symbiont/bin:$PATH HOME=/srv

check() { # check STATUS COMMAND…: it ends so, and leaves nothing in the state that belongs to root
    wanted=$1; shift
    output=$("$@" 2>&1 < /dev/null); status=$?
    roots=$(find $state/ -user root -o -group root)
    [ $status = "$wanted" ] && [ -z "$roots" ] && { echo "ok: $*"; return; }
    failed=1
    echo "FAILED: $* ended with $status, not $wanted; files of root: $roots"; echo "$output"
}
symbi() { command symbi "$@" --root /var/lib/symbiont; }
with_key() { env SYMBIONT_MASTER_KEY=$key symbi "$@" --root /var/lib/symbiont; }
said() { case $output in *"$1"*) ;; *) failed=1; echo "FAILED: it does not say $1"; echo "$output" ;; esac; }
is() { # is PROPERTY VALUE: of the service, within a minute
    for _ in $(seq 60); do
        found=$(systemctl show symbiont -P "$1"); [ "$found" = "$2" ] && return; sleep 1
    done
    failed=1; echo "FAILED: $1 is $found, not $2"
}

cd / || exit 1
echo text > /srv/file.txt
is ActiveState active
check 0 symbi webhook test github-events --payload '{}'
check 0 symbi user add ada
check 0 symbi push /srv/file.txt
check 0 symbi table sql 'CREATE TABLE notes (note TEXT)'
check 0 symbi secret show github
secret=$output

mkdir -m 700 /srv/backup
check 0 sqlite3 $state/.symbi/symbiont.db ".backup '/srv/backup/symbiont.db'"
check 0 tar -C $state --exclude='keys.db*' --exclude='symbiont.db*' -cf /srv/backup/state.tar .
check 0 symbi key export /srv/backup/keys

check 0 systemctl stop symbiont
check 2 symbi webhook logs
said 'set SYMBIONT_MASTER_KEY to secret://credential/master-key'
for command in 'webhook logs' 'webhook list' 'webhook deliveries' 'webhook rotate github-events' 'agent list' 'agent runs' \
    'memory list' 'memory write reviewer text' 'memory search reviewer text' 'memory compact reviewer' 'memory verify' \
    'collection search text' 'push /srv/file.txt' 'kv set name 1' 'kv export --output /srv/kv' 'table export notes -' \
    'task add text' 'user add bea' 'user remove bea --yes' 'user list' 'thread list' 'key status' 'key rotate --all' \
    'key export /srv/keys' 'key import /srv/keys' 'readiness'; do
    # shellcheck disable=SC2086
    check 0 with_key $command
done
[ -z "$(find /srv/kv /srv/keys /srv/backup ! -user root -o ! -group root)" ] || { failed=1; ls -l /srv; }

# The database of the running service is removed: it stops, is started again, is refused, and is not tried again.
check 0 systemctl start symbiont
rm $state/.symbi/symbiont.db
is ExecMainStatus 2
is ActiveState failed
check 1 with_key readiness
said 'symbiont.db is missing or empty'

# The backup is restored as docs/keys.md says.
rm -rf $state/* $state/.symbi
tar -C /var/lib/symbiont/ -xf /srv/backup/state.tar
cp /srv/backup/symbiont.db /var/lib/symbiont/.symbi
eval "$(sed -n 's/.*`\(chown .*\)`$/\1/p' /srv/checkout/docs/keys.md)"
check 0 with_key key import /srv/backup/keys
check 0 systemctl start symbiont
check 0 symbi secret show github
[ "$output" = "$secret" ] || { failed=1; echo "FAILED: another secret than before"; }
check 0 symbi table sql 'SELECT * FROM notes'
check 0 symbi webhook deliveries
said github-events

# Lost while it was stopped, and created by a person.
check 0 systemctl stop symbiont
rm $state/.symbi/symbiont.db*
check 1 systemctl start symbiont
is ExecMainStatus 2
check 0 with_key database create
check 0 systemctl start symbiont
check 0 symbi webhook test github-events --payload '{}'

# The keys of the running service.
rm $state/.symbi/keys.db*
check 1 symbi readiness
said '`symbi key export FILE` before the daemon stops'
check 0 symbi key export /srv/saved
check 0 systemctl stop symbiont
check 1 systemctl start symbiont
check 0 with_key key import /srv/saved
check 0 systemctl start symbiont
check 0 symbi webhook deliveries
said github-events
[ $failed = 0 ] && echo 'all as it should be'
exit $failed
