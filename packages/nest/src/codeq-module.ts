/** The module: one client for the application, the workers of its processors, and tasks to inject. */
import {
  type Client,
  type ClientOptions,
  codeq,
  type TaskType,
  type WorkerOptions,
} from "@codeq/client";
import {
  type ConfigurableModuleAsyncOptions,
  ConfigurableModuleBuilder,
  type DynamicModule,
  Module,
} from "@nestjs/common";
import { DiscoveryModule, DiscoveryService, Reflector } from "@nestjs/core";
import { clientToken, taskProvider } from "./inject.ts";
import { Workers } from "./workers.ts";

/** The options of the client, and how processors are run. */
export interface CodeqModuleOptions extends ClientOptions {
  /** A client that exists already, such as that of a test server. The module does not close it, and makes no other. */
  readonly client?: Client | undefined;
  /** How the worker of the processors works; `false` for a process that only enqueues. */
  readonly worker?: WorkerOptions | false | undefined;
}

const { ConfigurableModuleClass: Options, MODULE_OPTIONS_TOKEN: optionsToken } =
  new ConfigurableModuleBuilder<CodeqModuleOptions>({ moduleName: "Codeq" })
    .setClassMethodName("forRoot")
    .build();

/** Import it once, in the root module; it is global. */
// biome-ignore lint/complexity/noStaticOnlyClass: Nest takes a class for a module.
export class CodeqModule {
  /**
   * Opens a client and runs the processors of all modules. Everything that is not given comes from the environment
   * (`CODEQ_URL`, `CODEQ_TOKEN`).
   *
   * ```ts
   * @Module({ imports: [CodeqModule.forRoot({ worker: { concurrency: 20 } })], providers: [Resizer] })
   * export class AppModule {}
   * ```
   */
  static forRoot(options: CodeqModuleOptions = {}): DynamicModule {
    return globalModule(Options.forRoot(options));
  }

  /**
   * The same with options from elsewhere: `useFactory`, `useClass` or `useExisting`.
   *
   * ```ts
   * CodeqModule.forRootAsync({
   *   inject: [ConfigService],
   *   useFactory: (config: ConfigService) => ({ url: config.getOrThrow("CODEQ_URL") }),
   * });
   * ```
   */
  static forRootAsync(options: ConfigurableModuleAsyncOptions<CodeqModuleOptions>): DynamicModule {
    return globalModule(Options.forRootAsync(options));
  }

  /**
   * Makes tasks available to `@InjectTask` in the module that imports this.
   *
   * ```ts
   * @Module({ imports: [CodeqModule.forFeature([resize])], providers: [Uploads] })
   * export class UploadsModule {}
   * ```
   */
  static forFeature(tasks: readonly TaskType<unknown, unknown>[]): DynamicModule {
    const providers = tasks.map((task) => taskProvider(task));
    return { module: CodeqModule, providers, exports: providers };
  }
}

Module({})(CodeqModule);

function globalModule({ imports = [], providers = [] }: DynamicModule): DynamicModule {
  return {
    module: CodeqModule,
    global: true,
    imports: [...imports, DiscoveryModule],
    providers: [
      ...providers,
      {
        provide: clientToken,
        inject: [optionsToken],
        useFactory: clientOf,
      },
      {
        provide: Workers,
        inject: [clientToken, optionsToken, DiscoveryService, Reflector],
        useFactory: (client: Client, options: CodeqModuleOptions, ...nest: NestParts): Workers =>
          new Workers({ client, options }, ...nest),
      },
    ],
    exports: [clientToken],
  };
}

type NestParts = [discovery: DiscoveryService, reflector: Reflector];

function clientOf({ client, worker: _worker, ...options }: CodeqModuleOptions): Client {
  return client ?? codeq(options);
}
