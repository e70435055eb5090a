import json
import sys

from filelock import FileLock

with FileLock("n.lock"):
    with open("n.json") as file:
        data = json.load(file)
    data["n"] += 1
    data[sys.argv[1]] = 1
    with open("n.json", "w") as file:
        json.dump(data, file)
