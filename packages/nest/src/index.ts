/** codeQ in NestJS: a module with a client and workers, processors, and tasks by injection. */
export { CodeqModule, type CodeqModuleOptions } from "./codeq-module.ts";
export { InjectCodeq, InjectTask } from "./inject.ts";
export {
  type InputOf,
  type OutputOf,
  Processor,
  type TaskProcessor,
} from "./processor.ts";
