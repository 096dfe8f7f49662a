/** Producers without Node's modules: for Cloudflare Workers, Vercel Edge, Deno, Bun and browsers. */

export { CodeqError, TaskFailedError } from "../codeq-error.ts";
export { type AesGcmOptions, aesGcm, type Codec } from "../payload/codec.ts";
export { EnqueueManyError } from "../producer/enqueue-options.ts";
export {
  codeq,
  FetchClient,
  type FetchClientOptions,
  type FetchEnqueueItem,
  task,
  useClient,
} from "./fetch-client.ts";
