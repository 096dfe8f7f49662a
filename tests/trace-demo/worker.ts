/** A service that scales images, and fails the first time. Runs until it is told to end. */
import { setTimeout as pass } from "node:timers/promises";
import { codeq } from "@codeq/client";
import { openTelemetry } from "@codeq/client/opentelemetry";
import { resize } from "./resize.ts";
import { startTelemetry } from "./telemetry.ts";

const [url = "", collector = ""] = process.argv.slice(2);
const telemetry = startTelemetry("thumbnails", collector);
const client = codeq({ url, token: "dev-token", tracing: openTelemetry() });
const worker = client.worker(
  resize.handle(async ({ image }, { attempt }) => {
    await pass(150);
    if (attempt === 1) throw new Error(`cannot read ${image}: the disk is busy`);
    return { url: `https://images.example.com/${image}` };
  }),
  { name: "thumbnails-1" },
);
process.once("SIGTERM", () => void worker.close());
await worker.done;
await client.close();
await telemetry.shutdown();
