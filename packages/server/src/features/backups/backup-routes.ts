/** The routes of backups. */
import { Readable } from "node:stream";
import { BackupBody } from "../../edge/http/bodies.ts";
import type { BodyOf } from "../../edge/http/json-body.ts";
import { textField } from "../../edge/http/query.ts";
import { json, route } from "../../edge/http/route.ts";
import { createBackup } from "./create-backup.ts";
import { readBackup } from "./read-backup.ts";

export const backupRoutes = [
  route({
    method: "POST",
    path: "/v1/codeq/admin/backups",
    operation: createBackup,
    name: "createBackup",
    summary: "Write a backup while the server runs",
    about:
      "Into a folder below `backupDir` on the machine of the server. The first backup of a name has everything; " +
      "further ones have what happened since, when the log still reaches back so far.",
    refusals: ["invalid_argument", "backup_under_way", "led_elsewhere"],
    replies: { 201: { about: "The files that were written.", schema: "Backup" } },
    body: BackupBody,
    input: ({ body }) => {
      const { name, full } = body as BodyOf<typeof BackupBody>;
      return { ok: true, value: { name, isFull: full ?? false } };
    },
    reply: (created) => json(JSON.stringify(created), 201),
  }),
  route({
    method: "GET",
    path: "/v1/codeq/admin/backup",
    operation: readBackup,
    name: "readBackup",
    summary: "Read a backup while the server runs",
    about:
      "What `codeq backup --to` stores: the backups of all stores of the server, one after the other. With `since` " +
      "it is what happened after an earlier one, when the log still reaches back so far. Files of tasks are not in it.",
    query: {
      since: textField(
        "Where the earlier backup ends: `<store>:<identity>:<record>` of each store, separated by commas.",
      ),
    },
    refusals: ["invalid_argument", "led_elsewhere"],
    replies: { 200: { about: "The backup.", type: "application/octet-stream" } },
    waits: () => true,
    input: ({ query }) => ({ ok: true, value: { since: String(query["since"] ?? "") } }),
    reply: (pieces) => ({
      status: 200,
      body: Readable.from(pieces, { objectMode: false }),
      headers: { "content-type": "application/octet-stream", "cache-control": "no-store" },
    }),
  }),
] as const;
