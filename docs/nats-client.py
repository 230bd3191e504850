#!/usr/bin/env python3
"""A plain NATS client: submits a job to Grid, watches its results and its entry in the bucket `jobs`. Needs nats-py.

    python3 nats-client.py URL '{"target": "all", "tasks": [{"backend": "ping", "action": "echo"}]}' [KEY_FILE NAME]

KEY_FILE and NAME: a key that `grid nats config --clients NAME` wrote, where the server demands one.
"""
import asyncio
import json
import sys
import uuid

import nats

URL, JOB = sys.argv[1], sys.argv[2]
KEY, NAME = (sys.argv[3], sys.argv[4]) if len(sys.argv) > 4 else (None, "client")


async def main():
    # The inbox is part of the permissions: nobody else may listen there.
    client = await nats.connect(URL, nkeys_seed=KEY, inbox_prefix=f"_INBOX.{NAME}".encode())
    jetstream = client.jetstream()

    answers = await client.subscribe(inbox := client.new_inbox())
    results = await client.subscribe("result.>")
    # The key makes it safe to publish the same request again. JetStream acknowledges that it is stored, Grid answers on its own subject.
    headers = {"Nats-Msg-Id": str(uuid.uuid4()), "Grid-Reply-To": inbox}
    stored = await jetstream.publish("request.job", JOB.encode(), headers=headers)
    print(f"stored as message {stored.seq} of the stream {stored.stream}")

    answer = await answers.next_msg(timeout=60)
    job = json.loads(answer.data)
    if answer.headers["Grid-Answer"] != "accepted":
        sys.exit(f"refused: {answer.headers['Grid-Code']}: {job['message']}")
    print(f"{job['id']} {job['status']}")

    jobs, status = await jetstream.key_value("jobs"), job["status"]
    while status in ("pending", "running"):
        try:
            result = await results.next_msg(timeout=0.5)
            _, of, step, node = result.subject.split(".")
            if of == job["id"]:
                told = json.loads(result.data)
                print(f"  step {step} on {node}: {told['status']} {told['output'].strip()}")
        except nats.errors.TimeoutError:
            try:
                status = json.loads((await jobs.get(job["id"])).value)["status"]
            except nats.js.errors.KeyNotFoundError:
                pass  # written within a second
    print(f"{job['id']} {status}")
    await client.close()


asyncio.run(main())
