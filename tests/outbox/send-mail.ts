/** The task of the tests, and the outbox that they enqueue it with. */
import { type Task, task } from "@codeq/client";
import { nodePostgres } from "../../packages/outbox/src/adapters/node-postgres.ts";
import { createOutbox, type Outbox } from "../../packages/outbox/src/index.ts";

export interface Mail {
  readonly order: number;
}

export const sendMail: Task<Mail, void> = task<Mail, void>("send-mail");
export const outbox: Outbox<Parameters<typeof nodePostgres>[0]> = createOutbox({
  adapter: nodePostgres,
});
