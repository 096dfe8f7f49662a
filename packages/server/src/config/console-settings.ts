/** The settings of the web console, and the rules between them. */
import { text, trueOrFalse } from "./parsers.ts";
import type { SettingTable } from "./setting-table.ts";
import type { ProviderConfig, Settings } from "./settings.ts";

type ConsoleSetting =
  | "console"
  | "consoleSecret"
  | "consoleTraceUrl"
  | "consoleLoginClientId"
  | "consoleLoginClientSecret"
  | "consoleLoginScopes"
  | "consoleLoginResource";

const none = { initial: "", initialInWords: "none" } as const;

export const consoleSettings: Pick<SettingTable, ConsoleSetting> = {
  console: {
    parser: trueOrFalse,
    initial: true,
    about: "Whether the server has the web console, at `/`.",
  },
  consoleSecret: {
    parser: text({ accepts: "text that is not empty", example: "..." }),
    initial: "",
    initialInWords: "drawn at every start",
    secret: true,
    about:
      "Secret that seals the sessions of the console. Servers behind one name need the same one; without it, " +
      "everybody has to sign in again after a restart.",
  },
  consoleTraceUrl: {
    parser: text({
      accepts: "a URL that begins with http:// or https:// and contains {traceId}",
      example: "https://jaeger.example.com/trace/{traceId}",
      test: (url) => /^https?:\/\/\S*\{traceId\}\S*$/.test(url),
    }),
    initial: "",
    initialInWords: "none",
    about: "Where traces can be looked at; the console links the trace of a task to this URL.",
  },
  consoleLoginClientId: {
    ...none,
    parser: text({ accepts: "text", example: "codeq-console" }),
    about:
      "Client id of the console at the identity server of producerAuthConfig. With it, people sign in to the console " +
      "there (OpenID Connect, authorization code with PKCE); register `/ui/login/callback` of this server as redirect URI.",
  },
  consoleLoginClientSecret: {
    ...none,
    parser: text({ accepts: "text that is not empty", example: "..." }),
    secret: true,
    about: "Secret of that client, if the identity server gave it one.",
  },
  consoleLoginScopes: {
    parser: text({
      accepts: "scopes separated by spaces, openid among them",
      example: "openid codeq:viewer",
      test: (scopes) => scopes.split(" ").includes("openid"),
    }),
    initial: "openid",
    about: "Scopes that the console asks the identity server for.",
  },
  consoleLoginResource: {
    ...none,
    parser: text({ accepts: "text", example: "https://codeq.example.com" }),
    about:
      "Resource that the access token is for (RFC 8707), for identity servers that otherwise issue tokens that are " +
      "not signed, or not for the audience of producerAuthConfig.",
  },
};

/** People can sign in only where their tokens are known. */
export function consoleProblems(
  { consoleLoginClientId }: Settings,
  producers: readonly ProviderConfig[],
): string[] {
  if (consoleLoginClientId === "") return [];
  const issuer = producers.find((each) => each.type === "jwks")?.issuer;
  if (issuer === undefined) {
    return [
      "consoleLoginClientId: needs an identity server that signs the tokens of people; set producerAuthConfig with " +
        "jwksUrl, issuer and audience",
    ];
  }
  if (/^https?:/.test(issuer) && URL.canParse(issuer)) return [];
  return [
    `consoleLoginClientId: the issuer ${issuer} is not a URL, so the console cannot find its sign-in page; remove ` +
      "consoleLoginClientId, or use an issuer that begins with https://",
  ];
}
