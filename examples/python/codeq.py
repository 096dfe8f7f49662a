"""A thin client of the codeQ HTTP API. Python 3.9 or newer, standard library only."""

import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request


class Refused(Exception):
    """The server refused a request. `code` is the name in docs/reference/errors.md."""

    def __init__(self, status, code, message):
        super().__init__(message)
        self.status = status
        self.code = code


class Failed(Exception):
    """The task whose result was asked for has failed, with this error."""


class PermanentError(Exception):
    """Raise it in a handler when another attempt cannot help: the task fails at once."""


class Client:
    def __init__(self, url="http://127.0.0.1:8080", token="dev-token", timeout=40):
        self._base = url.rstrip("/") + "/v1/codeq"
        self._token = token
        self._timeout = timeout

    def enqueue(self, command, payload, **options):
        """Creates a task and returns it. Options: priority, delaySeconds, maxAttempts, idempotencyKey."""
        return self._call("POST", "/tasks", {"command": command, "payload": payload, **options})

    def result(self, task_id, wait_seconds=30):
        """
        The result of a finished task, or None when there is none after `wait_seconds`. Raises Failed when
        the task failed.
        """
        try:
            answer = self._call("GET", f"{_task(task_id)}/result?waitSeconds={wait_seconds}")
        except Refused as refused:
            if refused.status == 404 and refused.code == "result_not_found":
                return None
            raise
        outcome = answer["result"]
        if outcome["status"] == "FAILED":
            raise Failed(outcome.get("error", ""))
        return outcome.get("result")

    def claim(self, commands, lease_seconds=60, wait_seconds=20):
        """The next task, or None when none came within `wait_seconds`."""
        body = {"commands": commands, "leaseSeconds": lease_seconds, "waitSeconds": wait_seconds}
        return self._call("POST", "/tasks/claim", body)

    def complete(self, task_id, result):
        body = {"status": "COMPLETED", "result": result}
        self._call("POST", f"{_task(task_id)}/result", body)

    def fail(self, task_id, error):
        body = {"status": "FAILED", "error": error}
        self._call("POST", f"{_task(task_id)}/result", body)

    def nack(self, task_id, reason):
        """Has the server offer the task again, after the delay of its retry policy."""
        self._call("POST", f"{_task(task_id)}/nack", {"reason": reason})

    def heartbeat(self, task_id, extend_seconds=60):
        self._call("POST", f"{_task(task_id)}/heartbeat", {"extendSeconds": extend_seconds})

    def _call(self, method, path, body=None):
        request = urllib.request.Request(self._base + path, method=method)
        request.add_header("Authorization", f"Bearer {self._token}")
        data = None
        if body is not None:
            request.add_header("Content-Type", "application/json")
            data = json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, data, self._timeout) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            code = error.headers.get("codeq-error", "")
            message = json.loads(error.read() or b"{}").get("error", error.reason)
            raise Refused(error.code, code, message) from None


def work(client, handlers, stop=None, lease_seconds=60):
    """
    Works on tasks until the event `stop` is set. `handlers` maps a command to a function of the payload;
    what the function returns is the result, a dict. An exception has the server offer the task again, a
    PermanentError fails it. A thread extends the lease while a handler runs. While the server cannot be
    reached, the worker tries again every second.
    """
    stop = stop or threading.Event()
    while not stop.is_set():
        try:
            task = client.claim(list(handlers), lease_seconds)
        except OSError:
            stop.wait(1)
            continue
        if task is not None:
            _work_on(client, task, handlers, lease_seconds)


def _work_on(client, task, handlers, lease_seconds):
    task_id = task["id"]
    with _Lease(client, task_id, lease_seconds):
        try:
            result = handlers[task["command"]](json.loads(task["payload"]))
            report = lambda: client.complete(task_id, result)
        except PermanentError as error:
            reason = str(error)
            report = lambda: client.fail(task_id, reason)
        except Exception as error:
            reason = repr(error)
            report = lambda: client.nack(task_id, reason)
    # To send a report twice is harmless; after the lease the server offers the task again anyway.
    for _ in range(lease_seconds):
        try:
            return report()
        except Refused as refused:
            print(f"task {task_id}: {refused}", flush=True)
            return None
        except OSError:
            time.sleep(1)


class _Lease:
    """Extends the lease of a task three times per lease until the block ends."""

    def __init__(self, client, task_id, lease_seconds):
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._extend, daemon=True)
        self._extension = (client, task_id, lease_seconds)

    def _extend(self):
        client, task_id, lease_seconds = self._extension
        while not self._done.wait(lease_seconds / 3):
            try:
                client.heartbeat(task_id, lease_seconds)
            except (Refused, OSError):
                # The next heartbeat may get through; if none does, the result is refused.
                pass

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_exception):
        self._done.set()
        self._thread.join()


def _task(task_id):
    return "/tasks/" + urllib.parse.quote(task_id, safe="")
