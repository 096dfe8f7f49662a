@rem What "exec" of POSIX shells is to npm on Windows: see docs/adr/0097-who-ends-ends-the-server.md
@%*
