"""Tasks that the server creates again and again: `app.schedules`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar
from urllib.parse import quote, urlencode

from .durations import Duration, in_words, moment, to_seconds, whole_seconds
from .sessions import template_of, with_payload

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .app import Codeq, Task, Unique

In = TypeVar("In")

#: Options of a schedule that the API takes as they are; those of the task are in `_TASK`.
_PLAIN = {
    "cron": "cron",
    "tz": "tz",
    "times": "times",
    "overlap": "overlap",
    "catch_up": "catchUp",
    "pause_after_failures": "pauseAfterFailures",
}
_LENGTHS = ("every", "offset", "within", "spread")
_MOMENTS = {"start": "from", "until": "until"}
_TASK = ("priority", "max_attempts", "execution_timeout", "ttl", "tags", "unique", "lane", "cost", "webhook")


class ScheduleOptions(TypedDict, total=False):
    """When a schedule fires, what it does then, and options of its tasks."""

    #: Five fields (minute, hour, day, month, weekday), or six with seconds in front: `"0 9 * * MON-FRI"`.
    cron: str
    #: Instead of `cron`: elapsed time, at least one second.
    every: Duration
    #: With `every`: how much later than 1970-01-01T00:00Z the counting begins.
    offset: Duration
    #: The IANA time zone of `cron` and `skip`. Default: UTC.
    tz: str
    #: Nothing fires before.
    start: datetime
    #: Nothing fires after.
    until: datetime
    #: Local dates (`"2026-12-25"`) and cron expressions at which nothing fires; at most 8.
    skip: Sequence[str]
    #: Tasks to create in all. Default: any number.
    times: int
    #: What happens while a task of the schedule has not ended. Default: `"skip"`.
    overlap: Literal["allow", "skip", "one", "replace"]
    #: With `overlap="replace"`: how long the worker of the cancelled task gets to stop. Default: 30 seconds.
    grace: Duration
    #: What happens after down time. Default: `"latest"`.
    catch_up: Literal["none", "latest", "all"]
    #: How late a task may be created.
    within: Duration
    #: Tasks are created up to so much later, always the same for the same schedule.
    spread: Duration
    #: Pauses the schedule after so many failed tasks in a row.
    pause_after_failures: int
    priority: int
    max_attempts: int
    execution_timeout: Duration
    ttl: Duration
    tags: Sequence[str]
    unique: Unique
    lane: str
    cost: int
    webhook: str


class Schedules:
    """Schedules of the tenant; the token has to be an administrator's. Answers are as the HTTP API shows them."""

    def __init__(self, app: Codeq) -> None:
        self._app = app

    async def put(
        self,
        schedule_id: str,
        task: Task[In, Any],
        input: In,  # noqa: A002
        **options: Unpack[ScheduleOptions],
    ) -> dict[str, Any]:
        """
        Creates a schedule or changes it: `app.schedules.put("digest", digest, Day("today"), cron="0 9 * * *")`. The
        same call again changes nothing.
        """
        return await self._app.engine().do(self._put(schedule_id, _body(task, input, options)))

    def put_sync(
        self,
        schedule_id: str,
        task: Task[In, Any],
        input: In,  # noqa: A002
        **options: Unpack[ScheduleOptions],
    ) -> dict[str, Any]:
        return self._app.engine().do_sync(self._put(schedule_id, _body(task, input, options)))

    async def get(self, schedule_id: str) -> dict[str, Any]:
        """A schedule. Raises a `CodeqError` with the code `schedule_not_found`."""
        return await self._app.engine().do(self._ask("GET", schedule_id))

    def get_sync(self, schedule_id: str) -> dict[str, Any]:
        return self._app.engine().do_sync(self._ask("GET", schedule_id))

    async def list(self, prefix: str = "") -> AsyncIterator[dict[str, Any]]:
        """All schedules in the order of their ids, or those whose ids begin with `prefix`."""
        after: str | None = ""
        while after is not None:
            schedules, after = await self._app.engine().do(self._page(prefix, after))
            for schedule in schedules:
                yield schedule

    def list_sync(self, prefix: str = "") -> Iterator[dict[str, Any]]:
        after: str | None = ""
        while after is not None:
            schedules, after = self._app.engine().do_sync(self._page(prefix, after))
            yield from schedules

    async def pause(self, schedule_id: str, reason: str = "") -> dict[str, Any]:
        """Creates nothing until the schedule is resumed."""
        return await self._app.engine().do(self._ask("POST", schedule_id, "/pause", {"reason": reason}))

    def pause_sync(self, schedule_id: str, reason: str = "") -> dict[str, Any]:
        return self._app.engine().do_sync(self._ask("POST", schedule_id, "/pause", {"reason": reason}))

    async def resume(self, schedule_id: str) -> dict[str, Any]:
        """Goes on; what was due during the pause is skipped."""
        return await self._app.engine().do(self._ask("POST", schedule_id, "/resume"))

    def resume_sync(self, schedule_id: str) -> dict[str, Any]:
        return self._app.engine().do_sync(self._ask("POST", schedule_id, "/resume"))

    async def run_now(self, schedule_id: str) -> str:
        """Creates a task now, and gives its id; the plan does not change."""
        return str((await self._app.engine().do(self._ask("POST", schedule_id, "/run")))["taskId"])

    def run_now_sync(self, schedule_id: str) -> str:
        return str(self._app.engine().do_sync(self._ask("POST", schedule_id, "/run"))["taskId"])

    async def delete(self, schedule_id: str) -> None:
        """Deletes a schedule; its tasks stay."""
        await self._app.engine().do(self._ask("DELETE", schedule_id))

    def delete_sync(self, schedule_id: str) -> None:
        self._app.engine().do_sync(self._ask("DELETE", schedule_id))

    # On the thread of the engine.

    async def _put(self, schedule_id: str, body: bytes) -> dict[str, Any]:
        return await self._ask("PUT", schedule_id, body=body)

    async def _ask(self, method: str, schedule_id: str, path: str = "", body: Any = None) -> dict[str, Any]:
        answer = await self._app.ask(method, f"/admin/schedules/{quote(schedule_id, safe='')}{path}", body)
        return answer or {}

    async def _page(self, prefix: str, after: str) -> tuple[Sequence[dict[str, Any]], str | None]:
        query = urlencode({"prefix": prefix, **({"after": after} if after else {})})
        page = await self._app.ask("GET", f"/admin/schedules?{query}")
        return page["schedules"], page.get("next")


def _body(task: Task[In, Any], value: In, options: ScheduleOptions) -> bytes:
    from .app import Settings

    given: dict[str, Any] = dict(options)
    settings = Settings(**{name: given.pop(name) for name in _TASK if name in given})
    message = task.message(value, settings)
    fields = template_of(message)
    for name in list(given):
        option = given.pop(name)
        if name in _PLAIN:
            fields[_PLAIN[name]] = option
        elif name in _LENGTHS:
            fields[name] = in_words(option, name)
        elif name in _MOMENTS:
            fields[_MOMENTS[name]] = moment(option, name).isoformat()
        elif name == "grace":
            fields["graceSeconds"] = whole_seconds(to_seconds(option, name))
        elif name == "skip":
            fields["except"] = list(option)
        else:
            known = ", ".join(ScheduleOptions.__annotations__)
            raise TypeError(f"a schedule has no option {name}; the options are {known}")
    return with_payload(fields, message.payload)
