/** Classes that handle tasks, and how they are found again. */
import type { Task, TaskContext, WorkerOptions } from "@codeq/client";
import { SetMetadata } from "@nestjs/common";

/** What handlers of a task get: its input, as the schema of the task gives it back. */
export type InputOf<T> =
  T extends Task<infer _Input, infer _Output, infer Parsed, infer _Returned> ? Parsed : never;

/** What handlers of a task return. */
export type OutputOf<T> =
  T extends Task<infer _Input, infer _Output, infer _Parsed, infer Returned> ? Returned : never;

/** A class that handles a task. */
export interface TaskProcessor<Parsed = unknown, Returned = unknown> {
  /** Handles one task: what it returns is the output, and what it throws is an attempt that failed. */
  process(input: Parsed, ctx: TaskContext): Returned | Promise<Returned>;
}

/** @internal What `Processor` says of a class. */
export interface ProcessorSettings {
  readonly task: Task<unknown, unknown>;
  readonly worker: WorkerOptions | undefined;
}

/** @internal */
export const processorKey = "codeq:processor";

/**
 * Makes a class the handler of a task; list the class in the providers of a module. The compiler refuses a class whose
 * `process` does not fit the task. With options of its own, the processor gets a worker of its own.
 *
 * ```ts
 * @Processor(resize)
 * export class Resizer {
 *   constructor(private readonly images: ImageStore) {}
 *
 *   async process({ image, width }: InputOf<typeof resize>, ctx: TaskContext) {
 *     return { url: await this.images.scale(image, width, ctx.signal) };
 *   }
 * }
 * ```
 */
export function Processor<Input, Output, Parsed, Returned>(
  task: Task<Input, Output, Parsed, Returned>,
  worker?: WorkerOptions,
): <Class extends abstract new (...args: never[]) => TaskProcessor<Parsed, Returned>>(
  target: Class,
) => void {
  const settings = { task, worker };
  return (target) => void SetMetadata(processorKey, settings)(target);
}
