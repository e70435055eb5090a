#!/bin/sh
exec 9>> tickets.lock
flock 9
read n < tickets
echo $((n - 1)) > "tickets.$1"
mv "tickets.$1" tickets
echo "sold ticket $n"
