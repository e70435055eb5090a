"""The exact way of the line protocol (see README.md), for a queue with push, claim, complete, fill and read."""
import json
import os
import sys
import time

now = time.monotonic_ns


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def task(hello, id):
    return json.dumps({"id": id, "params": "x" * max(0, hello["task_bytes"] - 40)})


def take_part(start_server, connect):
    """start_server(dir, durability) starts one and gives a function that stops it; connect(dir) gives a queue."""
    hello = json.loads(sys.stdin.readline())
    role = hello["role"]
    if role == "serve":
        try:
            stop = start_server(hello["dir"], hello["durability"])
        except FileNotFoundError as error:
            return say(f"missing {error}")
        try:
            say("ready")
            sys.stdin.read()
        finally:
            stop()
        return
    # Connected before it says that it is ready.
    queue = connect(hello["dir"])
    if role == "fill":
        queue.fill([(f"k-{n}", task(hello, f"k-{n}")) for n in range(hello["kept"])])
        say("done")
    elif role == "read":
        say("\n".join(queue.read() + ["end"]))
    elif role == "worker":
        work(queue, hello)
    else:
        say("none")


def work(queue, hello):
    report = []

    def timed(op, act, id=None):
        start = now()
        try:
            found = act()
            done = "none" if op == "claim" and found is None else "ok"
        except Exception as error:
            found, done = None, "fail"
            print(f"{op}: {error!r}", file=sys.stderr)
        report.append(f"{op} {done} {start} - {now()} {id or found or '-'}")
        return found

    say("ready")
    _, start, until = sys.stdin.readline().split()
    start, until, think = int(start), int(until), hello["think_us"] / 1e6
    time.sleep(max(0, start - now()) / 1e9)
    number = 0
    while now() < until:
        number += 1
        id = f"{hello['worker']}-{number}"
        body = task(hello, id)
        timed("push", lambda: queue.push(id, body), id)
        time.sleep(think)
        if now() >= until:
            break
        claimed = timed("claim", lambda: queue.claim(hello["worker"]))
        if claimed is not None:
            timed("complete", lambda: queue.complete(claimed), claimed)
        time.sleep(think)
    say("\n".join(report + ["end"]))


def other_user():
    """Servers refuse to be root's. Nothing for anybody else; for root (uid, gid) of a user without rights."""
    import pwd
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise SystemExit("neither the user postgres nor nobody is there")
