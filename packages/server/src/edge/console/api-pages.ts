/**
 * The OpenAPI document, and a page to try the API. They need no token, because they contain only public
 * information. The page runs only its own files.
 */

import { openApiOf } from "../http/contract/openapi.ts";
import type { Page } from "../http/http-server.ts";
import type { AnyRoute } from "../http/route.ts";
import { packageFile, packageVersion } from "./package-file.ts";

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const guarded = {
  "content-security-policy": policy,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

const files = [
  { path: "/docs", file: "index.html", type: "text/html; charset=utf-8" },
  { path: "/docs/page.css", file: "page.css", type: "text/css; charset=utf-8" },
  { path: "/docs/page.js", file: "page.js", type: "text/javascript; charset=utf-8" },
] as const;

/** The OpenAPI document is generated at the first request, for a faster start. */
export function apiPages(routes: readonly AnyRoute[], isLenient: boolean): Page[] {
  let document: Buffer | undefined;
  const openApi = (): Buffer =>
    Buffer.from(JSON.stringify(openApiOf(routes, { version: packageVersion(), isLenient })));
  const page = (path: string, type: string, body: () => Buffer): Page => ({
    path,
    show: () => ({ status: 200, type, body: body(), headers: guarded }),
  });
  return [
    page("/openapi.json", "application/json; charset=utf-8", () => (document ??= openApi())),
    ...files.map(({ path, file, type }) => {
      const bytes = Buffer.from(packageFile(`api-page/${file}`));
      return page(path, type, () => bytes);
    }),
  ];
}
