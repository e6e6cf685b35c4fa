#pragma once

#include <string_view>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/base/device_type.hpp"
#include "kernels/base/kernel_table.hpp"

namespace millrace::runtime {

/// The rows of the kernel tables that an operation or an optimizer calls.
using KernelRows = std::vector<const kernels::KernelRow*>;

/// Throws Error(config), "device cuda has no kernel for top_k (layers.3.mlp.router)" with that caller, if the device's backend lacks one of
/// the rows. Without this check a run on this device would fail at the first call.
inline void require_kernels(const KernelRows& rows, kernels::Device device, const char* component, std::string_view caller) {
  const kernels::DeviceFacts& facts = kernels::device_type(device).facts();
  for (const kernels::KernelRow* row : rows)
    MILLRACE_CHECK(row->has(facts.backend), ExitCode::config, component, "device {} has no kernel for {} ({})", facts.name, row->name(),
                   caller);
}

}  // namespace millrace::runtime
