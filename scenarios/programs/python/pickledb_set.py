import sys

from pickledb import PickleDB

db = PickleDB("db.json")
db.load()
db.set(sys.argv[1], 1)
db.save()
