/** The document that describes the API. It needs no token: it tells what is public about every server. */
import { readFileSync } from "node:fs";
import type { Page } from "./http-server.ts";
import { openApiOf } from "./openapi.ts";
import type { AnyRoute } from "./route.ts";

const manifest = new URL("../../../package.json", import.meta.url);

export function apiPages(routes: readonly AnyRoute[], isLenient: boolean): Page[] {
  const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { version: string };
  const body = JSON.stringify(openApiOf(routes, { version, isLenient }));
  return [
    {
      path: "/openapi.json",
      show: () => ({ status: 200, type: "application/json; charset=utf-8", body }),
    },
  ];
}
