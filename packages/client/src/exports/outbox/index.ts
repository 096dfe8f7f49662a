/** What the package for transactions shares with the library; not for applications. */

export { errors } from "@codeq/protocol";
export { producer } from "@codeq/protocol/wire";
export { createStored } from "../../client.ts";
export { messageOf } from "../../codeq-error.ts";
export { toMs } from "../../duration.ts";
export type { CreateFields } from "../../producer/creations.ts";
export { createFields, payloadOf } from "../../producer/enqueue-options.ts";
export { type Runtime, systemRuntime } from "../../runtime.ts";
export type { TaskDefinition } from "../../task.ts";
export { passOn } from "../../trace-context.ts";
