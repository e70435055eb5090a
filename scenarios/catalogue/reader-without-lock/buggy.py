import fcntl, json

with open("queue.lock", "a") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    with open("queue.json", "r+") as file:
        queue = json.load(file)
        queue["tasks"].append({"id": "t2"})
        queue["version"] += 1
        file.seek(0)
        file.truncate()
        json.dump(queue, file)
