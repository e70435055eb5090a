# A journal that is whole says that a change was not finished: it is undone.
import hashlib
import os

try:
    with open("journal", "rb") as journal:
        kept = journal.read()
except FileNotFoundError:
    raise SystemExit
if hashlib.sha256(kept[32:]).digest() == kept[:32]:
    with open("data", "r+b") as data:
        data.write(kept[32:])
        data.flush()
        os.fsync(data.fileno())
os.remove("journal")
