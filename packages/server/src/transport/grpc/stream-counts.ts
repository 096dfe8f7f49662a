/**
 * What the streams of one kind have done since the start. Plain numbers, since two of them change
 * with every message; the metrics read them at a scrape.
 */
import { streamEnds, streamPauses, streamRefusals } from "../../telemetry/stream-metrics.ts";
import type { CloseReason } from "./grpc-stream.ts";

export type StreamRefusal = (typeof streamRefusals)[number];
export type StreamPause = (typeof streamPauses)[number];

export class StreamCounts {
  open = 0;
  messagesIn = 0;
  messagesOut = 0;
  heldReadys = 0;
  readonly closed: Record<CloseReason, number> = zeros(streamEnds);
  readonly refused: Record<StreamRefusal, number> = zeros(streamRefusals);
  readonly pauses: Record<StreamPause, number> = zeros(streamPauses);
}

function zeros<Name extends string>(names: readonly Name[]): Record<Name, number> {
  return Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, number>;
}
