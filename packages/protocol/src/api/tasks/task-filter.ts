/** The conditions with which administrators choose tasks, in queries and in bodies. An operation reads their texts. */

import { text, whole } from "../../contract/shape.ts";
import { limits } from "../../limits.ts";

export const taskPlaces = [
  "ready",
  "delayed",
  "held",
  "leased",
  "dead",
  "failed",
  "cancelled",
  "done",
] as const;
/** A failure is a dead letter or a failed task. */
export const filterPlaces = [...taskPlaces, "failure"] as const;

const only = (about: string) => text(about, { isOptional: true });

export const taskFilter = {
  command: only("Only tasks of this command."),
  place: text(`Where they are: ${filterPlaces.join(", ")} (dead or failed).`, {
    oneOf: filterPlaces,
    isOptional: true,
    refusal: `invalid 'place': it must be one of ${filterPlaces.join(", ")}`,
  }),
  priority: only("Only tasks of this priority, 0 to 9."),
  worker: only("Only tasks that this worker holds, or held last."),
  createdAfter: only("RFC 3339 time: only tasks created at or after this time."),
  createdBefore: only("RFC 3339 time: only tasks created before this time."),
  endedAfter: only("RFC 3339 time: only tasks that ended at or after this time."),
  endedBefore: only("RFC 3339 time: only tasks that ended before this time."),
  error: only("Only tasks whose error contains this text."),
  group: only("Of this failure group, by its id."),
  idempotencyKey: only("Only the task with this idempotency key."),
  payload: only("Only tasks with this value in the payload, such as `customer.id:42`."),
  tag: only("Only tasks with this tag, or with all of several tags separated by commas."),
  schedule: only("Only tasks of this schedule."),
  batch: only("Only members of this batch."),
  lane: only("Only tasks of this lane."),
  id: only("Only tasks whose id begins or ends with these characters, at least four."),
};

const { place: _place, ...conditions } = taskFilter;

/** In a body, where a priority is a number. What may be in several places adds `place`. */
export const bodyFilter = {
  ...conditions,
  priority: whole("Only tasks of this priority.", {
    min: 0,
    max: limits.priorityMax,
    isOptional: true,
    refusal: `invalid 'priority': it must be a number from 0 to ${limits.priorityMax}`,
  }),
};
