/** Icons on a grid of 16 px with lines of 1.5 px, and the name of the product. */
import type { JSX } from "preact";

const paths = {
  overview: "M2.5 8.5h2.3L6.5 3l3 10 1.7-4.5h2.3",
  queues: "M2.5 4h11M2.5 8h8M2.5 12h5M13 10.5v3M11.5 12h3",
  tasks: "M2.5 4.2l1 1 1.8-2M2.5 8.2l1 1 1.8-2M2.5 12.2l1 1 1.8-2M8 4.5h5.5M8 8.5h5.5M8 12.5h5.5",
  failures:
    "M2.5 9.5V12a1.5 1.5 0 0 0 1.5 1.5h8a1.5 1.5 0 0 0 1.5-1.5V9.5h-3L9.5 11h-3l-1-1.5zM8 2v3.5M8 7.6v.1",
  batches: "M2.5 3.5h4M2.5 8h4M2.5 12.5h4M6.5 3.5l4 4.5-4 4.5M10.5 8h3",
  bulk: "M3 5.5h7.5a2 2 0 0 1 0 4H7M9 7.5l-2 2 2 2M3 9.5h1M3 13h10M3 2.5h10",
  workers:
    "M5 5h6v6H5zM6.5 2.5V5M9.5 2.5V5M6.5 11v2.5M9.5 11v2.5M2.5 6.5H5M2.5 9.5H5M11 6.5h2.5M11 9.5h2.5",
  webhooks: "M6 6.5L8 3.5l2 3M8 3.5v6M3 9.5h3.5M9.5 9.5H13M3 9.5v3.5h10V9.5",
  tenants:
    "M2.5 13.5v-9l5-2v11M7.5 6.5l6 1.5v5.5M1.5 13.5h13M4.8 6v.1M4.8 8.5v.1M4.8 11v.1M10.5 10v.1M10.5 12v.1",
  cluster:
    "M8 2.5a1.75 1.75 0 1 1 0 3.5 1.75 1.75 0 0 1 0-3.5zM3.75 10a1.75 1.75 0 1 1 0 3.5 1.75 1.75 0 0 1 0-3.5zM12.25 10a1.75 1.75 0 1 1 0 3.5 1.75 1.75 0 0 1 0-3.5zM7 5.8L4.8 10M9 5.8l2.2 4.2M5.5 11.8h5",
  keys: "M10.5 2.5a3 3 0 1 1-2.8 4L2.5 11.7v1.8h2.3v-1.6h1.6V10L7.8 8.6M11 5v.1",
  audit: "M4 2.5h6l2.5 2.5v8.5H4zM9.5 2.5V5.5h3M6 8h4.5M6 10.5h4.5",
  settings: "M2.5 4.5h6M12 4.5h1.5M2.5 11.5H4M7.5 11.5h6M10.2 2.8v3.4M5.8 9.8v3.4",
  search: "M7 2.8a4.2 4.2 0 1 1 0 8.4 4.2 4.2 0 0 1 0-8.4zM10.2 10.2l3.3 3.3",
  ready: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11z",
  delayed: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11zM8 5.2V8l1.9 1.4",
  held: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11zM6.4 6v4M9.6 6v4",
  leased: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11zM6.8 5.9v4.2L10.2 8z",
  done: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11zM5.6 8.2l1.7 1.7 3.2-3.6",
  dead: "M5.7 2.5h4.6l3.2 3.2v4.6l-3.2 3.2H5.7l-3.2-3.2V5.7zM6.2 6.2l3.6 3.6M9.8 6.2L6.2 9.8",
  failed: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11zM6.2 6.2l3.6 3.6M9.8 6.2L6.2 9.8",
  cancelled: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11zM4.2 11.8l7.6-7.6",
  warn: "M8 2.6l6 10.6H2zM8 6.5v3M8 11.4v.1",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M4.5 3v10l8-5z",
  nowork: "M4 8.5V5.5a4 4 0 0 1 6.8-2.8M12 5.5v3M3 8.5h10v5H3zM2 2l12 12",
  deaf: "M4.5 6.5a3.5 3.5 0 1 1 7 0c0 2.2-2.2 2.6-2.2 4.5a1.8 1.8 0 0 1-3.3 1M2 2l12 12",
  more: "M3.5 8v.1M8 8v.1M12.5 8v.1",
  x: "M4 4l8 8M12 4l-8 8",
  check: "M3 8.5l3.2 3.2L13 4.8",
  up: "M3.5 10L8 5.5 12.5 10",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  api: "M5 4.5L1.8 8 5 11.5M11 4.5L14.2 8 11 11.5M9.2 3L6.8 13",
  sun: "M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6zM8 1.8v1M8 13.2v1M1.8 8h1M13.2 8h1M3.6 3.6l.7.7M11.7 11.7l.7.7M12.4 3.6l-.7.7M4.3 11.7l-.7.7",
  moon: "M13 9.6A5.5 5.5 0 0 1 6.4 3a5.5 5.5 0 1 0 6.6 6.6z",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  replay: "M3 8a5 5 0 1 0 1.6-3.7L3 5.8M3 2.8v3h3",
  trash: "M3 4.5h10M6.2 4.5v-2h3.6v2M4.3 4.5l.6 9h6.2l.6-9M6.8 7v4M9.2 7v4",
  move: "M2.5 4.5h6M2.5 8h9.5M9 5l3 3-3 3M2.5 11.5h6",
  edit: "M3 13l.6-2.8L10.8 3l2.2 2.2-7.2 7.2zM9.4 4.4l2.2 2.2",
  bolt: "M8.8 2L3.5 9h4l-.5 5 5.5-7.2H8.3z",
  clone: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3M9.5 7.5v4M7.5 9.5h4",
  plus: "M8 3.5v9M3.5 8h9",
  columns: "M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10",
  download: "M8 2.5v7.5M5 7.2L8 10l3-2.8M2.5 13.2h11",
  bookmark: "M4.5 2.5h7v11L8 10.8l-3.5 2.7z",
  link: "M6.8 9.2a2.6 2.6 0 0 0 3.7 0l2-2a2.6 2.6 0 0 0-3.7-3.7l-.8.8M9.2 6.8a2.6 2.6 0 0 0-3.7 0l-2 2a2.6 2.6 0 0 0 3.7 3.7l.8-.8",
  offline:
    "M2.5 6a8.5 8.5 0 0 1 3-1.7M13.5 6a8.4 8.4 0 0 0-5.2-2.2M4.8 8.7a5 5 0 0 1 2-1.1M11.2 8.7a5 5 0 0 0-.9-.6M8 12v.1M2.5 2.5l11 11",
  shield: "M8 2l5 1.8v4c0 3-2.2 5.2-5 6.2-2.8-1-5-3.2-5-6.2v-4zM5.8 8l1.6 1.6L10.4 6.5",
  disk: "M8 2.5c3 0 5.5.9 5.5 2v7c0 1.1-2.5 2-5.5 2s-5.5-.9-5.5-2v-7c0-1.1 2.5-2 5.5-2zM2.5 4.5c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2M2.5 8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2",
  snooze: "M8 4a5 5 0 1 1 0 10A5 5 0 0 1 8 4zM6.3 7.5h3.4L6.3 10.8h3.4M2.5 4l2-1.7M13.5 4l-2-1.7",
  eyeoff: "M2 8s2.2-3.8 6-3.8 6 3.8 6 3.8-2.2 3.8-6 3.8S2 8 2 8zM3 13L13 3",
  stop: "M4 4h8v8H4z",
  block: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11zM5.2 8h5.6",
  help: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11zM6.3 6.4a1.8 1.8 0 1 1 2.6 1.7c-.6.3-.9.6-.9 1.2M8 11.2v.1",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, small = false }: IconProps): JSX.Element {
  return (
    <svg class={small ? "i i-sm" : "i"} viewBox="0 0 16 16" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}

interface IconProps {
  readonly name: IconName;
  readonly small?: boolean;
}

export function Wordmark(): JSX.Element {
  return (
    <svg
      class="wordmark"
      viewBox="0 0 72 20"
      role="img"
      aria-label="codeQ"
      fill="none"
      stroke="currentColor"
      stroke-width="2.1"
      stroke-linecap="round"
    >
      <path d="M9.7 8.9a4.6 4.6 0 1 0 0 5.8" />
      <circle cx="18.6" cy="11.8" r="4.6" />
      <circle cx="30.6" cy="11.8" r="4.6" />
      <path d="M35.2 2v14.4" />
      <path d="M38.4 11.8h9.2a4.6 4.6 0 1 0-1.5 3.4" />
      <g class="q" stroke="currentColor">
        <circle cx="59.4" cy="9.2" r="7.2" />
        <path d="M61.2 11.4l6.6 6.2" />
      </g>
    </svg>
  );
}
