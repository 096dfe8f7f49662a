/** A shard, or the control log, that another node of the cluster leads now. */
export interface HandedOff {
  /** Its number, or `control`. */
  readonly shard: string;
  readonly from: string;
  readonly to: string;
}
