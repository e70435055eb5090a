import sqlite3

print(sqlite3.connect("n.db").execute("SELECT n FROM n").fetchone())
