#!/bin/sh
set -u
while [ -e names.lock ]; do sleep 0.1; done
: > names.lock
names=$(cat names)
printf '%s\n' $names "$1" > names
rm -f names.lock
