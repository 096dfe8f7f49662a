/**
 * Files that workers send with a result, or earlier while they hold the lease. Every upload has its own key,
 * which is not visible before the result is committed or the file is attached to the task. Files of uploads
 * that did not get that far are removed with the upload, or found by the sweep.
 */
import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import { limits } from "@codeq/protocol";
import type { Artifact, TaskId, TenantId } from "@codeq/queue";
import type { Config } from "../../config/settings.ts";
import type { Broker } from "../../core/broker/broker.ts";
import type { References } from "../../core/broker/verbs.ts";
import type { Clock } from "../../core/clock.ts";
import type { MaybePromise } from "../../core/maybe-promise.ts";
import type { Job } from "../../core/sweeps/ticker.ts";
import type { RandomBytes } from "../../core/task-ids.ts";
import { TenantShares } from "../../core/tenant-shares.ts";
import type { Logger } from "../../telemetry/logger.ts";
import {
  ArtifactFault,
  type ArtifactKey,
  type ArtifactProvider,
  artifactKey,
  artifactUrl,
  type ByteRange,
} from "./artifact-provider.ts";

/** The task that a file belongs to. */
export interface FileOwner {
  readonly tenantId: TenantId;
  readonly id: TaskId;
  /** The host that the request names; on streams there is none. */
  readonly host?: string;
}

export interface ArtifactFile {
  readonly name: string;
  /** A link to a file elsewhere; empty for a file in `contentBase64`. */
  readonly url: string;
  readonly contentBase64: string;
  readonly contentType: string;
}

export interface StoredArtifacts {
  readonly artifacts: readonly Artifact[];
  /** Called when the change of the task is committed or refused; removes the files if it was refused. */
  readonly settle: (isKept: boolean) => Promise<void>;
}

export interface Upload {
  readonly name: string;
  readonly content: AsyncIterable<Uint8Array>;
  readonly contentType: string;
}

type Stored = { readonly ok: true; readonly value: StoredArtifacts } | Refused;

interface Refused {
  readonly ok: false;
  readonly code: "invalid_argument" | "overloaded" | "artifact_too_large" | "artifacts_unavailable";
  readonly text: string;
  readonly retryAfterMs?: number;
}

const noFiles: StoredArtifacts = { artifacts: [], settle: async () => {} };
const retryAfterMs = 1000;
const crowded: Refused = {
  ok: false,
  code: "overloaded",
  text: "too many artifacts are being stored; try again",
  retryAfterMs,
};
/** Files of one submit that are stored at the same time. */
const perSubmitMax = 5;
const uploadBytes = 8;
const typePattern = /^[\w.+-]{1,100}\/[\w.+-]{1,100}(;[\x20-\x7e]{0,100})?$/;
const unknownType = "application/octet-stream";

const base64 = /^[A-Za-z0-9+/]*={0,2}$/;

const hostPattern = /^[\w.:[\]-]{1,255}$/;

type ArtifactLimits = Pick<
  Config,
  "externalUrl" | "tlsCertFile" | "artifactBytesMax" | "artifactUploadsMax"
>;

export class Artifacts {
  readonly #provider: ArtifactProvider;
  readonly #settings: ArtifactLimits;
  readonly #randomBytes: RandomBytes;
  readonly #clock: Clock;
  /** Keys of uploads that are not settled yet. */
  readonly #unsettled: Set<string> = new Set();
  /** Uploads as streams, at the speed of their senders. */
  readonly #uploads: UploadSlots;
  readonly #downloads: TenantShares = new TenantShares(limits.artifactDownloadsMax);
  /** Files inside results, which are in memory. */
  readonly #inline: UploadSlots;

  constructor(parts: {
    readonly provider: ArtifactProvider;
    readonly settings: ArtifactLimits;
    readonly randomBytes: RandomBytes;
    readonly clock: Clock;
  }) {
    this.#provider = parts.provider;
    this.#settings = parts.settings;
    this.#randomBytes = parts.randomBytes;
    this.#clock = parts.clock;
    this.#uploads = new UploadSlots(parts.settings.artifactUploadsMax, parts.clock);
    this.#inline = new UploadSlots(parts.settings.artifactUploadsMax, parts.clock);
  }

  get bytesMax(): number {
    return this.#settings.artifactBytesMax;
  }

