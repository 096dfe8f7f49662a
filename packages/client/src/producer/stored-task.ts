/** Creates a task whose fields were checked when they were stored in a database. */
import type { Client } from "../client.ts";
import type { CreateFields, CreateOptions } from "./creations.ts";

/** Resolves with the id of the task; tries again while the server cannot be reached. */
export function createStored(
  client: Client,
  fields: CreateFields,
  options: CreateOptions,
): Promise<string> {
  return client.createStored(fields, options);
}
