import fcntl, json, os, sys


def change(edit):
    with open("queue.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open("queue.json") as file:
            queue = json.load(file)
        result = edit(queue["tasks"])
        with open("queue.new", "w") as file:
            json.dump(queue, file)
        os.rename("queue.new", "queue.json")
        return result


task = change(lambda tasks: tasks.pop(0) if tasks else None)
if task:
    with open("done.log", "a") as file:
        file.write(json.dumps({"id": task["id"], "by": sys.argv[1]}) + "\n")
