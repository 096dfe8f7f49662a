export { SimClock, type SimClockOptions, SimRandom, settle } from "@codeq/server/simulated";
export { makeCertificate, type TestCertificate } from "./certificates.ts";
export { callBack, SimDisk, type SimDiskOperation, type SimDiskOptions } from "./sim-disk.ts";
export { type SimAlgorithm, SimIssuer, type TokenOptions } from "./sim-issuer.ts";
