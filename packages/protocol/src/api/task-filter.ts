/** The conditions with which administrators choose tasks, in queries and in bodies. An operation reads their texts. */
import { text } from "./shape.ts";

export const taskPlaces = ["ready", "delayed", "leased", "dead", "done", "failed"] as const;

const only = (about: string) => text(about, { isOptional: true });

export const taskFilter = {
  command: only("Only tasks of this command."),
  place: text(`Where they are: ${taskPlaces.join(", ")}.`, {
    oneOf: taskPlaces,
    isOptional: true,
    refusal: `invalid 'place': it must be one of ${taskPlaces.join(", ")}`,
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
  id: only("Only tasks whose id begins or ends with these characters, at least four."),
};
