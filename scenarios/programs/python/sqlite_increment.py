import sqlite3

db = sqlite3.connect("n.db", timeout=30, isolation_level=None)
db.execute("UPDATE n SET n = n + 1")
