/** As much of the library as the tests use; it comes without types. */
declare module "oidc-provider" {
  import type { RequestListener } from "node:http";

  // biome-ignore lint/style/noDefaultExport: that is how the library exports it.
  export default class Provider {
    constructor(issuer: string, configuration: object);
    callback(): RequestListener;
  }
}
