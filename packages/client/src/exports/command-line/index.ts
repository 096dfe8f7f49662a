/** What the command line shares with the library; not for applications. */

export {
  type ApiRequest,
  type Given,
  type Giving,
  type ItemOf,
  type Key,
  type ReplyOf,
  requestOf,
} from "@codeq/protocol";
export {
  CreateApiKeyBody,
  type Fields,
  RenewBody,
  type Shape,
  SubscribeBody,
  TopicPolicy,
  type WireFields,
} from "@codeq/protocol/api";
export { eachPage } from "../../api-calls.ts";
export { Failover } from "../../failover.ts";
export type { ServerSentEvent } from "../../http/http-core.ts";
export {
  type CoreRequest,
  codeIn,
  errorIn,
  ForeignAnswerError,
  HttpCore,
  NoAnswerError,
  type Reply,
  redirectProblem,
} from "../../http/http-core.ts";
