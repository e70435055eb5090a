with open("records.log", "wb") as log:
    log.write(b"1:" + b"x" * 5000 + b"\n")
