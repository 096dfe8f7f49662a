export { SimClock, type SimClockOptions, SimRandom, settle } from "@codeq/server/simulated";
export { makeCertificate, type TestCertificate } from "./certificates.ts";
export { SimDisk, type SimDiskOperation, type SimDiskOptions, tellEnd } from "./sim-disk.ts";
export { type SimAlgorithm, SimIssuer, type TokenOptions } from "./sim-issuer.ts";
