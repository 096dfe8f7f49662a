/**
 * Every limit of the server that a caller can meet, with its name and default. Those that an
 * operator may change are rows of the configuration table and start from the value here.
 */
export const limits = {
  bodyBytesMax: 4 * 1024 * 1024,
  payloadBytesMax: 1024 * 1024,
  commandPattern: /^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$/,
  idempotencyKeyCharsMax: 256,
  webhookCharsMax: 2048,
  reasonCharsMax: 4096,
  errorCharsMax: 64 * 1024,
  workerIdCharsMax: 256,
  tokenCharsMax: 16_384,
  traceCharsMax: 512,
  artifactsMax: 100,
  artifactNameCharsMax: 255,
  commandsPerClaimMax: 256,
  createBatchMax: 1000,
  claimBatchMax: 256,
  resultBatchMax: 1000,
  leaseSecondsMin: 1,
  leaseSecondsMax: 24 * 60 * 60,
  delaySecondsMax: 10 * 366 * 24 * 60 * 60,
  maxAttemptsMax: 1000,
  priorityMax: 9,
  claimWaitSecondsMax: 30,
  resultWaitSecondsMax: 60,
  waitersMax: 100_000,
  tenantsPerPage: 1000,
  cleanupLimitDefault: 1000,
  cleanupLimitMax: 100_000,
} as const;
