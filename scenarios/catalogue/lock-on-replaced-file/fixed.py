import fcntl, json, os, sys


def locked():
    while True:
        file = open("queue.json")
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.samestat(os.fstat(file.fileno()), os.stat("queue.json")):
            return file
        file.close()


with locked() as file:
    queue = json.load(file)
    queue["tasks"].append({"id": sys.argv[1]})
    queue["version"] += 1
    with open("queue.json.tmp", "w") as fresh:
        fresh.write(json.dumps(queue))
    os.rename("queue.json.tmp", "queue.json")
