#!/usr/bin/env python3
"""A plain HTTP agent of Grid, standard library only: asks for work, runs it, tells how it ended.

    python3 agent.py NAME URL[,URL...] [GROUP...]
"""
import json
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

NAME, URLS, GROUPS = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
INSTANCE = uuid.uuid4().hex  # another one is another process: it gets no lease that this one was given
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
held = {}  # lease id -> event that says "stop"


def call(path, body):
    """To the leader; tries until a controller accepts it or refuses it for good."""
    while True:
        for url in list(URLS):
            request = urllib.request.Request(url + path, json.dumps(body).encode(), {"content-type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=90) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as refused:
                told = json.load(refused)
                if told["error"] == "STALE_EPOCH" and told["stale"] == "leader":
                    body["leader_epoch"] = told["leader_epoch"]  # the result counts under the new leader, too
                elif told["error"] not in ("NOT_LEADER", "DUPLICATE_NODE", "QUEUE_FULL") and refused.code < 500:
                    return told
            except OSError:
                pass  # it is away; perhaps another one leads by now
        time.sleep(0.3)


def seconds(span):
    unit = span.lstrip("0123456789")
    return int(span[: -len(unit)]) * UNITS[unit]


def run(lease, stop):
    """(status, output, error) of one lease."""
    params = lease["params"]
    if (lease["backend"], lease["action"]) == ("ping", "echo"):
        return "success", params["message"] + "\n", None
    if (lease["backend"], lease["action"]) == ("test", "record"):  # a `once` action: it must not run twice
        with open(params["path"], "a") as file:
            file.write(f"{lease['job_id']} {lease['step']} {NAME} {lease['attempt']}\n")
    if stop.wait(min(seconds(params.get("duration") or params["delay"]), seconds(lease["timeout"]))):
        return "cancelled", "", "stopped as told"
    return "success", "", None


def work(lease, stop):
    began = time.monotonic()
    try:
        status, output, error = run(lease, stop)
    except Exception as problem:
        status, output, error = "failed", "", str(problem)
    result = {key: lease[key] for key in ("lease_id", "job_id", "job_epoch", "leader_epoch", "step", "attempt")}
    result.update(agent=NAME, status=status, output=output, error=error, duration=f"{time.monotonic() - began:.3f}s")
    told = call("/v1/results", result)
    print(lease["lease_id"], told.get("error") or told["status"], flush=True)
    held.pop(lease["lease_id"], None)


ACTIONS = {"ping": ["echo", "sleep"], "test": ["record"]}
print("agent", NAME, "asks", *URLS, flush=True)
while True:
    # Also while it works: asking is the heartbeat, and how it hears what to stop.
    question = {"agent": NAME, "instance": INSTANCE, "groups": GROUPS, "backends": ACTIONS, "slots": 4}
    answer = call("/v1/leases", {**question, "wait": "2s" if held else "20s", "held": list(held)})
    for lease in answer.get("leases", []):
        if lease["lease_id"] not in held:
            held[lease["lease_id"]] = threading.Event()
            threading.Thread(target=work, args=(lease, held[lease["lease_id"]]), daemon=True).start()
    for stopped in answer.get("revoked", []):
        if stopped in held:
            held[stopped].set()
    if "error" in answer:
        sys.exit(answer["message"])
