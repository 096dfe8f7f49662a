/** The thread of `check-tables`. */
import { parentPort, workerData } from "node:worker_threads";
import { checkNext, type SharedWork } from "./check-tables.ts";

parentPort?.postMessage(checkNext(workerData as SharedWork));
