/** The rows of the metric table that concern event feeds. */
export const feedMetricTable = {
  feedsOpen: {
    name: "codeq_feeds_open",
    type: "gauge",
    help: "Event feeds that are open.",
    labels: [],
  },
  feedEvents: {
    name: "codeq_feed_events_total",
    type: "counter",
    help: "Events of tasks for open feeds: told, or missed because the reader was too slow.",
    labels: [{ name: "outcome", values: ["told", "missed"] }],
  },
} as const;
