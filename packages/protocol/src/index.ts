export {
  type ApiRequest,
  type Given,
  type Giving,
  type ItemOf,
  type Key,
  type ReplyOf,
  requestOf,
} from "./contract/request.ts";
export type { WireOf } from "./contract/shape.ts";
export { type Encrypted, encryptedIn } from "./encrypted.ts";
export { type ErrorCode, errors, isUnknownIssuer } from "./errors.ts";
export { limits } from "./limits.ts";
