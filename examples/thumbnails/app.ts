/** Takes images and has thumbnails made of them: `node app.ts`, then POST a PNG to /images. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { CodeqError, codeq, TaskFailedError } from "@codeq/client";
import { defaultDirectory, imagePath, writeWhole } from "./files.ts";
import { thumbnail } from "./tasks.ts";

const widths = [64, 128, 256];
const bytesMax = 20 * 1024 * 1024;
const waitSecondsMax = 30;

const { PORT = "3000" } = process.env;
const client = codeq();

interface Answer {
  readonly status: number;
  readonly body: object;
}

async function upload(request: IncomingMessage): Promise<Answer> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of request.iterator({ destroyOnReturn: false })) {
    size += piece.length;
    if (size > bytesMax) return { status: 413, body: { error: `more than ${bytesMax} bytes` } };
    pieces.push(piece);
  }
  const bytes = Buffer.concat(pieces);
  // Named after its content, the same image is the same file and the same tasks.
  const image = createHash("sha256").update(bytes).digest("hex");
  await writeWhole(imagePath(defaultDirectory, image), bytes, crypto.randomUUID());
  const runs = await client.enqueueMany(
    thumbnail,
    widths.map((width) => ({ input: { image, width }, idempotencyKey: `${image}-${width}` })),
  );
  return { status: 202, body: { image, runs: runs.map(({ id }) => id) } };
}

async function look(id: string, waitSeconds: number): Promise<Answer> {
  try {
    const timeout = 1000 * Math.min(waitSeconds, waitSecondsMax);
    const { file, ...size } = await client.run(thumbnail, id).result({ timeout });
    return { status: 200, body: { state: "done", thumbnail: `/files/${file}`, ...size } };
  } catch (error) {
    if (error instanceof TaskFailedError) {
      return { status: 200, body: { state: "failed", reason: error.reason } };
    }
    if (!(error instanceof CodeqError)) throw error;
    if (error.code === "timeout") return { status: 200, body: { state: "pending" } };
    if (error.code === "task_not_found") return { status: 404, body: { error: error.message } };
    throw error;
  }
}

async function answer(request: IncomingMessage): Promise<Answer> {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://app");
  if (request.method === "POST" && pathname === "/images") return upload(request);
  const [, id] = /^\/runs\/([\w-]+)$/.exec(pathname) ?? [];
  if (id !== undefined) return look(id, Number(searchParams.get("wait")) || 1);
  const [, file] = /^\/files\/([0-9a-f]{64}-\d+\.png)$/.exec(pathname) ?? [];
  if (file !== undefined)
    return { status: 200, body: await readFile(join(defaultDirectory, file)) };
  return { status: 404, body: { error: "there are POST /images, GET /runs/<id>?wait=<seconds>" } };
}

const server = createServer(async (request, response) => {
  const { status, body } = await answer(request).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return { status: 404, body: { error: "no such file" } };
    console.error(error);
    return { status: 500, body: { error: "something went wrong; the log says more" } };
  });
  const isPicture = Buffer.isBuffer(body);
  response.writeHead(status, { "content-type": isPicture ? "image/png" : "application/json" });
  response.end(isPicture ? body : JSON.stringify(body));
});

server.listen(Number(PORT), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
