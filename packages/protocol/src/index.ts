export { type ErrorCode, errors, isUnknownIssuer } from "./errors.ts";
export { limits } from "./limits.ts";
