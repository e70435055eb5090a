#!/usr/bin/env bash
# One search spread over N processes of this machine with GNU parallel, and joined:
#
#     harness/bindings/ci/parallel.sh N FILE|DIR... [OPTIONS of run]
#
# NOCLOBBER_MERGE has options for `noclobber merge`: NOCLOBBER_MERGE="--format json".
set -uo pipefail
parts=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export parts folder
read -ra options <<< "${NOCLOBBER_MERGE-}"

part() {
    noclobber run "${@:2}" --partition "$1/$parts" --format json > "$folder/part-$1.json"
}
export -f part

# Every part runs to its end, whatever the others find: what they say is for the joined report.
seq "$parts" | SHELL=$BASH parallel --will-cite --jobs "$parts" --halt never --quote part '{}' "$@"
noclobber merge "${options[@]}" "$folder"/part-*.json