  /** In the order in which they are given; entries with neither a link nor content are dropped. */
  async store({ tenantId, id, host }: FileOwner, files: readonly ArtifactFile[]): Promise<Stored> {
    const inline = files.filter(({ url, contentBase64 }) => url === "" && contentBase64 !== "");
    for (const { name, contentBase64 } of inline) {
      const problem = problemOfName(name);
      if (problem !== undefined) return refused(name, `upload: ${problem}`);
      if (!isBase64(contentBase64)) {
        return refused(name, "base64 decode: only the standard alphabet is accepted");
      }
    }
    const twice = inline.find(({ name }, at) => inline.findIndex((u) => u.name === name) !== at);
    if (twice !== undefined) return refused(twice.name, "upload: the name is there twice");
    const uploads = inline.map(({ name, contentBase64, contentType }) => {
      return { name, contentType, content: once(Buffer.from(contentBase64, "base64")) };
    });
    const base = this.#baseOf(host);
    const putOne: PutOne = (key, each) => this.#putInTurn(tenantId, base, key, each);
    const stored = uploads.length === 0 ? ok(noFiles) : await this.#putAll(id, uploads, putOne);
    if (!stored.ok) return stored;
    const { settle } = stored.value;
    const byName = new Map(stored.value.artifacts.map((each) => [each.name, each]));
    const artifacts = files.flatMap(({ name, url, contentBase64 }) =>
      url !== "" ? [{ name, url }] : contentBase64 === "" ? [] : (byName.get(name) ?? []),
    );
    return ok({ artifacts, settle });
  }

