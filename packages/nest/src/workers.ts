/**
 * Runs the processors of an application: workers start when the application has started (`onApplicationBootstrap`), and
 * hand back what they have not finished when it shuts down (`onApplicationShutdown`).
 */
import type { Client, Handler, Worker, WorkerListeners, WorkerOptions } from "@codeq/client";
import { Logger, type OnApplicationBootstrap, type OnApplicationShutdown } from "@nestjs/common";
import type { DiscoveryService, Reflector } from "@nestjs/core";
import type { CodeqModuleOptions } from "./codeq-module.ts";
import { type ProcessorSettings, processorKey, type TaskProcessor } from "./processor.ts";

type InstanceWrapper = ReturnType<DiscoveryService["getProviders"]>[number];

export class Workers implements OnApplicationBootstrap, OnApplicationShutdown {
  readonly #client: Client;
  readonly #options: CodeqModuleOptions;
  readonly #discovery: DiscoveryService;
  readonly #reflector: Reflector;
  readonly #logger = new Logger("codeQ");
  #workers: readonly Worker[] = [];

  constructor(
    { client, options }: { readonly client: Client; readonly options: CodeqModuleOptions },
    discovery: DiscoveryService,
    reflector: Reflector,
  ) {
    this.#client = client;
    this.#options = options;
    this.#discovery = discovery;
    this.#reflector = reflector;
  }

  onApplicationBootstrap(): void {
    const { worker = {} } = this.#options;
    if (worker === false) return;
    const shared: Handler[] = [];
    const own: [handler: Handler, options: WorkerOptions][] = [];
    for (const wrapper of this.#discovery.getProviders()) {
      const settings = this.#settingsOf(wrapper);
      if (settings === undefined) continue;
      const handler = handlerOf(wrapper, settings);
      if (settings.worker === undefined) shared.push(handler);
      else own.push([handler, settings.worker]);
    }
    const start = (handlers: readonly Handler[], options: WorkerOptions): Worker =>
      this.#client.worker(handlers, { ...options, on: { ...this.#log(), ...options.on } });
    this.#workers = [
      ...(shared.length > 0 ? [start(shared, worker)] : []),
      ...own.map(([handler, options]) => start([handler], { ...worker, ...options })),
    ];
  }

  async onApplicationShutdown(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.close()));
    // A client that the application made is closed by the application.
    if (this.#options.client === undefined) await this.#client.close();
  }

  #settingsOf({ metatype }: InstanceWrapper): ProcessorSettings | undefined {
    if (typeof metatype !== "function") return undefined;
    return this.#reflector.get<ProcessorSettings | undefined>(processorKey, metatype);
  }

  /** Without a listener of the user, an event goes to the log of the application. */
  #log(): WorkerListeners {
    return {
      failed: ({ id, task, attempt }, error) => {
        const text = `task ${id} (${task}) failed in attempt ${attempt}`;
        this.#logger.error(text, error instanceof Error ? error.stack : String(error));
      },
      refused: (error) => this.#logger.warn(error.message),
      warning: ({ message }) => this.#logger.warn(message),
      stopped: (error) => this.#logger.error(`the worker has stopped: ${error.message}`),
    };
  }
}

function handlerOf(wrapper: InstanceWrapper, { task }: ProcessorSettings): Handler {
  const { name } = wrapper;
  if (!wrapper.isDependencyTreeStatic()) {
    const fix = "give it, and what is injected into it, the default scope";
    throw new Error(`the processor ${name} of ${task.name} is made for each request: ${fix}`);
  }
  const processor = wrapper.instance as TaskProcessor;
  return task.handle((input, ctx) => processor.process(input, ctx));
}
