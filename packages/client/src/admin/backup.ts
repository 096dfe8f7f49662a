/** What a backup has written. */
export interface CreatedBackup {
  /** On the machine of the server. */
  readonly directory: string;
  readonly files: readonly {
    /** `control` or `shard-<n>`. */
    readonly store: string;
    readonly file: string;
    /** Everything, or what happened since the file before it. */
    readonly kind: "full" | "log";
    readonly items: number;
    readonly bytes: number;
  }[];
}
