export { type ErrorCode, errors } from "./errors.ts";
export { limits } from "./limits.ts";
export { isUnknownIssuer } from "./unknown-issuer.ts";
