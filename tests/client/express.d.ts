/** As much of Express as the tests use; its types are a package of their own. */
declare module "express" {
  import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";

  interface App extends RequestListener {
    post(path: string, run: (request: IncomingMessage, response: ServerResponse) => void): void;
  }
  function express(): App;
  export = express;
}
