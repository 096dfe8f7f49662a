/** The metrics of event feeds. */
export const feedMetricTable = {
  feedsOpen: {
    name: "codeq_feeds_open",
    type: "gauge",
    help: "Open event feeds.",
    labels: [],
  },
  feedEvents: {
    name: "codeq_feed_events_total",
    type: "counter",
    help: "Events for open feeds: told (sent), or missed because the reader was too slow.",
    labels: [{ name: "outcome", values: ["told", "missed"] }],
  },
} as const;
