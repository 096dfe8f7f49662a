/**
 * The user's file of servers and tokens, shared with the Go command line: `config.yaml` in `~/.codeq` or
 * `CODEQ_CONFIG_DIR`. All other content of the file is kept, including comments. The file contains secrets,
 * so it is readable only by its owner, and is replaced in one step.
 */
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Document } from "@codeq/server/config";
import { CliError } from "../cli-error.ts";
import type { Host } from "../host.ts";

export interface Profile {
  readonly baseUrl?: string;
  /** From a sign-in of the Go command line; stands in for the producer's. */
  readonly token?: string;
  readonly producerToken?: string;
  readonly workerToken?: string;
  readonly admin?: boolean;
}

interface ProfileFile {
  readonly path: string;
  readonly currentProfile: string | undefined;
  readonly profiles: Readonly<Record<string, Profile>>;
}

/** The profile of commands that name none. */
export const defaultProfile = "default";

/** `null` takes a field away. */
export type ProfileChanges = Readonly<Partial<Record<keyof Profile, string | boolean | null>>>;

export function profilePath(host: Pick<Host, "env" | "home">): string {
  const directory = host.env["CODEQ_CONFIG_DIR"] || join(host.home, ".codeq");
  return join(directory, "config.yaml");
}

/** A missing file is an empty one. */
export async function readProfiles(path: string): Promise<ProfileFile> {
  const text = await textOf(path);
  if (text === undefined) return { path, currentProfile: undefined, profiles: {} };
  const root: unknown = (await parse(path, text)).toJS() ?? {};
  if (!isMap(root)) throw notUsable(path, "it is not a map of keys");
  const { currentProfile, profiles = {} } = root;
  if (!isMap(profiles ?? {})) throw notUsable(path, "profiles is not a map");
  return {
    path,
    currentProfile: typeof currentProfile === "string" ? currentProfile : undefined,
    profiles: Object.fromEntries(
      Object.entries(profiles ?? {}).map(([name, fields]) => [name, toProfile(fields)]),
    ),
  };
}

/** Changes one profile, and creates it if it is missing; `isCurrent` makes it the current one. */
export async function changeProfile(
  path: string,
  { name, isCurrent }: { readonly name: string; readonly isCurrent?: boolean },
  changes: ProfileChanges,
): Promise<void> {
  const document = await parse(path, (await textOf(path)) ?? "");
  if (document.contents === null) document.contents = document.createNode({}) as never;
  if (isCurrent === true) document.set("currentProfile", name);
  for (const [field, value] of Object.entries(changes)) {
    const fieldPath = ["profiles", name, field];
    if (value === null) document.deleteIn(fieldPath);
    else document.setIn(fieldPath, value);
  }
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const draft = `${path}.${process.pid}.tmp`;
  await writeFile(draft, document.toString(), { mode: 0o600 });
  await rename(draft, path);
}

async function textOf(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw notUsable(path, `it cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

/** What the YAML parser says is not passed on: it may quote a token. */
async function parse(path: string, text: string): Promise<Document> {
  const { parseDocument } = await import("@codeq/server/config");
  const document = parseDocument(text, { prettyErrors: false });
  if (document.errors.length > 0) throw notUsable(path, "it is not valid YAML");
  return document;
}

function toProfile(fields: unknown): Profile {
  if (!isMap(fields)) return {};
  const text = (name: string): Record<string, string> => {
    const value = fields[name];
    return typeof value === "string" && value !== "" ? { [name]: value } : {};
  };
  return {
    ...text("baseUrl"),
    ...text("token"),
    ...text("producerToken"),
    ...text("workerToken"),
    ...(typeof fields["admin"] === "boolean" ? { admin: fields["admin"] } : {}),
  };
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function notUsable(path: string, why: string): CliError {
  return new CliError(`the file ${path} cannot be used: ${why}`, {
    exit: "usage",
    next: "fix the file, or move it away and run codeq auth set again",
  });
}

const shownChars = 4;

/** A secret in masked form: enough of it to distinguish it from another one. */
export function mask(secret: string | undefined): string | undefined {
  if (secret === undefined) return undefined;
  return secret.length <= shownChars * 3 ? "****" : `${secret.slice(0, shownChars)}****`;
}
