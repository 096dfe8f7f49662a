"""`python -m codeq worker app:app` runs the tasks of an application until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import os
import sys

from .app import Codeq
from .errors import CodeqError


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m codeq")
    commands = parser.add_subparsers(dest="command", required=True)
    worker = commands.add_parser("worker", help="run the tasks of an application")
    worker.add_argument("app", help="module:variable of the application, such as app:app")
    worker.add_argument("--concurrency", type=int, default=10, help="tasks at a time (default: 10)")
    worker.add_argument("--grace", default="10s", help="time to finish on SIGTERM (default: 10s)")
    worker.add_argument("--name", help="name of the worker (default: from host and process)")
    worker.add_argument("--queues", help="only these tasks, separated by commas")
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        app = _load(options.app)
        names = options.queues.split(",") if options.queues else list(app.tasks)
        unknown = [name for name in names if name.lower() not in app.tasks]
        if unknown:
            known = ", ".join(task.name for task in app.tasks.values())
            raise ValueError(f"{unknown[0]} is not a task of {options.app}; it has {known}")
        runner = app.worker(
            [app.tasks[name.lower()] for name in names],
            concurrency=options.concurrency,
            name=options.name,
            grace=options.grace,
        )
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        sys.stderr.write(f"codeq: {error}\n")
        return 2
    logging.getLogger("codeq").info("working on %s", ", ".join(names))
    try:
        asyncio.run(runner.run())
    except CodeqError as error:
        sys.stderr.write(f"codeq: {error}\n")
        return 1
    return 0


def _load(place: str) -> Codeq:
    module, _, variable = place.partition(":")
    sys.path.insert(0, os.getcwd())
    found = getattr(importlib.import_module(module), variable or "app")
    if not isinstance(found, Codeq):
        raise TypeError(f"{place} is not a Codeq application")
    return found


if __name__ == "__main__":
    sys.exit(main())
