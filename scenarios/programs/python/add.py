"""One read-modify-write of n.json: a number, and who added to it."""

import json
import os


def add(who, path="n.json"):
    with open(path) as file:
        data = json.load(file)
    data["n"] += 1
    data[who] = True
    with open(f"{path}.{who}", "w") as file:
        json.dump(data, file)
    os.replace(f"{path}.{who}", path)
