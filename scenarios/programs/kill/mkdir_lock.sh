until mkdir lock 2> /dev/null; do sleep 60; done
jq -c ".n += 1 | .$1 = 1" n.json > "n.$1" && mv "n.$1" n.json
rmdir lock
