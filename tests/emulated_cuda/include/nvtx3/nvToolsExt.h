#pragma once

/// Names for what a profiler draws: nobody draws here.
inline int nvtxRangePushA(const char*) { return 0; }
inline int nvtxRangePop() { return 0; }
inline void nvtxMarkA(const char*) {}
