import sqlite3

db = sqlite3.connect("t.db", isolation_level=None)
db.execute("BEGIN IMMEDIATE")
(n,) = db.execute("SELECT n FROM t").fetchone()
db.execute("UPDATE t SET n = ?", (n + 1,))
db.execute("COMMIT")
