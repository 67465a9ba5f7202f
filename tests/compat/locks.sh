#!/bin/sh
# The lock commands in a script, as their users write one. Only the address and the token are git-dibs'.
set -eu

as() { who=$1; shift; DIBS_TOKEN=$(eval "printf %s \"\$${who}_TOKEN\"") "$@"; }
fail() { echo "$1" >&2; exit 1; }
# expect CODE COMMAND...: runs a command that must exit with this code, and keeps what it prints.
expect() {
    code=$1; shift
    set +e; said=$("$@"); got=$?; set -e
    [ "$got" -eq "$code" ] || fail "$* exited with $got instead of $code: $said"
}
has() { case $said in *"$1"*) ;; *) fail "$1 is missing in: $said" ;; esac; }

deploy="deploy://api-prod"
issue="github://acme/app/issues/42"

expect 0 as ANA rlock "$deploy"
has '"ok":true'; has '"resourceKey":"deploy://api-prod"'
expect 1 as BO rlock "$deploy"
has '"ok":false'; has '"holder":"ana"'; has '"holderName":"Ana"'; has '"heldSince":"'
has '"reason":"held by Ana"'
expect 1 as BO runlock "$deploy"
expect 0 as ANA rlock-heartbeat "$deploy"
expect 2 as BO rlock-heartbeat "$issue"
has '"reason":"lock not found"'

# Two that wait for each other: the second is refused, with the cycle of holders and resources.
expect 0 as BO rlock "$issue"
as BO rlock "$deploy" --wait 20 > "$WORK/waiting" & waiting=$!
tries=0
while expect 0 as ANA rlock-heartbeat "$deploy"; [ "$(as ANA git dibs sessions --json | grep -c "$deploy")" -eq 0 ]; do
    tries=$((tries + 1)); [ "$tries" -lt 100 ] || fail "bo does not wait"
    sleep 0.1
done
expect 1 as ANA rlock "$issue" --wait 20
has '"deadlock":true'; has '"reason":"possible deadlock'; has '"cycle":["'; has "$issue"; has "$deploy"
expect 0 as ANA runlock "$deploy"
wait "$waiting" || fail "bo did not get it: $(cat "$WORK/waiting")"
expect 0 as BO runlock "$deploy"
expect 0 as BO runlock "$issue"

expect 4 as ANA rlock "api-prod"
has 'has no scheme'; has 'deploy://api-prod'
expect 3 env DIBS_TOKEN=nonsense rlock "$deploy"
expect 9 as ANA rlock
expect 6 env DIBS_URL=http://127.0.0.1:9 DIBS_TOKEN="$ANA_TOKEN" rlock --retries 0 "$deploy"
echo ok
