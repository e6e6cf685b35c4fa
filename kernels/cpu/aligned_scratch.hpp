#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/buffer.hpp"
#include "kernels/base/execution_context.hpp"

namespace millrace::kernels::cpu {

/// The first byte of `scratch` at a multiple of kAlignment. Kernels that use it ask for kAlignment bytes more than they need.
[[nodiscard]] inline std::byte* aligned_begin(Scratch scratch) {
  const auto misaligned = reinterpret_cast<std::uintptr_t>(scratch.data()) % kAlignment;
  return scratch.data() + (misaligned == 0 ? 0 : kAlignment - misaligned);
}

}  // namespace millrace::kernels::cpu
