//! Graph to Plan: fusion into Kernels, library calls, memory.
