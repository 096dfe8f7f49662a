/**
 * Artifacts as objects of an S3-compatible store. Content larger than one part is uploaded part by part, so
 * memory holds one part of each upload. Every part is signed with its hash, so the store refuses content
 * that was changed in transit. An object appears when all of its parts have arrived. Requests that fail on
 * the side of the store, and requests whose connection broke, are retried a few times. A request that the
 * store leaves without an answer is not retried: the caller has waited long enough.
 */
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import type { TaskId } from "@codeq/queue";
import { AwsClient } from "aws4fetch";
import type { Config } from "../../config/settings.ts";
import type { Clock } from "../../core/clock.ts";
import {
  ArtifactFault,
  type ArtifactKey,
  type ArtifactProvider,
  type ByteRange,
  type ListedArtifact,
} from "./artifact-provider.ts";

export const partBytes: number = 8 * 1024 * 1024;
const triesMax = 4;
const firstPauseMs = 200;
/** Time limit from the start of a request to the beginning of its answer. */
const answerMs = 60_000;
/** Time limit for requests that clean up; the sweep cleans up what they leave. */
const cleanUpMs = 10_000;
/** Longest pause within an answer. */
const pauseMsMax = 30_000;
const linkSeconds = 300;
/** Unfinished uploads of this age were cut off. */
const cutOffMs = 24 * 60 * 60 * 1000;
const deletesAtOnce = 16;

interface Request {
  readonly method: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer;
  readonly answerMs?: number;
}

/** An answer of the store; reading it fails if the content pauses for too long. */
interface Answer {
  readonly headers: Headers;
  readonly pieces: () => AsyncIterable<Uint8Array>;
  readonly text: () => Promise<string>;
}

export type S3Settings = Pick<Config, Extract<keyof Config, `s3${string}`>>;

export class S3Artifacts implements ArtifactProvider {
  readonly collectAfterMs = 60 * 60 * 1000;
  readonly #client: AwsClient;
  readonly #base: URL;
  readonly #prefix: string;
  readonly #redirects: boolean;
  readonly #clock: Clock;

