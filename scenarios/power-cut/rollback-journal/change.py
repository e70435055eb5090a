# A file is changed in place; its old content is kept in a journal until that is done.
import hashlib
import os
import sys

careful = sys.argv[1] == "careful"


def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


with open("data", "rb") as data:
    old = data.read()
with open("journal", "wb") as journal:
    journal.write(hashlib.sha256(old).digest() + old)
if careful:
    sync("journal")
    sync(".")
with open("data", "r+b") as data:
    data.write(b"new" * 4100)
sync("data")
os.remove("journal")
sync(".")
