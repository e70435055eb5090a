import fcntl, json, os, sys

with open("queue.lock", "a") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    with open("queue.json") as file:
        queue = json.load(file)
    queue["tasks"].append({"id": sys.argv[1]})
    queue["version"] += 1
    with open("queue.json.tmp", "w") as file:
        file.write(json.dumps(queue))
    os.rename("queue.json.tmp", "queue.json")
