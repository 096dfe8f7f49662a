"""Many tasks and one callback, which the server holds until they have ended."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from .durations import Duration, to_seconds, whole_seconds
from .errors import CodeqError
from .shapes import dump_input

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .app import Codeq, MemberOptions, Run, Settings, Task

In = TypeVar("In")
Out = TypeVar("Out")
R = TypeVar("R")

_ENQUEUE_SECONDS = 30.0


@dataclass(frozen=True)
class BatchEnd:
    """How the members of a batch ended."""

    succeeded: int
    failed: int
    cancelled: int


class Batch:
    """A batch: made by `app.batch_by_id`, or the `batch` of a context."""

    def __init__(self, app: Codeq, batch_id: str, ended: BatchEnd | None = None) -> None:
        self._app = app
        self.id = batch_id
        #: Only in the handler of the callback: how the members ended.
        self.ended = ended

    def __repr__(self) -> str:
        return f"Batch({self.id!r})"

    async def add(self, task: Task[In, R], input: In, **settings: Unpack[MemberOptions]) -> Run[R]:  # noqa: A002
        """Adds a task. Raises a `CodeqError` with the code `batch_sealed` when the batch takes no more members."""
        return await task.enqueue(input, batch=self.id, **settings)

    def add_sync(self, task: Task[In, R], input: In, **settings: Unpack[MemberOptions]) -> Run[R]:  # noqa: A002
        return task.enqueue_sync(input, batch=self.id, **settings)

    async def add_many(self, task: Task[In, R], inputs: Iterable[In | tuple[In, Settings]]) -> list[Run[R]]:
        """Adds several tasks of one kind, in the order of the inputs."""
        return await task.enqueue_many(self._items(task, inputs))

    def add_many_sync(self, task: Task[In, R], inputs: Iterable[In | tuple[In, Settings]]) -> list[Run[R]]:
        return task.enqueue_many_sync(self._items(task, inputs))

    async def seal(self) -> dict[str, Any]:
        """No more members: the callback runs when those that were added have ended."""
        return await self._app.engine().do(self._ask("POST", "/seal"))

    def seal_sync(self) -> dict[str, Any]:
        return self._app.engine().do_sync(self._ask("POST", "/seal"))

    async def progress(self) -> dict[str, Any]:
        """How many members there are, and how they ended, as the HTTP API shows it."""
        return await self._app.engine().do(self._ask("GET", ""))

    def progress_sync(self) -> dict[str, Any]:
        return self._app.engine().do_sync(self._ask("GET", ""))

    async def cancel(self) -> dict[str, Any]:
        """Cancels the callback and, in the background, the members that have not ended."""
        return await self._app.engine().do(self._ask("POST", "/cancel"))

    def cancel_sync(self) -> dict[str, Any]:
        return self._app.engine().do_sync(self._ask("POST", "/cancel"))

    async def results(self, failed: bool = False) -> AsyncIterator[dict[str, Any]]:
        """The members with their results, page by page, until the callback is deleted."""
        after: str | None = ""
        while after is not None:
            members, after = await self._app.engine().do(self._page(after, failed))
            for member in members:
                yield member

    def results_sync(self, failed: bool = False) -> Iterator[dict[str, Any]]:
        after: str | None = ""
        while after is not None:
            members, after = self._app.engine().do_sync(self._page(after, failed))
            yield from members

    def _items(self, task: Task[In, R], inputs: Iterable[In | tuple[In, Settings]]) -> list[tuple[In, Settings]]:
        return [(value, replace(settings, batch=self.id)) for value, settings in map(task.item, inputs)]

    # On the thread of the engine.

    async def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        answer: dict[str, Any] = await self._app.ask(method, f"/batches/{quote(self.id, safe='')}{path}", body)
        return answer

    async def _page(self, after: str, failed: bool) -> tuple[list[dict[str, Any]], str | None]:
        query = f"?failed={str(failed).lower()}" + (f"&after={after}" if after else "")
        page = await self._ask("GET", f"/results{query}")
        return [_read(member) for member in page["members"]], page.get("next")

    async def _fill(self, members: Sequence[tuple[Task[Any, Any], Any]], named: str | None) -> None:
        """With a name, the same call again adds nothing twice; without one, no caller can complete the batch."""
        kinds: dict[Task[Any, Any], list[tuple[Any, Settings]]] = {}
        for at, (task, value) in enumerate(members):
            key = None if named is None else f"{named}:{at}"
            settings = replace(task.item(value)[1], batch=self.id, idempotency_key=key)
            kinds.setdefault(task, []).append((value, settings))
        for task, items in kinds.items():
            for outcome in await task.create(items, _ENQUEUE_SECONDS):
                if not isinstance(outcome, CodeqError):
                    continue
                if named is None:
                    await self._cancel_quietly()
                raise outcome

    async def _cancel_quietly(self) -> None:
        # The refusal says more than that the batch could not be cancelled.
        with suppress(CodeqError):
            await self._ask("POST", "/cancel")


class CreatedBatch(Batch, Generic[Out]):
    """A batch that was created here: made by `app.batch`."""

    def __init__(self, app: Codeq, batch_id: str, callback: Run[Out]) -> None:
        super().__init__(app, batch_id)
        #: The task that runs at the end; its result can be awaited at once.
        self.callback = callback


def _read(member: dict[str, Any]) -> dict[str, Any]:
    """With the output that the handler returned; the server keeps objects only."""
    result = member.get("result")
    return {**member, "result": result["$value"]} if result is not None and list(result) == ["$value"] else member


async def create_batch(
    app: Codeq,
    callback: Task[In, Out],
    value: In,
    members: Sequence[tuple[Task[Any, Any], Any]] | None,
    *,
    batch_id: str,
    is_named: bool,
    options: dict[str, Any],
    open_for: Duration | None,
) -> CreatedBatch[Out]:
    """Creates the batch; with members, it adds and seals them."""
    body = {
        "command": callback.name,
        "payload": json.loads(dump_input(callback.input, callback.name, value)),
        **options,
    }
    if open_for is not None:
        body["openSeconds"] = whole_seconds(to_seconds(open_for, "open_for"))
    made = await app.ask("PUT", f"/batches/{quote(batch_id, safe='')}", body)
    batch = CreatedBatch(app, batch_id, callback.of(made["callbackId"]))
    if members is not None:
        await batch._fill(members, batch.callback.id if is_named else None)
        await batch._ask("POST", "/seal")
    return batch
