export { makeCertificate, type TestCertificate } from "./certificates.ts";
export { SimClock, type SimClockOptions, settle } from "./sim-clock.ts";
export { SimDisk, type SimDiskOperation, type SimDiskOptions } from "./sim-disk.ts";
export { type SimAlgorithm, SimIssuer, type TokenOptions } from "./sim-issuer.ts";
export { SimRandom } from "./sim-random.ts";
