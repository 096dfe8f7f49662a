/** Backups of a running server. */
import { endpoints } from "../../contract/endpoint.ts";
import { count, flag, list, object, text } from "../../contract/shape.ts";

const BackupBody = object(
  {
    name: text("The folder below backupDir: letters, digits, `.`, `_` and `-`.", {
      isRequired: true,
      min: 1,
      pattern: /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/,
      rule: "letters, digits, '.', '_' and '-'",
    }),
    full: flag("Everything, also when the backup could be continued.", {
      as: "isFull",
      none: false,
    }),
  },
  { isClosed: true },
);

export const Backup = object(
  {
    directory: text("On the machine of the server."),
    files: list(
      object({
        store: text("`control` or `shard-<n>`."),
        file: text(),
        kind: text("Everything, or what happened since the file before it.", {
          oneOf: ["full", "log"],
        }),
        items: count(),
        bytes: count(),
      }),
    ),
  },
  { name: "Backup", about: "What a backup has written." },
);

const store = "(control|shard-\\d{1,5}):\\d{1,16}:\\d{1,16}";

export const backups = endpoints({
  createBackup: {
    key: "POST /admin/backups",
    access: "operator",
    summary: "Write a backup while the server runs",
    about:
      "Into a folder below `backupDir` on the machine of the server. The first backup of a name has everything; " +
      "further ones have what happened since, when the log still reaches back so far.",
    body: BackupBody,
    refusals: ["invalid_argument", "backup_under_way", "led_elsewhere"],
    replies: { 201: { about: "The files that were written.", shape: Backup } },
  },
  readBackup: {
    key: "GET /admin/backup",
    access: "operator",
    summary: "Read a backup while the server runs",
    about:
      "What `codeq backup --to` stores: the backups of all stores of the server, one after the other. With `since` " +
      "it is what happened after an earlier one, when the log still reaches back so far. Files of tasks are not in it.",
    query: {
      since: text(
        "Where the earlier backup ends: `<store>:<identity>:<record>` of each store, separated by commas.",
        {
          pattern: new RegExp(`^${store}(,${store})*$`),
          rule: "<store>:<identity>:<record>, separated by commas",
          none: "",
        },
      ),
    },
    refusals: ["invalid_argument", "led_elsewhere"],
    replies: { 200: { about: "The backup.", type: "application/octet-stream" } },
  },
});
