"""Greets until it is stopped with Ctrl-C or SIGTERM. CODEQ_URL and CODEQ_TOKEN say where."""

import os
import signal
import threading

from codeq import Client, PermanentError, work


def greet(payload):
    if payload.get("name") == "nobody":
        raise PermanentError("there is nobody to greet")
    if not payload.get("name"):
        raise ValueError("the name is empty")
    return {"text": f"hello {payload['name']} from Python"}


stop = threading.Event()
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: os._exit(0) if stop.is_set() else stop.set())

client = Client(
    os.environ.get("CODEQ_URL", "http://127.0.0.1:8080"),
    os.environ.get("CODEQ_TOKEN", "dev-token"),
)
print("working", flush=True)
work(client, {"greet-python": greet}, stop)
