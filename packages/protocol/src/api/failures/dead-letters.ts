/** Failures, which are dead letters and failed tasks: replay or delete some by their ids, those that match a filter, or all. */

import { endpoints, errorCode } from "../../contract/endpoint.ts";
import { count, flag, list, object, text, whole } from "../../contract/shape.ts";
import { limits } from "../../limits.ts";
import { bodyFilter } from "../tasks/task-filter.ts";

const { bulkIdsMax, bulkLimitMax } = limits;

const options = {
  limit: whole(`Maximum number of tasks to change (default: ${limits.bulkLimitDefault}).`, {
    min: 0,
    max: bulkLimitMax,
    rule: `1 to ${bulkLimitMax}`,
    none: 0,
  }),
  dryRun: flag("Only count the tasks; change nothing.", { as: "isDryRun", none: false }),
};

export const BulkOptions = object(options, { about: "How far to go at once." });

/** Unknown fields are refused: a condition that is passed over would hit what was not meant. */
const body = object(
  {
    ids: list(text(), "Ids of dead letters and failed tasks, or the beginning or end of ids.", {
      max: bulkIdsMax,
      none: [],
      refusal: `too many 'ids' (at most ${bulkIdsMax})`,
    }),
    all: flag(
      "Select all dead letters and failed tasks; without `all`, ids or a filter are required.",
      { as: "isAll", none: false },
    ),
    ...options,
    ...bodyFilter,
  },
  { isClosed: true },
);

const outcome = {
  matched: count("Number of tasks that match, up to the limit."),
  failed: list(
    object({ id: text(), code: errorCode }),
    "The first tasks that were not changed, with the reason.",
  ),
  hasMore: flag("Whether more tasks may match."),
};

export const BulkOutcome = object(
  { changed: count("Number of tasks that were changed."), ...outcome },
  { about: "What came of a request about many tasks." },
);

const changed = count("Number of tasks that were changed.", { as: "changed" });
const about = "What was done.";
const common = { access: "admin", body, refusals: ["payloads_hidden"] } as const;

export const deadLetters = endpoints({
  replayDeadLetters: {
    ...common,
    key: "POST /admin/dead-letters/replay",
    summary: "Replay dead letters and failed tasks",
    replies: {
      200: {
        about,
        shape: object({ replayed: changed, ...outcome }, { name: "ReplayedDeadLetters" }),
      },
    },
  },
  deleteDeadLetters: {
    ...common,
    key: "POST /admin/dead-letters/delete",
    summary: "Delete dead letters and failed tasks",
    replies: {
      200: {
        about,
        shape: object({ deleted: changed, ...outcome }, { name: "DeletedDeadLetters" }),
      },
    },
  },
});
