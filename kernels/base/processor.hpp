#pragma once

#include "kernels/base/device.hpp"

namespace millrace::kernels {

/// The device and, on a CPU, the number of threads. The size of a kernel's scratch depends on both, and on its operands.
struct Processor {
  Device device;
  int threads = 1;
  constexpr Processor(int threads_ = 1) : threads(threads_) {}  // NOLINT: a number of threads is a CPU with that many
  constexpr Processor(Device device_, int threads_) : device(device_), threads(threads_) {}
};

}  // namespace millrace::kernels
