/** Workers that hold leases or have a stream open. */

import { endpoints, pageOf, pageQuery } from "../../contract/endpoint.ts";
import { count, instant, object, only, text } from "../../contract/shape.ts";
import { limits } from "../../limits.ts";

export const Worker = object({
  workerId: text(),
  leases: count(),
  oldestLeaseAt: instant("", { as: "oldestMs", isOptional: true }),
  lastSeenAt: instant("", { as: "seenMs", isOptional: true }),
  streams: count(),
  connectedAt: instant("", { as: "sinceMs", isOptional: true }),
  client: text("The `user-agent` of its newest stream.", { isOptional: true }),
});

export const workers = endpoints({
  listWorkers: {
    key: "GET /admin/workers",
    access: "viewer",
    summary: "List workers",
    // The id of a worker is at most its name, escaped, and its subject.
    query: pageQuery(new RegExp(`^.{1,${limits.tokenCharsMax}}$`, "s")),
    replies: {
      200: {
        about: "Workers that hold leases or have a stream open.",
        shape: pageOf("Workers", "workers", Worker, {
          isPartial: only(true, "There are more leases than were looked at, or a shard is down.", {
            none: false,
          }),
        }),
      },
    },
  },
});
