/**
 * One record on its way to the disk. A log has as many of these as appends may overlap and uses them
 * again and again; each has a file handle of its own by its `slot`.
 *
 * States: free; waiting (for those before it to be written); writing; syncing; kept (as durable as
 * the mode promises); counted (part of the log, and its caller is about to be notified); failed.
 */
import type { DiskDone } from "../disk/disk.ts";
import { type Appended, type Frame, recordTypes } from "./log.ts";
import { chainStart, frameBytes } from "./record.ts";
import type { Segment } from "./segment-files.ts";

export type FlightState =
  | "free"
  | "waiting"
  | "writing"
  | "syncing"
  | "kept"
  | "counted"
  | "failed";

export interface FlightEvents {
  written(flight: Flight, error: Error | null): void;
  synced(flight: Flight, error: Error | null): void;
}

const noFrame: Frame = {
  buffer: Buffer.alloc(0),
  bodyBytes: 0,
  opCount: 0,
  timeMs: 0,
  type: recordTypes.batches,
};
const noCaller: Appended = () => {};

export class Flight {
  readonly slot: number;
  /** Created once, because every append needs them. */
  readonly written: DiskDone;
  readonly synced: DiskDone;
  state: FlightState = "free";
  frame: Frame = noFrame;
  appended: Appended = noCaller;
  index = 0;
  bytes = 0;
  /** The segment that the record is written to; undefined before that. */
  segment: Segment | undefined;
  offset = 0;
  /** The link that the record after this one carries. */
  chain: Buffer = chainStart;
  startedMs = 0;
  syncStartedMs = 0;
  error: unknown;

  constructor(slot: number, events: FlightEvents) {
    this.slot = slot;
    this.written = (error) => events.written(this, error);
    this.synced = (error) => events.synced(this, error);
  }

  take(frame: Frame, appended: Appended): void {
    this.state = "waiting";
    this.frame = frame;
    this.appended = appended;
    this.bytes = frameBytes(frame.bodyBytes);
  }

  /** Drops all references to the record. */
  release(): void {
    this.state = "free";
    this.frame = noFrame;
    this.appended = noCaller;
    this.segment = undefined;
    this.error = undefined;
  }
}
