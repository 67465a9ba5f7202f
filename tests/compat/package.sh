#!/bin/sh
# A package agent of the coordinator: checks the pause, takes its work package, works, checks the pause again, finalises.
set -eu

as() { who=$1; shift; DIBS_TOKEN=$(eval "printf %s \"\$${who}_TOKEN\"") "$@"; }
fail() { echo "$1" >&2; exit 1; }

cat > work-packages.yaml <<'YAML'
feature: {id: FEAT-123}
contracts:
  openapi: {primary: contracts/openapi/v1.yaml, files: [contracts/openapi/v1.yaml]}
  generated: {models_dir: src/generated/}
packages:
- package_id: wp-users-api
  locks:
    files: [src/api/users.py, src/api/models.py]
    keys: ["api:GET /v1/users", "db:schema:users", "contract:contracts/openapi/v1.yaml"]
    ttl_minutes: 120
    reason: users get a new field
- package_id: wp-users-web
  locks: {files: [web/users/], keys: ["contract:src/generated/users.ts"]}
YAML

as BO git dibs check --package work-packages.yaml --name wp-users-api
as BO git dibs wait --unpaused FEAT-123 --timeout 5
as BO git dibs reserve --package work-packages.yaml --name wp-users-api
as ANA git dibs reserve src/api/users.py 2> taken && fail "two agents hold one file"
grep -q "held by Bo" taken || fail "$(cat taken)"
as BO git dibs renew > /dev/null

# The orchestrator pauses the feature: bo, whose token names it, stops before its results are final.
as ANA git dibs pause FEAT-123 --reason "the contract changes"
as BO git dibs reserve src/late.py 2> paused && fail "a paused agent got a new file"
grep -q "FEAT-123 is paused by Ana" paused || fail "$(cat paused)"
mkdir -p src/api && echo new > src/api/users.py && git add src
as BO git commit --quiet --message=users 2> paused && fail "a paused agent committed"
grep -q "paused" paused || fail "$(cat paused)"
git init --quiet --bare "$WORK/remote.git"
as BO git push --quiet "$WORK/remote.git" HEAD:refs/heads/main 2> paused && fail "a paused agent pushed"
grep -q "paused" paused || fail "$(cat paused)"
as BO git dibs wait --unpaused FEAT-123 --timeout 1 && fail "the pause is over too early"

# It waits until the feature goes on, in a wait of its own and within a reservation.
as BO git dibs wait --unpaused FEAT-123 --timeout 60 > "$WORK/waited" & waiting=$!
as BO git dibs reserve src/late.py --wait 60 > "$WORK/reserved" & reserving=$!
as ANA git dibs resume FEAT-123
wait "$waiting" || fail "$(cat "$WORK/waited")"
wait "$reserving" || fail "$(cat "$WORK/reserved")"
as BO git commit --quiet --message=users
as BO git push --quiet "$WORK/remote.git" HEAD:refs/heads/main
as BO git dibs release --package work-packages.yaml --name wp-users-api > /dev/null
as ANA git dibs reserve src/api/users.py > /dev/null

# Ports of its own.
eval "$(as BO git dibs ports --env)"
[ "$REST_PORT" -eq $((DB_PORT + 1)) ] && [ -n "$COMPOSE_PROJECT_NAME" ] || fail "no ports"
echo ok
