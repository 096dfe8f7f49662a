/** When a page of the console has asked for everything and shows it. */
import type { Page, Request } from "playwright-core";

const twoFrames =
  "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))";

/** Gives what to wait for; the feed, which never ends, is left out. */
export function watchRequests(page: Page): () => Promise<void> {
  const underWay = new Set<Request>();
  page.on("request", (request) => {
    if (!request.url().includes("/admin/events")) underWay.add(request);
  });
  page.on("requestfinished", (request) => void underWay.delete(request));
  page.on("requestfailed", (request) => void underWay.delete(request));
  return async () => {
    do await page.evaluate(twoFrames);
    while (underWay.size > 0);
  };
}
