"""The program: IR, verifier, passes, schedule, executable and the extension registry."""
