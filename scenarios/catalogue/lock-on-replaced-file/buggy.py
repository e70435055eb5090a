import fcntl, json, os, sys

with open("queue.json") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    queue = json.load(file)
    queue["tasks"].append({"id": sys.argv[1]})
    queue["version"] += 1
    with open("queue.json.tmp", "w") as fresh:
        fresh.write(json.dumps(queue))
    os.rename("queue.json.tmp", "queue.json")