  constructor(settings: S3Settings, clock: Clock) {
    const { s3Region: region, s3SessionToken: sessionToken } = settings;
    this.#client = new AwsClient({
      accessKeyId: settings.s3AccessKeyId,
      secretAccessKey: settings.s3SecretAccessKey,
      ...(sessionToken === "" ? {} : { sessionToken }),
      region,
      service: "s3",
      retries: 0,
    });
    this.#base = bucketUrl(settings);
    this.#prefix = settings.s3Prefix;
    this.#redirects = settings.s3Redirect;
    this.#clock = clock;
  }

  async put(
    key: ArtifactKey,
    content: AsyncIterable<Uint8Array>,
    contentType: string,
  ): Promise<void> {
    const path = this.#pathOf(key);
    const parts = inParts(content);
    const first = (await parts.next()).value ?? Buffer.alloc(0);
    const second = (await parts.next()).value;
    const headers = { "content-type": contentType };
    if (second === undefined) {
      await this.#send({ method: "PUT", path, headers, body: first });
      return;
    }
    const begun = await this.#send({ method: "POST", path, query: { uploads: "" }, headers });
    const uploadId = valueIn(await begun.text(), "UploadId");
    if (uploadId === undefined) throw strange("it began no upload");
    try {
      const tags = [await this.#putPart(path, uploadId, 1, first)];
      for (let next: Buffer | undefined = second; next !== undefined; ) {
        tags.push(await this.#putPart(path, uploadId, tags.length + 1, next));
        next = (await parts.next()).value;
      }
      await this.#complete(path, uploadId, tags);
    } catch (error) {
      const abort = { method: "DELETE", path, query: { uploadId }, answerMs: cleanUpMs };
      await this.#send(abort).catch(() => {});
      throw error;
    }
  }

  async #putPart(path: string, uploadId: string, number: number, body: Buffer): Promise<string> {
    const query = { partNumber: String(number), uploadId };
    const answer = await this.#send({ method: "PUT", path, query, body });
    return answer.headers.get("etag") ?? "";
  }

  async #complete(path: string, uploadId: string, tags: readonly string[]): Promise<void> {
    const parts = tags.map(
      (tag, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${escaped(tag)}</ETag></Part>`,
    );
    const body = `<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`;
    const request = { method: "POST", path, query: { uploadId }, body: Buffer.from(body) };
    const answer = await (await this.#send(request)).text();
    // S3 sends the status before the upload is complete, so only the body says whether it succeeded.
    const code = valueIn(answer, "Code");
    if (answer.includes("<Error>")) throw strange(`it could not put the parts together: ${code}`);
  }

  async open(key: ArtifactKey, { from, to }: ByteRange): Promise<Readable | undefined> {
    if (to < from) return Readable.from([]);
    const headers = { range: `bytes=${from}-${to}` };
    try {
      const answer = await this.#send({ method: "GET", path: this.#pathOf(key), headers });
      return Readable.from(answer.pieces(), { objectMode: false });
    } catch (error) {
      if (error instanceof MissingError) return undefined;
      throw error;
    }
  }

  async link(key: ArtifactKey, contentType: string): Promise<string | undefined> {
    if (!this.#redirects) return undefined;
    const url = this.#urlOf({
      path: this.#pathOf(key),
      query: {
        "X-Amz-Expires": String(linkSeconds),
        "response-content-type": contentType,
      },
    });
    const signed = await this.#client.sign(url.href, { aws: { signQuery: true } });
    return signed.url;
  }

  async remove(keys: readonly ArtifactKey[]): Promise<void> {
    const paths = keys.map((key) => this.#pathOf(key));
    for (let at = 0; at < paths.length; at += deletesAtOnce) {
      const some = paths.slice(at, at + deletesAtOnce);
      const requests = some.map((path) => ({ method: "DELETE", path, answerMs: cleanUpMs }));
      await Promise.all(requests.map((request) => this.#send(request)));
    }
  }

  /** Other files are left to the sweep: listing them for each task would cost more requests. */
  removalOf(
    ids: readonly TaskId[],
    named: (id: TaskId) => readonly ArtifactKey[],
  ): () => Promise<void> {
    const keys = ids.flatMap((id) => named(id));
    return () => this.remove(keys);
  }

  async *list(): AsyncGenerator<ListedArtifact> {
    for (let token = ""; ; ) {
      const more = token === "" ? {} : { "continuation-token": token };
      const query = { "list-type": "2", prefix: this.#prefix, ...more };
      const text = await (await this.#send({ method: "GET", path: "", query })).text();
      for (const object of valuesIn(text, "Contents")) {
        const key = this.#keyIn(valueIn(object, "Key") ?? "");
        const storedMs = Date.parse(valueIn(object, "LastModified") ?? "");
        if (key !== undefined) yield { key, storedMs };
      }
      token = valueIn(text, "NextContinuationToken") ?? "";
      if (token === "") return;
    }
  }

  async sweep(): Promise<void> {
    const query = { uploads: "", prefix: this.#prefix };
    const text = await (await this.#send({ method: "GET", path: "", query })).text();
    for (const upload of valuesIn(text, "Upload")) {
      const key = valueIn(upload, "Key");
      const uploadId = valueIn(upload, "UploadId");
      const begunMs = Date.parse(valueIn(upload, "Initiated") ?? "");
      const isCutOff = this.#clock.nowMs() - begunMs > cutOffMs;
      if (!isCutOff || key === undefined || uploadId === undefined) continue;
      await this.#send({ method: "DELETE", path: pathOf(key), query: { uploadId } });
    }
  }

  #pathOf({ id, upload, name }: ArtifactKey): string {
    return pathOf(`${this.#prefix}${id}/${upload}/${name}`);
  }

  #keyIn(key: string): ArtifactKey | undefined {
    const [id, upload, name] = key.slice(this.#prefix.length).split("/");
    if (id === undefined || upload === undefined || name === undefined) return undefined;
    return { id: id as TaskId, upload, name };
  }

  #urlOf({ path, query = {} }: Pick<Request, "path" | "query">): URL {
    const url = new URL(this.#base);
    url.pathname = url.pathname.replace(/\/$/, "") + path;
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    return url;
  }

  /** Sends a request, with retries for errors that may be temporary. Throws if it failed. */
  async #send(request: Request): Promise<Answer> {
    for (let tries = 1; ; tries += 1) {
      const answer = await this.#try(request);
      if (!(answer instanceof Error)) return answer;
      const isWorthIt = answer instanceof ArtifactFault && answer.isTemporary;
      if (!isWorthIt || answer instanceof SilentError || tries === triesMax) throw answer;
      await this.#pause(firstPauseMs * 2 ** (tries - 1));
    }
  }

  async #try(request: Request): Promise<Answer | Error> {
    const { method, headers = {}, body, answerMs: ms = answerMs } = request;
    const late = new AbortController();
    const cancel = this.#clock.after(ms, () => late.abort());
    try {
      const sha256 = createHash("sha256")
        .update(body ?? "")
        .digest("hex");
      const response = await this.#client.fetch(this.#urlOf(request).href, {
        method,
        headers: { ...headers, "x-amz-content-sha256": sha256 },
        ...(body === undefined ? {} : { body: new Uint8Array(body) }),
        signal: late.signal,
      });
      const answer = this.#answerOf(response, late);
      return response.ok ? answer : errorOf(response.status, await answer.text());
    } catch (error) {
      if (error instanceof ArtifactFault) return error;
      if (late.signal.aborted) return new SilentError(`gave no answer within ${ms} ms`, error);
      return new ArtifactFault(
        `the artifact storage cannot be reached: ${reasonOf(error)}`,
        true,
        error,
      );
    } finally {
      cancel();
    }
  }

  #answerOf({ headers, body }: Response, late: AbortController): Answer {
    const clock = this.#clock;
    async function* pieces(): AsyncGenerator<Uint8Array> {
      const reader = body?.getReader();
      try {
        for (;;) {
          const cancel = clock.after(pauseMsMax, () => late.abort());
          const next = await reader?.read().finally(cancel);
          if (next === undefined || next.done) return;
          yield next.value;
        }
      } catch (error) {
        if (late.signal.aborted) throw new SilentError(`paused for ${pauseMsMax} ms`, error);
        throw new ArtifactFault(
          `the connection to the artifact storage broke: ${reasonOf(error)}`,
          true,
          error,
        );
      } finally {
        // A reader that stops early cancels the request.
        await reader?.cancel().catch(() => {});
      }
    }
    const text = async (): Promise<string> => {
      const read: Uint8Array[] = [];
      for await (const piece of pieces()) read.push(piece);
      return Buffer.concat(read).toString();
    };
    return { headers, pieces, text };
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#clock.after(ms, resolve);
    });
  }
}

