export { type Core, type CoreParts, composeCore, composeHttp } from "./compose.ts";
