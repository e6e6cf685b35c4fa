#pragma once

#include "kernels/base/execution_context.hpp"

namespace millrace::kernels::cuda {

/// What kernels for Hopper GPUs have to know of a device.
struct HopperDevice {
  bool usable = false;  // it has compute capability 9.0, and the build has kernels for 9.0a
  int processors = 0;   // streaming multiprocessors
};

/// Asked once for each device and thread, and then remembered.
[[nodiscard]] const HopperDevice& hopper_device_of(const ExecutionContext& context, const char* component);

}  // namespace millrace::kernels::cuda
