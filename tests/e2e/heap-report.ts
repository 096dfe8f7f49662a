/** Loaded into a server before anything else: on SIGUSR2 it collects its garbage and tells the rest. */
process.on("SIGUSR2", () => {
  (globalThis as { gc?: () => void }).gc?.();
  process.stdout.write(`heap ${process.memoryUsage().heapUsed}\n`);
});
