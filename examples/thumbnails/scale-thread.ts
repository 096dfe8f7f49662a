/** The thread that `make-thumbnail.ts` starts: a PNG in, a smaller one out, or why that cannot be. */
import { parentPort, workerData } from "node:worker_threads";
import { PNG } from "pngjs";
import { type Picture, scale } from "./scale.ts";

export interface Job {
  readonly png: Uint8Array;
  readonly width: number;
}

export type Scaled =
  | { readonly png: Uint8Array; readonly width: number; readonly height: number }
  | { readonly problem: string };

/** A small file may be a huge picture, or a line that is millions of pixels long. */
const pixelsMax = 50_000_000;
const sideMax = 20_000;
const signature = "89504e470d0a1a0a";

function carryOut({ png, width: widthMax }: Job): Scaled {
  const bytes = Buffer.from(png);
  if (bytes.length < 24 || bytes.subarray(0, 8).toString("hex") !== signature) {
    return { problem: "the file is not a PNG" };
  }
  const [width, height] = [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
  if (width * height > pixelsMax || Math.max(width, height) > sideMax) {
    return { problem: `the image has more than ${pixelsMax} pixels, or ${sideMax} in a line` };
  }
  let picture: Picture;
  try {
    picture = PNG.sync.read(bytes);
  } catch (error) {
    return { problem: `the image is damaged: ${(error as Error).message}` };
  }
  const small = scale(picture, widthMax);
  const data = Buffer.from(small.data);
  return { ...small, png: PNG.sync.write({ ...small, data }) };
}

parentPort?.postMessage(carryOut(workerData as Job));
