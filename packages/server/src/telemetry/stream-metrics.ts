/** The rows of the metric table that concern gRPC streams; every label has a fixed set of values. */
export const streamKinds = ["producer", "worker"] as const;
/** How streams end; what each means stands beside the type in `transport/grpc`. */
export const streamEnds = [
  "ended",
  "cancelled",
  "crowded",
  "disconnected",
  "deadline",
  "bad_input",
  "slow_reader",
  "failed",
  "shutdown",
] as const;
export const streamRefusals = ["no_hello", "bad_token", "bad_worker_id", "too_many"] as const;
export const streamPauses = ["slow_reader", "unanswered"] as const;

const kind = { name: "kind", values: streamKinds } as const;

export const streamMetricTable = {
  streamConnectionsCut: {
    name: "codeq_stream_connections_cut_total",
    type: "counter",
    help: "Connections of gRPC clients that were cut because they sent hardly anything but frames.",
    labels: [],
  },
  streamsOpen: {
    name: "codeq_streams_open",
    type: "gauge",
    help: "Streams that are open, with or without a Hello.",
    labels: [kind],
  },
  streamsClosed: {
    name: "codeq_streams_closed_total",
    type: "counter",
    help: "Streams that are over, by what ended them.",
    labels: [kind, { name: "reason", values: streamEnds }],
  },
  streamsRefused: {
    name: "codeq_streams_refused_total",
    type: "counter",
    help: "Streams that were ended instead of a HelloAck.",
    labels: [kind, { name: "reason", values: streamRefusals }],
  },
  streamMessages: {
    name: "codeq_stream_messages_total",
    type: "counter",
    help: "Messages on streams; a batch is one.",
    labels: [kind, { name: "direction", values: ["in", "out"] }],
  },
  streamPauses: {
    name: "codeq_stream_pauses_total",
    type: "counter",
    help: "Times that a stream was not read from: its client did not read, or waited for too many answers.",
    labels: [kind, { name: "cause", values: streamPauses }],
  },
  heldReadys: {
    name: "codeq_held_readys",
    type: "gauge",
    help: "Readys of worker streams that wait for tasks.",
    labels: [],
  },
} as const;
