# What was not written to its end is cut off: a record is 2 + 5000 + 1 bytes, and holds no zeros.
import os

SIZE = 5003
with open("records.log", "r+b") as log:
    data = log.read()
    whole = len(data) // SIZE * SIZE
    while whole and b"\0" in data[whole - SIZE : whole]:
        whole -= SIZE
    if whole != len(data):
        log.truncate(whole)
        os.fsync(log.fileno())
