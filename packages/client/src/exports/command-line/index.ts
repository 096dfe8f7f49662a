/** What the command line shares with the library; not for applications. */
export {
  type CoreRequest,
  codeIn,
  errorIn,
  HttpCore,
  NoAnswerError,
  type Reply,
} from "../../http/http-core.ts";
