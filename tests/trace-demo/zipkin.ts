/**
 * A Zipkin server, which stores traces in memory and shows them in a browser: the jar from Maven Central, or the one
 * that CODEQ_ZIPKIN_JAR names. Needs Java 17 or newer.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, renameSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Child } from "../e2e/server-process.ts";
import { toolCache } from "../tool-cache.ts";
import { PartError, untilAnswered } from "./parts.ts";

const version = "3.6.1";
const central = "https://repo1.maven.org/maven2/io/zipkin/zipkin-server";

export async function zipkinJar(): Promise<string> {
  const named = process.env["CODEQ_ZIPKIN_JAR"] ?? "";
  if (named !== "") return named;
  const kept = join(toolCache, `zipkin-${version}.jar`);
  if (existsSync(kept)) return kept;
  console.log(`downloading Zipkin ${version} from Maven Central (135 MB), once`);
  const url = `${central}/${version}/zipkin-server-${version}-exec.jar`;
  const answer = await fetch(url);
  if (!answer.ok || answer.body === null) {
    throw new PartError(`Maven Central answered ${answer.status} for ${url}`);
  }
  mkdirSync(toolCache, { recursive: true });
  const unfinished = `${kept}.${process.pid}`;
  await writeFile(unfinished, answer.body);
  renameSync(unfinished, kept);
  return kept;
}

export async function startZipkin(jar: string, port: number): Promise<Child> {
  const env = { ...process.env, QUERY_PORT: String(port) };
  const options = ["-Xmx256m", "-Darmeria.preferredIpV4Addresses=127.0.0.1/32"];
  const child = new Child(
    spawn("java", [...options, "-jar", jar], { env, stdio: ["ignore", "ignore", "pipe"] }),
  );
  await untilAnswered(`http://127.0.0.1:${port}/health`, child);
  return child;
}

/** A span as the API of Zipkin shows it; times are microseconds. */
export interface ZipkinSpan {
  readonly id: string;
  readonly parentId?: string;
  readonly name: string;
  readonly timestamp: number;
  readonly duration: number;
  readonly localEndpoint?: { readonly serviceName?: string };
  readonly tags?: Readonly<Record<string, string>>;
}

/** The spans of a trace; none while it is not known. */
export async function spansOf(zipkin: string, traceId: string): Promise<readonly ZipkinSpan[]> {
  const answer = await fetch(`${zipkin}/api/v2/trace/${traceId}`);
  return answer.ok ? ((await answer.json()) as ZipkinSpan[]) : [];
}
