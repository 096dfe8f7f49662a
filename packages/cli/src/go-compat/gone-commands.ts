/** Commands of the Go command line that have no counterpart here, and what to do instead. */
export const goneCommands: ReadonlyMap<string, readonly [message: string, next: string]> = new Map([
  [
    "auth login",
    [
      "codeq has no login; store tokens in a profile instead",
      "codeq auth set --producer-token <token> --worker-token <token>",
    ],
  ],
  ["install", ["no further installation is needed", "codeq serve --help"]],
  ["migrate-shards", ["this server has no shards in Redis", "codeq shards migrate --to <number>"]],
]);
