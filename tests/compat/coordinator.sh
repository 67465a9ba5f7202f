#!/bin/sh
# The coordinator's calls with curl, as its agents make them: only the base URL and the key are git-dibs'.
set -eu

base=$BASE_URL/compat/coordinator
fail() { echo "$1" >&2; exit 1; }
has() { case $said in *"$1"*) ;; *) fail "$1 is missing in: $said" ;; esac; }
# call STATUS KEY METHOD PATH [BODY]
call() {
    want=$1 key=$2 method=$3 path=$4
    shift 4
    if [ $# -gt 0 ]; then set -- --data "$1"; fi
    said=$(curl --silent --show-error --max-time 30 --request "$method" --header "X-API-Key: $key" \
        --header "Content-Type: application/json" --write-out ' %{http_code}' "$@" "$base$path")
    [ "${said##* }" = "$want" ] || fail "$method $path: $said"
}

file=src/api/users.py
acquire() { printf '{"file_path":"%s","agent_id":"%s","agent_type":"claude_code","session_id":"7c9e6679-7425-40de-944b-e07fc1f90ae7","reason":"%s","ttl_minutes":%s}' "$@"; }

call 200 "$ANA_TOKEN" POST /locks/acquire "$(acquire $file ana 'a new field' 120)"
has '"success":true'; has '"action":"acquired"'; has "\"file_path\":\"$file\""; has '"expires_at":"'
call 200 "$ANA_TOKEN" POST /locks/acquire "$(acquire $file ana 'a new field' 30)"
has '"action":"refreshed"'
# A conflict is a reply like any other.
call 200 "$BO_TOKEN" POST /locks/acquire "$(acquire $file bo 'mine' 120)"
has '"success":false'; has '"reason":"locked_by_other"'; has '"locked_by":"ana"'; has '"lock_reason":"a new field"'
has '"expires_at":"'
call 200 "$BO_TOKEN" GET "/locks/status/$file"
has '"locked":true'; has '"locked_by":"ana"'
call 200 "$BO_TOKEN" GET /locks/status/src/free.py
has '"locked":false'
# The lock on a directory is one on what is in it.
call 200 "$ANA_TOKEN" POST /locks/acquire "$(acquire docs/ ana 'all of it' 5)"
call 200 "$BO_TOKEN" GET /locks/status/docs/index.md
has '"locked":true'; has '"locked_by":"ana"'; has '"lock_reason":"all of it"'; has '"locked_path":"docs/**"'

# Logical keys, and what cannot be locked.
call 200 "$ANA_TOKEN" POST /locks/acquire '{"file_path":"db:schema:users","agent_id":"ana"}'
has '"action":"acquired"'
for case in '/etc/passwd invalid_file_path' '../x invalid_file_path' 'what:ever operation_not_permitted'; do
    call 200 "$ANA_TOKEN" POST /locks/acquire "$(acquire "${case% *}" ana x 1)"
    has '"success":false'; has "\"reason\":\"${case#* }\""
done
for minutes in 0 481; do
    call 200 "$ANA_TOKEN" POST /locks/acquire "$(acquire x ana x $minutes)"
    has '"reason":"ttl_out_of_range"'
done
call 400 "$ANA_TOKEN" POST /locks/acquire '{"file_path":"x","agent_id":"ana","ttl_minutes":"30"}'
has 'ttl_minutes'; has 'a whole number'
call 200 "$ANA_TOKEN" POST /locks/acquire '{"file_path":"x","agent_id":"not an id"}'
has '"reason":"invalid_agent_id"'
call 401 nonsense POST /locks/acquire "$(acquire x ana x 1)"
has '"detail":"'
call 403 "$ANA_TOKEN" POST /locks/acquire "$(acquire x bo x 1)"
has '"detail":"'

# Release: only one's own; by force: an admin, and the history knows.
call 200 "$BO_TOKEN" POST /locks/release "{\"file_path\":\"$file\",\"agent_id\":\"bo\"}"
has '"success":false'; has '"reason":"locked_by_other"'; has '"locked_by":"ana"'
call 403 "$BO_TOKEN" DELETE "/locks/$file"
call 200 "$ADMIN_TOKEN" DELETE "/locks/$file" '{"reason":"its agent is gone"}'
has '"success":true'
call 200 "$BO_TOKEN" POST /locks/acquire "$(acquire $file bo 'mine' 1)"
has '"action":"acquired"'
call 200 "$BO_TOKEN" POST /locks/release "{\"file_path\":\"$file\",\"agent_id\":\"bo\"}"
has '"action":"released"'
call 200 "$BO_TOKEN" POST /locks/release "{\"file_path\":\"$file\",\"agent_id\":\"bo\"}"
has '"reason":"lock_not_found"'
echo ok
