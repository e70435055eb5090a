import json, os, sys

with open("queue.json") as file:
    queue = json.load(file)
queue["tasks"].append({"id": sys.argv[1]})
queue["version"] += 1
fresh = f"queue.json.{os.getpid()}"
with open(fresh, "w") as file:
    file.write(json.dumps(queue))
os.rename(fresh, "queue.json")
