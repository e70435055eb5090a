"""Adds an entry to a JSON list, all of it environment: a uuid, a process number, the time. Under a lock or not."""
import fcntl
import json
import os
import sys
import time
import uuid

with open("lock", "a") as lock:
    if sys.argv[1] == "locked":
        fcntl.flock(lock, fcntl.LOCK_EX)
    with open("entries.json") as file:
        entries = json.load(file)
    entries.append({"id": str(uuid.uuid4()), "pid": os.getpid(), "at": time.time()})
    temporary = f"entries.{os.getpid()}"
    with open(temporary, "w") as file:
        json.dump(entries, file)
    os.rename(temporary, "entries.json")
