import os

with open("ticket-7.json", "w") as new:
    new.write('{"id": 7}\n')
    new.flush()
    os.fsync(new.fileno())
