/** As much of the library as the tests use; it comes without types. */
declare module "oidc-provider" {
  import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";

  export interface Grant {
    addOIDCScope(scope: string): void;
    save(): Promise<string>;
  }

  /** Of a person who is about to be sent back. */
  export interface AuthorizationContext {
    readonly oidc: {
      readonly client: { readonly clientId: string };
      readonly session: { readonly accountId: string };
      readonly provider: {
        readonly Grant: new (of: { clientId: string; accountId: string }) => Grant;
      };
    };
  }

  // biome-ignore lint/style/noDefaultExport: that is how the library exports it.
  export default class Provider {
    constructor(issuer: string, configuration: object);
    callback(): RequestListener;
    interactionFinished(
      request: IncomingMessage,
      response: ServerResponse,
      result: object,
    ): Promise<void>;
  }
}
