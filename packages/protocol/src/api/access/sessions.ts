/** Who is signed in to the console, as `/ui/session` answers. The token itself stays in a cookie. */
import { instant, object, text, whole } from "../../contract/shape.ts";

export const Session = object(
  {
    subject: text(),
    tenantId: text(),
    role: text("", { oneOf: ["viewer", "admin", "operator"] }),
    payloads: text("Whether the server shows payloads and results to this session.", {
      oneOf: ["shown", "hidden"],
    }),
    apiKeyId: text("", { isOptional: true }),
    csrf: text("Sent back in a header with every change."),
    expiresAt: instant(),
    env: text(),
    version: text(),
    durability: text(),
    shards: whole(),
    traceUrl: text("Where traces are shown, with {traceId} in it.", { none: "" }),
  },
  { name: "Session" },
);

/** The answer when no user is signed in. */
export const SignedOut = object(
  {
    error: text(),
    identityServer: text("Host of the identity server for single sign-on.", { isOptional: true }),
  },
  { name: "SignedOut" },
);
