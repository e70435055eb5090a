#!/bin/sh
# A worker of the incident, with jq and mv: takes the first task of queue.json, executes it, and writes the queue back.
#
#     worker.sh NAME [NEW-TASK]
#
# The mv is atomic, so no reader ever meets half a file. It does not help: what is moved into place was computed from
# an older version.
set -eu
name=$1 new=${2-}

queue=$(cat queue.json)
id=$(printf '%s' "$queue" | jq -r '.tasks[0].id // empty')
if [ -n "$id" ]; then
    printf '{"id":"%s","worker":"%s"}\n' "$id" "$name" >> done.log
fi
printf '%s' "$queue" | jq -c --arg new "$new" '
    .version += 1
    | .tasks |= .[1:]
    | if $new == "" then . else .tasks += [{id: $new, account: "acme", params: {to: "bob"}}] end
' > "queue.json.$name"
mv "queue.json.$name" queue.json
