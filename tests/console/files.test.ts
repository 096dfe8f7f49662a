/** The files of the console: small, kept by browsers as long as they may, and closed to other sites. */
import assert from "node:assert/strict";
import test from "node:test";
import { openPage, setup } from "./setup.ts";

const firstViewBytesMax = 250_000;

interface Got {
  readonly headers: Headers;
  readonly bytes: Buffer;
}

/** As it comes over the wire, still compressed. */
async function get(url: string, encoding: string): Promise<Got & { readonly plain: string }> {
  const reply = await fetch(url, { headers: { "accept-encoding": encoding } });
  assert.equal(reply.status, 200, url);
  const bytes = Buffer.from(await reply.arrayBuffer());
  return { headers: reply.headers, bytes, plain: bytes.toString("utf8") };
}

test("the first view is small, and its parts may be kept for ever", async (t) => {
  const { server } = await setup(t);
  const page = await get(server.url, "identity");
  assert.equal(page.headers.get("cache-control"), "no-cache");
  assert.doesNotMatch(page.plain, /<script(?![^>]* src=)|<style|\son\w+=|style=|https?:\/\//);
  const linked = [...page.plain.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? "");
  assert.equal(linked.length, 3);
  let total = 0;
  for (const path of linked) {
    const { headers, plain } = await get(server.url + path, "identity");
    total += plain.length;
    if (path.endsWith(".svg")) continue;
    assert.equal(headers.get("cache-control"), "public, max-age=31536000, immutable", path);
    assert.doesNotMatch(plain, /\beval\(|new Function|https?:\/\/(?!www\.w3\.org\/)/, path);
  }
  t.diagnostic(`${total} bytes before compression`);
  assert.ok(total < 4 * firstViewBytesMax);
});

test("files come compressed as the browser asks", async (t) => {
  const { server, page } = await setup(t);
  const sizes: number[] = [];
  page.on("response", async (response) => {
    // The feed has no end, and so no size.
    if (response.url().includes("/admin/events")) return;
    const { responseBodySize } = await response.request().sizes();
    sizes.push(responseBodySize);
  });
  await page.goto(server.url);
  await page.locator("h1").waitFor();
  const sum = sizes.reduce((total, size) => total + size, 0);
  t.diagnostic(`${sum} bytes over the wire`);
  assert.ok(sum > 0 && sum < firstViewBytesMax, `${sum} bytes`);
});

test("every page of the console has an address of its own, and other names are not found", async (t) => {
  const { server } = await setup(t);
  for (const path of ["/", "/ui", "/ui/queues", "/ui/tasks/018f", "/ui/queues/send.email"]) {
    const { headers, plain } = await get(server.url + path, "identity");
    assert.equal(headers.get("content-type"), "text/html; charset=utf-8", path);
    assert.match(plain, /<div id="app">/);
  }
  for (const path of ["/ui/main-00000000.js", "/ui/x.css", "/queues"]) {
    assert.equal((await fetch(server.url + path)).status, 404, path);
  }
  const names = ["/ui/..%2fpackage.json", "/ui/%2e%2e/package.json", "/ui/.built-from"];
  for (const path of names) {
    const reply = await fetch(server.url + path);
    assert.doesNotMatch(await reply.text(), /"version"|^[0-9a-f]{64}$/, path);
  }
});

test("clickjacking: no other page can put the console into a frame", async (t) => {
  const { server } = await setup(t);
  const { page, complaints } = await openPage(t);
  await page.route("http://attacker.example/", (route) =>
    route.fulfill({ contentType: "text/html", body: `<iframe src="${server.url}/"></iframe>` }),
  );
  await page.goto("http://attacker.example/");
  const frame = page.frames()[1];
  assert.ok(frame !== undefined);
  assert.ok(!(await frame.content()).includes('id="app"'));
  // The browser says that it refused; when, it does not promise.
  complaints();
  const { headers } = await get(server.url, "identity");
  assert.match(headers.get("content-security-policy") ?? "", /frame-ancestors 'none'/);
  assert.equal(headers.get("x-frame-options"), "DENY");
});
