import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { testServer } from "@codeq/client/testing";
import { PNG } from "pngjs";
import { imagePath } from "./files.ts";
import { makeThumbnail } from "./make-thumbnail.ts";
import { scale } from "./scale.ts";
import { thumbnail } from "./tasks.ts";

const image = "0".repeat(64);

/** The left half is red, the right half is blue. */
function redAndBlue(width: number, height: number): Buffer {
  const data = Buffer.alloc(width * height * 4, Buffer.from([255, 0, 0, 255]));
  for (let at = 0; at < data.length; at += 4) {
    if ((at / 4) % width >= width / 2) data.set([0, 0, 255, 255], at);
  }
  return PNG.sync.write({ width, height, data });
}

/** The real server, on a clock that stands still, and a directory with one image. */
async function setup(t: TestContext, bytes: Uint8Array) {
  const directory = await mkdtemp(join(tmpdir(), "thumbnails-"));
  await writeFile(imagePath(directory, image), bytes);
  const server = await testServer({ env: { BACKOFF_POLICY: "fixed", BACKOFF_BASE_SECONDS: "1" } });
  t.after(async () => {
    await server.close();
    await rm(directory, { recursive: true });
  });
  return { server, directory, client: server.client, handler: makeThumbnail(directory) };
}

test("a new pixel is the average of the area that it covers", () => {
  const row = (...pixels: number[][]) => Uint8Array.from(pixels.flat());
  const three = row([0, 0, 0, 255], [90, 90, 90, 255], [255, 0, 0, 255]);
  const two = scale({ width: 3, height: 1, data: three }, 2);
  assert.deepEqual([...two.data], [30, 30, 30, 255, 200, 30, 30, 255]);
  const half = row([200, 100, 0, 255], [0, 0, 0, 0]);
  assert.deepEqual([...scale({ width: 2, height: 1, data: half }, 1).data], [200, 100, 0, 128]);
  assert.equal(scale({ width: 3, height: 1, data: three }, 64).width, 3, "never larger");
});

test("a thumbnail has the right size and the right colours", async (t) => {
  const { client, directory, handler } = await setup(t, redAndBlue(400, 200));
  client.worker(handler);
  const run = await client.enqueue(thumbnail, { image, width: 64 });
  const made = await run.result();
  assert.deepEqual(made, { file: `${image}-64.png`, width: 64, height: 32 });
  const { data, ...size } = PNG.sync.read(await readFile(join(directory, made.file)));
  assert.deepEqual([size.width, size.height], [64, 32]);
  assert.deepEqual([...data.subarray(0, 4)], [255, 0, 0, 255]);
  assert.deepEqual([...data.subarray(-4)], [0, 0, 255, 255]);
});

test("what is no image fails at once, and is not tried again", async (t) => {
  const damaged = redAndBlue(400, 200).subarray(0, 300);
  const [large, long] = [redAndBlue(4, 2), redAndBlue(4, 2)];
  large.writeUInt32BE(10_000, 16);
  large.writeUInt32BE(10_000, 20);
  long.writeUInt32BE(10_000_000, 20);
  for (const bytes of [Buffer.from("not an image"), damaged, large, long]) {
    const { client, directory, handler } = await setup(t, bytes);
    client.worker(handler, { on: { failed: () => {} } });
    const run = await client.enqueue(thumbnail, { image, width: 64 });
    await assert.rejects(run.result(), { code: "task_failed", attempts: 1 });
    assert.equal((await readdir(directory)).length, 1);
  }
});

test("when a worker dies, the next one makes the thumbnail, and nothing is left behind", async (t) => {
  const { server, client, directory, handler } = await setup(t, redAndBlue(400, 200));
  client.worker(thumbnail.handle(() => new Promise<never>(() => {})));
  const run = await client.enqueue(thumbnail, { image, width: 64 });
  await server.advance(0);
  assert.equal(server.counts(thumbnail).leased, 1);
  server.crashWorker();
  client.worker(handler);
  await server.advance("6s");
  await run.result();
  assert.deepEqual((await readdir(directory)).sort(), [`${image}-64.png`, `${image}.png`]);
});
