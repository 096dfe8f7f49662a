/** Lanes: what tasks of a queue with the same key share. Their limits are part of the topic of the queue. */

import { endpoints, type OutOfBounds } from "../../contract/endpoint.ts";
import { count, decimal, instant, like, list, object, text, whole } from "../../contract/shape.ts";
import { limits } from "../../limits.ts";
import { paused } from "./queues.ts";

const range = (min: number, max: number) => ({ min, max, rule: `from ${min} to ${max}` });

export const Rate = object(
  {
    units: whole("How many units may be spent in the time `per`.", range(1, limits.laneUnitsMax)),
    per: text("A length of time such as `1s`, `1m` or `24h`.", {
      pattern: limits.ratePerPattern,
      rule: "a length of time from 1s to 366d, such as 1s, 1m or 24h",
    }),
    burst: whole("How many units may be spent at once; 0 for `units`.", {
      ...range(0, limits.laneUnitsMax),
      none: 0,
    }),
  },
  { name: "Rate", about: "A task spends its cost, which is 1 by default.", isClosed: true },
);

/** The limits of each lane of a queue, or of one lane. */
const limitFields = {
  concurrency: whole("How many tasks of a lane may be leased; 0 for any number.", {
    ...range(0, limits.topicConsumersMax),
    none: 0,
  }),
  rate: like(Rate, "How fast tasks of a lane may be claimed.", { isOptional: true }),
};

const isOptional = { isOptional: true } as const;
const weight = { ...range(1, limits.laneWeightMax), ...isOptional };

export const LanesPolicy = object(
  {
    ...limitFields,
    weight: whole(
      "How many times the share of the tasks without a lane, or of a lane with the weight 1; default: 1.",
      weight,
    ),
  },
  {
    name: "LanesPolicy",
    about: "What applies to each lane of a queue.",
    isClosed: true,
  },
);

export const LaneLimits = object(
  {
    concurrency: whole(
      "How many tasks may be leased; 0 for any number. By default as for each lane.",
      {
        ...range(0, limits.topicConsumersMax),
        isOptional: true,
      },
    ),
    rate: like(Rate, "How fast tasks may be claimed. By default as for each lane.", isOptional),
    weight: whole(
      "How many times the share of a lane with the weight 1. By default as for each lane.",
      weight,
    ),
  },
  {
    name: "LaneLimits",
    about: "What one lane has instead of what the topic says.",
    isClosed: true,
  },
);

export const Lane = object(
  {
    lane: text(),
    ready: count("Tasks that are ready."),
    inProgress: count("Tasks that workers have.", { as: "leased" }),
    oldestAt: instant("When the next task was created.", isOptional),
    concurrency: count("How many tasks may be leased.", isOptional),
    rate: like(Rate, "How fast tasks may be claimed.", isOptional),
    weight: count("How many times the share of a lane with the weight 1."),
    share: decimal(
      "Its share of the units that were claimed with a lane in the last minutes, from 0 to 1.",
      { min: 0 },
    ),
    unitsLeft: count("Units that may be spent now.", isOptional),
    nextAt: instant("When the next task may be claimed, where that is later than now.", isOptional),
    paused: { ...paused, about: "Who paused the lane, when and why." },
  },
  { name: "Lane", about: "A lane of a queue." },
);

const Lanes = object(
  { lanes: list(Lane), total: count("How many lanes have tasks, times or limits now.") },
  { name: "Lanes" },
);

const topicName = text("The name of the queue.", {
  pattern: limits.commandPattern,
  rule: "the name of a queue: at most 128 letters, digits, `_`, `.`, `:` and `-`, a letter or digit first",
  as: "name",
});
const laneName = text("The lane, URL-encoded.", {
  min: 1,
  max: limits.laneBytesMax,
  isLine: true,
  rule: `1 to ${limits.laneBytesMax} bytes on one line`,
});
const outOfBounds: OutOfBounds = {
  code: "invalid_topic",
  say: (field, rule) => `invalid ${field}: must be ${rule}`,
  namesField: true,
};
const ofLane = { params: { topicName, lane: laneName }, outOfBounds } as const;
const changes = {
  ...ofLane,
  access: "admin",
  refusals: ["invalid_topic", "too_many_lanes"],
  replies: { 200: { about: "The lane.", shape: Lane } },
} as const;

export const lanes = endpoints({
  listLanes: {
    key: "GET /admin/topics/:topicName/lanes",
    access: "viewer",
    summary: "List lanes",
    about: "Lanes with the most ready tasks first. A lane that has nothing is not listed.",
    params: { topicName },
    outOfBounds,
    query: {
      limit: whole("How many lanes to list.", {
        min: 1,
        max: limits.lanesListedMax,
        none: 100,
        refusal: `invalid 'limit' (1 to ${limits.lanesListedMax})`,
      }),
      lane: text("Only this lane.", isOptional),
    },
    refusals: ["invalid_topic"],
    replies: { 200: { about: "The lanes.", shape: Lanes } },
  },
  putLane: {
    ...changes,
    key: "PUT /admin/topics/:topicName/lanes/:lane",
    summary: "Give limits to one lane",
    body: LaneLimits,
    invalidBody: "invalid request body",
  },
  deleteLane: {
    ...ofLane,
    key: "DELETE /admin/topics/:topicName/lanes/:lane",
    access: "admin",
    summary: "Take the limits of one lane back",
    about: "The lane has what the topic says; its tasks stay.",
    refusals: ["invalid_topic"],
    replies: { 204: { about: "The lane has no limits of its own." } },
  },
  pauseLane: {
    ...changes,
    key: "POST /admin/topics/:topicName/lanes/:lane/pause",
    summary: "Pause a lane",
    about: "No task of the lane is handed out until it is resumed; tasks can still be created.",
    body: object(
      {
        reason: text(`The reason; at most ${limits.reasonCharsMax} characters.`, {
          max: limits.reasonCharsMax,
          none: "",
          refusal: `'reason' is longer than ${limits.reasonCharsMax}`,
        }),
      },
      { isClosed: true },
    ),
    bodyOptional: true,
  },
  resumeLane: {
    ...changes,
    key: "POST /admin/topics/:topicName/lanes/:lane/resume",
    summary: "Resume a lane",
  },
});