class MissingError extends Error {}

/** The store received the request and does not answer. */
class SilentError extends ArtifactFault {
  constructor(what: string, cause: unknown) {
    super(`the artifact storage ${what}`, true, cause);
  }
}

function errorOf(status: number, text: string): Error {
  const code = valueIn(text, "Code") ?? "";
  if (status === 404 && code !== "NoSuchBucket") return new MissingError();
  const isTemporary = status >= 500 || status === 429 || code === "RequestTimeout";
  const said = `${status} ${code}`.trim();
  return new ArtifactFault(`the artifact storage answered ${said}`, isTemporary);
}

function strange(what: string): ArtifactFault {
  return new ArtifactFault(`the artifact storage sent an unexpected answer: ${what}`, true);
}

function reasonOf(error: unknown): string {
  const { cause } = error as { cause?: { code?: string; message?: string } };
  return cause?.code ?? cause?.message ?? (error as Error).message;
}

function bucketUrl(settings: S3Settings): URL {
  const { s3Endpoint, s3Region, s3Bucket, s3PathStyle } = settings;
  const url = new URL(s3Endpoint === "" ? `https://s3.${s3Region}.amazonaws.com` : s3Endpoint);
  if (s3PathStyle) url.pathname = `${url.pathname.replace(/\/$/, "")}/${s3Bucket}`;
  else url.hostname = `${s3Bucket}.${url.hostname}`;
  return url;
}

/** Encodes each segment of the path as AWS signatures require. */
function pathOf(key: string): string {
  const encode = (part: string): string =>
    encodeURIComponent(part).replace(
      /[!'()*]/g,
      (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
    );
  return `/${key.split("/").map(encode).join("/")}`;
}

/** Pieces of the size of a part; only the last may be shorter. */
async function* inParts(content: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer, undefined> {
  let pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (let piece of content) {
    while (bytes + piece.length >= partBytes) {
      const taken = piece.subarray(0, partBytes - bytes);
      yield Buffer.concat([...pieces, taken]);
      piece = piece.subarray(taken.length);
      pieces = [];
      bytes = 0;
    }
    if (piece.length > 0) pieces.push(piece);
    bytes += piece.length;
  }
  if (bytes > 0) yield Buffer.concat(pieces);
  return undefined;
}

function valueIn(xml: string, name: string): string | undefined {
  return valuesIn(xml, name)[0];
}

/** The elements that are read have neither children nor attributes, so a pattern is enough. */
function valuesIn(xml: string, name: string): string[] {
  const pattern = new RegExp(`<${name}>([^]*?)</${name}>`, "g");
  return [...xml.matchAll(pattern)].map(([, text = ""]) => unescaped(text));
}

function unescaped(text: string): string {
  return text
    .replaceAll("&quot;", '"')
    .replaceAll("&#34;", '"')
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&amp;", "&");
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
