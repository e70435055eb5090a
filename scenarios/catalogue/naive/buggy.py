import json, sys

with open("queue.json") as file:
    queue = json.load(file)
queue["tasks"].append({"id": sys.argv[1]})
queue["version"] += 1
with open("queue.json", "w") as file:
    file.write(json.dumps(queue))
