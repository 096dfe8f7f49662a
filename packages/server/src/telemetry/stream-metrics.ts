/** The metrics of gRPC streams; every label has a fixed set of values. */
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
    help: "gRPC connections closed because they sent mostly empty or control frames.",
    labels: [],
  },
  streamsOpen: {
    name: "codeq_streams_open",
    type: "gauge",
    help: "Open streams, with or without a Hello.",
    labels: [kind],
  },
  streamsClosed: {
    name: "codeq_streams_closed_total",
    type: "counter",
    help: "Ended streams, by reason.",
    labels: [kind, { name: "reason", values: streamEnds }],
  },
  streamsRefused: {
    name: "codeq_streams_refused_total",
    type: "counter",
    help: "Streams refused instead of a HelloAck, by reason.",
    labels: [kind, { name: "reason", values: streamRefusals }],
  },
  streamMessages: {
    name: "codeq_stream_messages_total",
    type: "counter",
    help: "Messages on streams; a batch counts as one.",
    labels: [kind, { name: "direction", values: ["in", "out"] }],
  },
  streamPauses: {
    name: "codeq_stream_pauses_total",
    type: "counter",
    help: "Times that the server stopped reading from a stream: the client did not read, or had too many unanswered messages.",
    labels: [kind, { name: "cause", values: streamPauses }],
  },
  heldReadys: {
    name: "codeq_held_readys",
    type: "gauge",
    help: "Readys of worker streams that wait for a task.",
    labels: [],
  },
} as const;
