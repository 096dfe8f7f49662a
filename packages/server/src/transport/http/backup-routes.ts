/** The route of backups. */
import { operations } from "../../operations/index.ts";
import { BackupBody } from "./bodies.ts";
import type { BodyOf } from "./json-body.ts";
import { json, route } from "./route.ts";

export const backupRoutes = [
  route({
    method: "POST",
    path: "/v1/codeq/admin/backups",
    operation: operations.createBackup,
    name: "createBackup",
    summary: "Write a backup while the server runs",
    about:
      "Into a folder below `backupDir` on the machine of the server. The first backup of a name has everything; " +
      "further ones have what happened since, when the log still reaches back so far.",
    refusals: ["invalid_argument", "backup_under_way"],
    replies: { 201: { about: "The files that were written.", schema: "Backup" } },
    body: BackupBody,
    input: ({ body }) => {
      const { name, full } = body as BodyOf<typeof BackupBody>;
      return { ok: true, value: { name, isFull: full ?? false } };
    },
    reply: (created) => json(JSON.stringify(created), 201),
  }),
] as const;
