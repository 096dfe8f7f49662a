/**
 * The server and the token to use: from options, then the environment, then the profile, then the defaults
 * for a server on this machine.
 */

import { readFile } from "node:fs/promises";
import { developmentToken } from "@codeq/server/command-line";
import { CliError, usageError } from "../cli-error.ts";
import type { Host } from "../host.ts";
import type { Options } from "../options.ts";
import { defaultProfile, type Profile, profilePath, readProfiles } from "./profile-file.ts";

/** A value and where it came from, in words. */
export interface Sourced<T> {
  readonly value: T;
  readonly source: string;
}

export interface Connection {
  readonly profile: string;
  /** Without a slash at the end. Of several, the first. */
  readonly baseUrl: Sourced<string>;
  /** All nodes of a cluster that were named. */
  readonly urls: readonly string[];
  readonly producerToken: Sourced<string> | undefined;
  /** The token of the producer when the worker has none of its own. */
  readonly workerToken: Sourced<string> | undefined;
  /** Whose token the worker uses. */
  readonly workerTokenOf: "worker" | "producer";
  readonly admin: boolean;
  readonly tls: Certificates;
}

const defaultBaseUrl = "http://localhost:8080";

export async function resolveConnection(
  host: Pick<Host, "env" | "home">,
  options: Options,
): Promise<Connection> {
  const file = await readProfiles(profilePath(host));
  const named = options.text("profile") ?? setting(host.env["CODEQ_PROFILE"]);
  const name = named ?? file.currentProfile ?? defaultProfile;
  const profile = file.profiles[name];
  if (profile === undefined && named !== undefined) throw noSuchProfile(name, file);
  const choose = (option: string, variable: string, field: keyof Profile) =>
    sourced(options.text(option), `--${option}`) ??
    sourced(setting(host.env[variable]), variable) ??
    sourced(profile?.[field], `profile ${name}`);
  // The client libraries prefer CODEQ_URL too; CODEQ_BASE_URL is the name that the Go command line reads.
  const variable = setting(host.env["CODEQ_URL"]) === undefined ? "CODEQ_BASE_URL" : "CODEQ_URL";
  const baseUrl = choose("base-url", variable, "baseUrl") ?? fallback(defaultBaseUrl);
  const { source } = baseUrl;
  const urls = baseUrl.value.split(",").map((value) => checkUrl({ value: value.trim(), source }));
  const checked = { source, value: urls[0] as string };
  const local = urls.every(isLoopback);
  const shared = local ? fallback(developmentToken) : undefined;
  const any = choose("token", "CODEQ_TOKEN", "token");
  const ownProducer = choose("producer-token", "CODEQ_PRODUCER_TOKEN", "producerToken");
  const ownWorker = choose("worker-token", "CODEQ_WORKER_TOKEN", "workerToken");
  const producerToken = checkToken(closest(ownProducer, any)) ?? shared;
  const workerToken = checkToken(closest(ownWorker, any));
  return {
    profile: name,
    baseUrl: checked,
    urls,
    producerToken,
    workerToken: workerToken ?? producerToken,
    workerTokenOf: workerToken === undefined ? "producer" : "worker",
    admin: isOn(choose("admin", "CODEQ_ADMIN", "admin")?.value) ?? local,
    tls: await readCertificates(host, options),
  };
}

/** Options win over variables, and variables over profiles. */
function closest(
  own: Sourced<string> | undefined,
  any: Sourced<string> | undefined,
): Sourced<string> | undefined {
  if (own === undefined || any === undefined) return own ?? any;
  return rankOf(any.source) < rankOf(own.source) ? any : own;
}

function rankOf(source: string): number {
  if (source.startsWith("--")) return 0;
  return source.startsWith("CODEQ_") ? 1 : 2;
}

/** Checked here, because the errors of HTTP libraries quote the value. */
function checkToken(token: Sourced<string> | undefined): Sourced<string> | undefined {
  if (token === undefined || !/\p{Cc}/u.test(token.value)) return token;
  throw usageError(
    `the token (${token.source}) contains a line break or another control character`,
    "pass the token only",
  );
}

function sourced(value: string | boolean | undefined, source: string): Sourced<string> | undefined {
  return value === undefined ? undefined : { value: String(value), source };
}

function fallback(value: string): Sourced<string> {
  return { value, source: "default" };
}

/** A variable that is set to nothing counts as not set. */
function setting(value: string | undefined): string | undefined {
  return value === undefined || value.trim() === "" ? undefined : value.trim();
}

function checkUrl({ value, source }: Sourced<string>): string {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  const isHttp = url?.protocol === "http:" || url?.protocol === "https:";
  const hasSecret = isHttp ? url.username + url.password !== "" : value.includes("@");
  if (isHttp && !hasSecret) return value.replace(/\/+$/, "");
  const shown = hasSecret ? "a text with a user name or password" : JSON.stringify(value);
  throw usageError(
    `${shown} (${source}) is not the address of a server`,
    `use an address such as ${defaultBaseUrl}; pass tokens with --token or CODEQ_TOKEN`,
  );
}

function isLoopback(baseUrl: string): boolean {
  const { hostname } = new URL(baseUrl);
  return hostname === "localhost" || hostname === "[::1]" || /^127\./.test(hostname);
}

function isOn(value: string | undefined): boolean | undefined {
  if (value === undefined) return undefined;
  return ["true", "1", "yes"].includes(value.toLowerCase());
}

function noSuchProfile(name: string, file: { path: string; profiles: object }): CliError {
  const names = Object.keys(file.profiles);
  const known =
    names.length === 0 ? "the file has no profiles yet" : `the file has ${names.join(", ")}`;
  return new CliError(`there is no profile ${JSON.stringify(name)} in ${file.path}; ${known}`, {
    exit: "usage",
    next: `codeq auth set --profile ${name} --base-url <url> --producer-token <token>`,
  });
}

/** The certificates that options and variables name: the CA of the server, and the client certificate. */
interface Certificates {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
}

async function readCertificates(
  { env }: Pick<Host, "env">,
  options: Options,
): Promise<Certificates> {
  const paths = {
    ca: options.text("ca-file") ?? env["CODEQ_CA_FILE"],
    cert: options.text("cert-file") ?? env["CODEQ_CERT_FILE"],
    key: options.text("key-file") ?? env["CODEQ_KEY_FILE"],
  };
  if (!paths.cert !== !paths.key) {
    throw usageError(
      "a client certificate needs both --cert-file and --key-file",
      "pass both, or set both CODEQ_CERT_FILE and CODEQ_KEY_FILE",
    );
  }
  const read = await Promise.all(
    Object.entries(paths).map(async ([name, path]) => [name, path ? await bytesOf(path) : path]),
  );
  return Object.fromEntries(read.filter(([, bytes]) => bytes instanceof Buffer)) as Certificates;
}

async function bytesOf(path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new CliError(`cannot read the certificate or key ${path} (${code})`, {
      exit: "usage",
      next: "check --ca-file, --cert-file and --key-file, or CODEQ_CA_FILE, CODEQ_CERT_FILE and CODEQ_KEY_FILE",
      cause: error,
    });
  }
}
