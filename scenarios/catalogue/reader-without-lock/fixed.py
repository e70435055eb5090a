import fcntl, json, os

with open("queue.lock", "a") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    with open("queue.json") as file:
        queue = json.load(file)
    queue["tasks"].append({"id": "t2"})
    queue["version"] += 1
    with open("queue.json.tmp", "w") as file:
        json.dump(queue, file)
    os.rename("queue.json.tmp", "queue.json")
