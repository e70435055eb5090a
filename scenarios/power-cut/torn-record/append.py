import os

record = b"2:" + b"x" * 5000 + b"\n"
log = os.open("records.log", os.O_WRONLY | os.O_APPEND)
os.write(log, record)
os.fsync(log)
