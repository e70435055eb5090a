import sys

import jsonlines

with jsonlines.open("log.jsonl", "a") as log:
    log.write({"who": sys.argv[1]})
