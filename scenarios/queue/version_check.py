"""Adds a task if the version is still the one that was read, and tries again otherwise: no lock."""
import json
import os
import sys

name = sys.argv[1]
while True:
    with open("queue.json") as file:
        queue = json.load(file)
    read = queue["version"]
    queue["version"] += 1
    queue["tasks"].append({"id": name})
    with open(f"{name}.tmp", "w") as file:
        json.dump(queue, file)
    with open("queue.json") as file:
        if json.load(file)["version"] != read:
            continue
    os.rename(f"{name}.tmp", "queue.json")
    break
