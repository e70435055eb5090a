#!/bin/sh
set -eu
while [ -e count.lock ]; do sleep 0.1; done
: > count.lock
read -r count < count || [ -n "$count" ]
echo $((count + 1)) > count
rm -f count.lock