  /** Stores one file that arrives as a stream. Refuses it at once if too many uploads are running. */
  async upload({ tenantId, id, host }: FileOwner, upload: Upload): Promise<Stored> {
    const problem = problemOfName(upload.name);
    if (problem !== undefined) return refused(upload.name, `upload: ${problem}`);
    if (!this.#uploads.takeNow(tenantId)) return crowded;
    try {
      const content = limitIdle(upload.content, this.#clock);
      const base = this.#baseOf(host);
      return await this.#putAll(id, [{ ...upload, content }], (...of) => this.#put(base, ...of));
    } finally {
      this.#uploads.giveBack(tenantId);
    }
  }

  /** Undefined if the file does not exist. */
  async open(
    { tenantId, id }: { readonly tenantId: TenantId; readonly id: TaskId },
    artifact: Artifact,
    range: ByteRange,
  ): Promise<Readable | "crowded" | undefined> {
    const key = artifactKey(id, artifact);
    if (key === undefined) return undefined;
    if (!this.#downloads.hasRoomFor(tenantId)) return "crowded";
    this.#downloads.add(tenantId, 1);
    const free = (): void => this.#downloads.add(tenantId, -1);
    let content: Readable | undefined;
    try {
      content = await this.#provider.open(key, range);
    } finally {
      if (content === undefined) free();
    }
    return content?.once("close", free);
  }

  link(id: TaskId, artifact: Artifact): Promise<string | undefined> {
    const key = artifactKey(id, artifact);
    const type = artifact.contentType ?? unknownType;
    return key === undefined ? Promise.resolve(undefined) : this.#provider.link(key, type);
  }

  /** Removes a file that is no longer attached to the task. */
  async remove(id: TaskId, artifact: Artifact): Promise<void> {
    const key = artifactKey(id, artifact);
    // The sweep removes a file that cannot be removed now.
    if (key !== undefined) await this.#provider.remove([key]).catch(() => {});
  }

  /** Removes the files that no task names, and returns their number. */
  async collect(referencesOf: (id: TaskId) => MaybePromise<References>): Promise<number> {
    let removed = 0;
    const { collectAfterMs } = this.#provider;
    for await (const { key, storedMs } of this.#provider.list()) {
      const isYoung = this.#clock.nowMs() - storedMs < collectAfterMs;
      // Checked before the references: a settled upload is already in the references or refused.
      if (isYoung || this.#unsettled.has(textOf(key))) continue;
      if (isNamed(key, await referencesOf(key.id))) continue;
      await this.#provider.remove([key]);
      removed += 1;
    }
    await this.#provider.sweep();
    return removed;
  }

  /** Stores all files or none. */
  async #putAll(id: TaskId, uploads: readonly Upload[], putOne: PutOne): Promise<Stored> {
    const keys = uploads.map(({ name }) => ({ id, upload: this.#drawUpload(), name }));
    for (const key of keys) this.#unsettled.add(textOf(key));
    const settle = (isKept: boolean): Promise<void> => this.#settle(keys, isKept);
    const artifacts: Artifact[] = new Array(uploads.length);
    let next = 0;
    const work = async (): Promise<void> => {
      for (let at = next++; at < uploads.length; at = next++) {
        const stored = putOne(keys[at] as ArtifactKey, uploads[at] as Upload);
        // After a failure the remaining files are not started.
        stored.catch(() => {
          next = uploads.length;
        });
        artifacts[at] = await stored;
      }
    };
    const workers = Array.from({ length: Math.min(perSubmitMax, uploads.length) }, work);
    const done = await Promise.allSettled(workers);
    const failed = done.find((each) => each.status === "rejected");
    if (failed === undefined) return ok({ artifacts, settle });
    await settle(false);
    return this.#refusalOf(failed.reason);
  }

  /** How clients reach this server: as it is set, or as the sender of the file reached it. */
  #baseOf(host = ""): string {
    const { externalUrl, tlsCertFile } = this.#settings;
    if (externalUrl !== "" || !hostPattern.test(host)) return externalUrl;
    return `${tlsCertFile === "" ? "http" : "https"}://${host}`;
  }

  async #put(
    base: string,
    key: ArtifactKey,
    { name, content, contentType }: Upload,
  ): Promise<Artifact> {
    const type = typePattern.test(contentType) ? contentType : unknownType;
    const measure = new Measure(name, this.bytesMax);
    await this.#provider.put(key, measure.through(content), type);
    const url = artifactUrl(base, key);
    return { name, url, bytes: measure.bytes, sha256: measure.sha256, contentType: type };
  }

  async #putInTurn(
    tenantId: TenantId,
    base: string,
    key: ArtifactKey,
    upload: Upload,
  ): Promise<Artifact> {
    if (!(await this.#inline.take(tenantId))) throw new CrowdedError();
    try {
      return await this.#put(base, key, upload);
    } finally {
      this.#inline.giveBack(tenantId);
    }
  }

  async #settle(keys: readonly ArtifactKey[], isKept: boolean): Promise<void> {
    // The sweep removes a file that cannot be removed now.
    if (!isKept) await this.#provider.remove(keys).catch(() => {});
    for (const key of keys) this.#unsettled.delete(textOf(key));
  }

  #drawUpload(): string {
    const bytes = Buffer.alloc(uploadBytes);
    this.#randomBytes(bytes);
    return bytes.toString("hex");
  }

  #refusalOf(error: unknown): Refused {
    if (error instanceof TooLargeError) {
      return { ok: false, code: "artifact_too_large", text: error.message };
    }
    if (error instanceof CutOffError) return refused(error.artifact, `upload: ${error.message}`);
    if (error instanceof CrowdedError) return crowded;
    if (!(error instanceof ArtifactFault)) throw error;
    const later = error.isTemporary ? { retryAfterMs } : {};
    return { ok: false, code: "artifacts_unavailable", text: error.message, ...later };
  }
}

type PutOne = (key: ArtifactKey, upload: Upload) => Promise<Artifact>;

class TooLargeError extends Error {}

class CrowdedError extends Error {}

class CutOffError extends Error {
  readonly artifact: string;

  constructor(artifact: string, cause: unknown) {
    super(cause instanceof IdleError ? cause.message : "it was cut off", { cause });
    this.artifact = artifact;
  }
}

/** Counts and hashes the content that passes through. */
class Measure {
  bytes = 0;
  readonly #hash = createHash("sha256");
  readonly #name: string;
  readonly #bytesMax: number;

  constructor(name: string, bytesMax: number) {
    this.#name = name;
    this.#bytesMax = bytesMax;
  }

  get sha256(): string {
    return this.#hash.copy().digest("hex");
  }

  async *through(content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    const pieces = content[Symbol.asyncIterator]();
    for (;;) {
      const next = await pieces.next().catch((error: unknown) => {
        throw new CutOffError(this.#name, error);
      });
      if (next.done === true) return;
      this.bytes += next.value.length;
      if (this.bytes > this.#bytesMax)
        throw new TooLargeError(tooLarge(this.#name, this.#bytesMax));
      this.#hash.update(next.value);
      yield next.value;
    }
  }
}

export function tooLarge(name: string, bytesMax: number): string {
  return `artifact ${shown(name)} upload: it has more than ${bytesMax} bytes (artifactBytesMax)`;
}

function ok(value: StoredArtifacts): { readonly ok: true; readonly value: StoredArtifacts } {
  return { ok: true, value };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/** Padding may be missing. A single character after a multiple of four encodes no byte. */
function isBase64(text: string): boolean {
  return base64.test(text) && text.replace(/=+$/, "").length % 4 !== 1;
}

function isNamed(key: ArtifactKey, references: References): boolean {
  if (typeof references === "string") return references === "cannot be read";
  return references.some((url) => url.endsWith(`?upload=${key.upload}`));
}

function textOf({ id, upload }: ArtifactKey): string {
  return `${id}/${upload}`;
}

function refused(name: string, why: string): Refused {
  return { ok: false, code: "invalid_argument", text: `artifact ${shown(name)} ${why}` };
}

function shown(name: string): string {
  return name.slice(0, limits.artifactNameCharsMax);
}

/**
 * Removes files that no task names: of submissions that a crash interrupted, and of attempts that came back.
 * It runs after a start and from time to time, in the background.
 */
export function collectArtifacts(parts: {
  readonly broker: Broker;
  readonly artifacts: Artifacts;
  readonly config: Config;
  readonly clock: Clock;
  readonly logger: Logger;
}): Job {
  const { broker, artifacts, clock, logger, config } = parts;
  const everyMs = config.artifactSweepSeconds * 1000;
  let nextMs: number | undefined = clock.monotonicMs();
  return {
    name: "collect-artifacts",
    nextMs: () => nextMs,
    runOnce: async () => {
      nextMs = everyMs > 0 ? clock.monotonicMs() + everyMs : undefined;
      artifacts
        .collect((id) => broker.artifactsOf(id))
        .then((removed) => {
          if (removed > 0) logger.info("artifacts without a result were removed", { removed });
        })
        .catch((error: unknown) => {
          // Files that are left only use space; the next sweep retries.
          logger.warn("artifacts could not be checked", { error: String(error) });
        });
    },
  };
}

/** How long a file waits for a slot. */
const waitMsMax = 10_000;

/**
 * Limits how many files are stored at the same time. One tenant has at most half of the slots, so that slow files of
 * one tenant do not block the others. Waiting tenants get free slots in turn.
 */
export class UploadSlots {
  readonly #clock: Clock;
  readonly #shares: TenantShares;
  readonly #waiting: Map<TenantId, Set<(isTaken: boolean) => void>> = new Map();

  constructor(max: number, clock: Clock) {
    this.#shares = new TenantShares(max);
    this.#clock = clock;
  }

  /** Returns false if there is no free slot for the tenant. */
  takeNow(tenantId: TenantId): boolean {
    if (!this.#shares.hasRoomFor(tenantId)) return false;
    this.#shares.add(tenantId, 1);
    return true;
  }

  /** Returns false if no slot became free in time. */
  async take(tenantId: TenantId): Promise<boolean> {
    if (this.takeNow(tenantId)) return true;
    return await new Promise((resolve) => {
      const waiting = this.#waiting.get(tenantId) ?? new Set();
      const finish = (isTaken: boolean): void => {
        waiting.delete(finish);
        if (waiting.size === 0) this.#waiting.delete(tenantId);
        cancelTimer();
        resolve(isTaken);
      };
      this.#waiting.set(tenantId, waiting.add(finish));
      const cancelTimer = this.#clock.after(waitMsMax, () => finish(false));
    });
  }

  giveBack(tenantId: TenantId): void {
    this.#shares.add(tenantId, -1);
    for (const [next, waiting] of this.#waiting) {
      if (!this.takeNow(next)) continue;
      // The tenant moves to the end, so the others are served first.
      this.#waiting.delete(next);
      this.#waiting.set(next, waiting);
      for (const finish of waiting) {
        finish(true);
        return;
      }
    }
  }
}

const idleMsMax = 30_000;

class IdleError extends Error {
  constructor() {
    super(`no data arrived for ${idleMsMax / 1000} seconds`);
  }
}

/** Passes on the pieces of a body, and throws when none arrives for too long. */
async function* limitIdle(
  content: AsyncIterable<Uint8Array>,
  clock: Clock,
): AsyncGenerator<Uint8Array> {
  const pieces = content[Symbol.asyncIterator]();
  for (;;) {
    const next = await inTime(pieces.next(), clock);
    if (next.done === true) return;
    yield next.value;
  }
}

function inTime<T>(promise: Promise<T>, clock: Clock): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(idleMsMax, () => reject(new IdleError()));
    promise.finally(cancel).then(resolve, reject);
  });
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are refused.
const unsafe = /[/\\\u0000-\u001f\u007f]/;
/** Device names of Windows, with or without an extension. */
const device = /^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\.|$)/i;

/**
 * What is wrong with a name; undefined when nothing is. A valid name is one path segment on every system and in every
 * store.
 */
function problemOfName(name: string): string | undefined {
  const max = limits.artifactNameCharsMax;
  if (Buffer.byteLength(name) > max) return `the name has over ${max} bytes`;
  const isPlain = name !== "" && name !== "." && name !== ".." && !unsafe.test(name);
  if (!isPlain || !name.isWellFormed()) return "the name must be a plain file name";
  if (device.test(name) || /[. ]$/.test(name))
    return "the name means something else on some systems";
  return undefined;
}

declare module "../../edge/operation.ts" {
  interface Server {
    readonly artifacts: Artifacts;
  }
}
