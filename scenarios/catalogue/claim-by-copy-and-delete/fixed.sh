#!/bin/sh
# Takes tasks until there are none; standard output is the record of what was executed.
for task in pending/*; do
    mv "$task" "$1.task" 2>/dev/null || continue
    echo "executed ${task#pending/}"
done
rm -f "$1.task"
