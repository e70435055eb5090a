import json

try:
    print(len(json.load(open("queue.json"))["tasks"]), "tasks")
except ValueError:
    print("the queue is empty")
