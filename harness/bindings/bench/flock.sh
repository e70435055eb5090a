#!/bin/bash
# A queue in a text file, one task a line, kept whole by flock(1): the line protocol the simple way (see README.md).
cd "$NOCLOBBER_BENCH_DIR" || exit 1
touch queue
exec 9> lock

read -r _hello
echo "ready lines"
while read -r op id task; do
    flock 9
    case $op in
        push) echo "queued $id $task" >> queue && echo ok ;;
        claim)
            if found=$(grep -m 1 '^queued ' queue); then
                id=${found#queued }
                id=${id%% *}
                sed "0,/^queued $id /s//claimed $id /" queue > new && mv new queue && echo "ok $id"
            else
                echo none
            fi
            ;;
        complete) sed "/^claimed $id /d" queue > new && mv new queue && echo ok ;;
        list) cut -d ' ' -f 2 queue && echo end ;;
        *) echo "unknown: $op" ;;
    esac
    flock -u 9
done
