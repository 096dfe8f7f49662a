/** What the command line shares with the library; not for applications. */

export {
  type ApiRequest,
  encryptedIn,
  type Given,
  type Giving,
  type ItemOf,
  type Key,
  type ReplyOf,
  requestOf,
  type WireOf,
} from "@codeq/protocol";
export { api, type Endpoint, type Health, type Shape } from "@codeq/protocol/api";
export { tenants } from "../../admin/admin.ts";
export { rotateKey } from "../../admin/admin-keys.ts";
export { failureGroups } from "../../admin/failure-groups.ts";
export { type AskApi, eachPage, type Page, pageIn } from "../../api-calls.ts";
export { Failover } from "../../connection/failover.ts";
export type { ServerSentEvent } from "../../http/http-core.ts";
export {
  type CoreRequest,
  codeIn,
  ForeignAnswerError,
  HttpCore,
  NoAnswerError,
  type Reply,
  redirectProblem,
  textIn,
} from "../../http/http-core.ts";
export { httpsFetch } from "../../http/https-fetch.ts";
export { aesGcm, type Codec } from "../../payload/codec.ts";
