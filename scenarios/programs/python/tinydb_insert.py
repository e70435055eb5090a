import sys

from tinydb import TinyDB

TinyDB("db.json").insert({"who": sys.argv[1]})
