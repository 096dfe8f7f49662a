/** The example of a real application, run as its README says: a server, the app, a worker. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { PNG } from "pngjs";
import { Child, root, temporaryDirectory } from "./server-process.ts";

const example = join(root, "examples/thumbnails");
const codeq = join(root, "packages/cli/bin/codeq.js");
const anyPort = ["--port", "0", "--worker-stream-addr", ":0", "--producer-stream-addr", ":0"];
const quickRetry = ["--backoff-policy", "fixed", "--backoff-base-seconds", "1"];

interface Application {
  readonly files: string;
  startWorker(): Child;
  upload(bytes: Uint8Array): Promise<{ image: string; runs: string[] }>;
  get(path: string): Promise<Response>;
  /** Waits until it has ended. */
  outcome(run: string): Promise<Record<string, unknown>>;
}

async function setup(t: TestContext): Promise<Application> {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const files = join(directory.path, "files");
  const env: Record<string, string> = {
    PATH: process.env["PATH"] ?? "",
    HOME: directory.path,
    PORT: "0",
    THUMBNAILS_DIR: files,
  };
  const start = (cwd: string, ...argv: string[]): Child => {
    const stdio = ["ignore", "pipe", "pipe"] as const;
    const child = new Child(spawn(process.execPath, argv, { cwd, env, stdio: [...stdio] }));
    t.after(() => {
      child.signal("SIGTERM");
      return child.exited;
    });
    return child;
  };
  const dev = start(directory.path, codeq, "dev", ...anyPort, ...quickRetry);
  env["CODEQ_BASE_URL"] = urlIn(await dev.line((line) => line.includes("codeQ is ready")));
  const app = start(example, "app.ts");
  const url = urlIn(await app.line((line) => line.startsWith("listening")));
  const get = (path: string): Promise<Response> => fetch(url + path);
  return {
    files,
    get,
    startWorker: () => start(example, "worker.ts"),
    upload: async (bytes) => {
      const reply = await fetch(`${url}/images`, { method: "POST", body: Buffer.from(bytes) });
      assert.equal(reply.status, 202, app.stderr);
      return (await reply.json()) as { image: string; runs: string[] };
    },
    outcome: async (run) => {
      for (;;) {
        const reply = await get(`/runs/${run}?wait=30`);
        const answer = (await reply.json()) as Record<string, unknown>;
        if (answer["state"] !== "pending") return answer;
      }
    },
  };
}

function urlIn(line: string): string {
  return /http:\/\/\S+/.exec(line)?.[0] ?? "";
}

/** From black on the left to white on the right. */
function gradient(width: number, height: number): Buffer {
  const row = Buffer.alloc(width * 4, 255);
  for (let x = 0; x < width; x += 1) row.fill(Math.floor((x * 256) / width), x * 4, x * 4 + 3);
  return PNG.sync.write({ width, height, data: Buffer.alloc(width * height * 4, row) });
}

test("an upload becomes thumbnails of every size, with the pixels of the image", async (t) => {
  const { startWorker, upload, outcome, get, files } = await setup(t);
  startWorker();
  const picture = gradient(1024, 512);
  const { runs, image } = await upload(picture);
  assert.deepEqual(await upload(picture), { image, runs }, "the same image is the same work");
  for (const [index, width] of [64, 128, 256].entries()) {
    const done = await outcome(runs[index] ?? "");
    assert.deepEqual(done, {
      state: "done",
      thumbnail: `/files/${image}-${width}.png`,
      width,
      height: width / 2,
    });
    const reply = await get(String(done["thumbnail"]));
    assert.equal(reply.headers.get("content-type"), "image/png");
    const made = PNG.sync.read(Buffer.from(await reply.arrayBuffer()));
    assert.deepEqual([made.width, made.height], [width, width / 2]);
    for (const x of [0, width / 2, width - 1]) {
      // A pixel covers 256 / width shades; the average of whole ones is half a shade off its middle.
      const shade = Math.round(((x + 0.5) * 256) / width - 0.5);
      const at = ((made.height - 1) * width + x) * 4;
      const pixel = [...made.data.subarray(at, at + 4)];
      assert.ok(Math.abs((pixel[0] ?? 0) - shade) <= 1, `${pixel} at ${x}, not ${shade}`);
      assert.deepEqual(pixel.slice(1), [pixel[0], pixel[0], 255]);
    }
  }
  assert.equal(readdirSync(files).length, 4);
});

/** Kills a worker that has begun with an image. A kill may come too late; then a larger one is next. */
async function killInTheMiddle({ startWorker, upload, files }: Application) {
  for (const size of [1000, 2000, 4000, 6000, 8000]) {
    const worker = startWorker();
    const { image, runs } = await upload(gradient(size, size / 2));
    const begun = await worker.anyLine((line) => runs.some((run) => line.startsWith(`${run} beg`)));
    await worker.kill();
    const [id = ""] = begun.split(" ");
    const width = [64, 128, 256][runs.indexOf(id)] ?? 0;
    if (existsSync(join(files, `${image}-${width}.png`))) continue;
    return { id, image, width, height: width / 2 };
  }
  throw new Error("every kill came too late");
}

test("a worker that is killed in the middle costs some time, and nothing else", async (t) => {
  const world = await setup(t);
  const { id, image, width, height } = await killInTheMiddle(world);
  const next = world.startWorker();
  const thumbnail = `/files/${image}-${width}.png`;
  assert.deepEqual(await world.outcome(id), { state: "done", thumbnail, width, height });
  await next.anyLine((line) => line === `${id} begins, attempt 2`);
});

test("what is no image fails with the reason, and a run that never was is not found", async (t) => {
  const { startWorker, upload, outcome, get } = await setup(t);
  const worker = startWorker();
  const { runs } = await upload(Buffer.from("GIF89a, or so"));
  for (const run of runs) {
    assert.deepEqual(await outcome(run), { state: "failed", reason: "the file is not a PNG" });
    assert.ok(!worker.stdout.includes(`${run} begins, attempt 2`));
  }
  assert.equal((await get("/runs/0190d0c8-0000-7000-8000-000000000000")).status, 404);
  assert.equal((await get(`/files/${"0".repeat(64)}-64.png`)).status, 404);
  worker.signal("SIGTERM");
  assert.equal((await worker.exited).code, 0, worker.stderr);
});
