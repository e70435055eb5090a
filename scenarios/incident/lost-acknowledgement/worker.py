"""The workers of the incident's other telling.

    worker.py STRATEGY deliver NAME    delivers the first task that is still queued, and marks it done
    worker.py STRATEGY look NAME       only leaves its name in the queue

STRATEGY is naive (as in the incident) or flock (one lock around each read-modify-write).
"""

import fcntl
import json
import os
import sys

strategy, what, name = sys.argv[1:]

if strategy == "flock":
    lock = open("queue.lock", "a")
    fcntl.flock(lock, fcntl.LOCK_EX)
with open("queue.json") as file:
    queue = json.load(file)
if what == "look":
    queue["seen_by"] = name
else:
    task, *others = [task for task in queue["tasks"] if task["state"] == "queued"]
    with open("delivered.log", "a") as log:
        log.write(json.dumps({"id": task["id"], "by": name}) + "\n")
    task["state"] = "done"
    for other in others[:1]:
        other["checked_by"] = name  # an item that is changed in memory along with the acknowledgement
queue["version"] += 1
fresh = f"queue.json.{os.getpid()}"
with open(fresh, "w") as file:
    json.dump(queue, file)
os.rename(fresh, "queue.json")
