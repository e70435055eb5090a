#!/bin/sh
read n < tickets
echo $((n - 1)) > "tickets.$1"
mv "tickets.$1" tickets
echo "sold ticket $n"
