"""Enqueues one task and prints its result: python3 producer.py [name]"""

import os
import sys

from codeq import Client, Failed

client = Client(
    os.environ.get("CODEQ_URL", "http://127.0.0.1:8080"),
    os.environ.get("CODEQ_TOKEN", "dev-token"),
)
task = client.enqueue("greet-python", {"name": (sys.argv + ["world"])[1]}, maxAttempts=1)
print("enqueued", task["id"])
try:
    print(client.result(task["id"]))
except Failed as failed:
    sys.exit(f"the task failed: {failed}")
