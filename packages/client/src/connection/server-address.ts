/** Which server a client talks to, and the token it shows. */
import { CodeqError, messageOf } from "../codeq-error.ts";
import type { TokenSource } from "./connection.ts";

interface ServerOptions {
  readonly url?: string | readonly string[] | undefined;
  readonly token?: string | (() => string | Promise<string>) | undefined;
}

export const urlDefault = "http://127.0.0.1:8080";

/** The options, and from the environment what they leave out. */
export function serverIn(
  env: Readonly<Record<string, string | undefined>>,
  options: ServerOptions,
): ServerOptions {
  const urls = (env["CODEQ_URL"] || env["CODEQ_BASE_URL"] || "")
    .split(",")
    .map((url) => url.trim());
  const url = options.url ?? (urls[0] === "" ? undefined : urls);
  return { url, token: options.token ?? (env["CODEQ_TOKEN"] || undefined) };
}

export function urlsOf(given: string | readonly string[]): readonly URL[] {
  const texts = typeof given === "string" ? [given] : given;
  if (texts.length > 0) return texts.map(parseUrl);
  throw new CodeqError("invalid_option", "invalid url: the list is empty; give at least one");
}

function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isHttp = url?.protocol === "http:" || url?.protocol === "https:";
  const hasSecret = isHttp ? url.username + url.password !== "" : text.includes("@");
  if (isHttp && !hasSecret) return url;
  const shown = hasSecret ? "with a name or a password in it" : JSON.stringify(text);
  throw new CodeqError(
    "invalid_option",
    `invalid url ${shown}: give http://host:port or https://...`,
  );
}

export function tokenSource(token: string | (() => string | Promise<string>)): TokenSource {
  const check = (text: string): string => {
    if (typeof text !== "string" || text.trim() === "") {
      throw new CodeqError("invalid_option", "the token is empty; give the one of the server");
    }
    // The token is checked here, because the error of fetch would quote it.
    if (!/\p{Cc}/u.test(text)) return text;
    const problem = "the token contains a line break or another control character";
    throw new CodeqError("invalid_option", `${problem}; give the token alone`);
  };
  if (typeof token === "string") return () => check(token);
  const ask = async (): Promise<string> => {
    try {
      return await token();
    } catch (cause) {
      const text = `the function that gives the token failed: ${messageOf(cause)}`;
      throw new CodeqError("unavailable", text, { cause });
    }
  };
  return async () => check(await ask());
}
