/** What can be injected, and under which tokens. */
import type { Client, Task, TaskType } from "@codeq/client";
import { type FactoryProvider, Inject, type InjectionToken } from "@nestjs/common";

/** @internal */
export const clientToken: InjectionToken = Symbol("codeQ client");

/**
 * Injects the client of `CodeqModule`.
 *
 * ```ts
 * constructor(@InjectCodeq() private readonly codeq: Client) {}
 * ```
 */
export function InjectCodeq(): ParameterDecorator & PropertyDecorator {
  return Inject(clientToken);
}

/**
 * Injects a task that was listed in `CodeqModule.forFeature`; its `enqueue` and `run` use the client of `CodeqModule`.
 *
 * ```ts
 * constructor(@InjectTask(resize) private readonly resizing: typeof resize) {}
 * ```
 */
export function InjectTask({
  name,
}: TaskType<unknown, unknown>): ParameterDecorator & PropertyDecorator {
  return Inject(taskToken(name));
}

/** Nest shows it when the task was not listed. */
const taskToken = (name: string): string => `codeQ task ${name}; see CodeqModule.forFeature`;

/** @internal A provider of a task that enqueues itself with the client of the module. */
export function taskProvider(task: TaskType<unknown, unknown>): FactoryProvider {
  return {
    provide: taskToken(task.name),
    inject: [clientToken],
    useFactory: (client: Client): Pick<Task<unknown, unknown>, "name" | "enqueue" | "run"> => ({
      ...task,
      enqueue: (...args) => client.enqueue(task, ...args),
      run: async (input, options = {}) =>
        (await client.enqueue(task, input, options)).result(options),
    }),
  };
}
