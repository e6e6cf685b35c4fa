#pragma once

#include <cstdint>

#include "kernels/base/check.hpp"
#include "kernels/base/execution_context.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// Throws Error(internal), naming position and value, unless every line of `keys`, i32 [T, L] in host memory, is a key list of a row of
/// `sequence` tokens: places within [0, sequence) in increasing order, and −1 behind the last of them.
inline void check_key_lists(const char* component, const Tensor& keys, std::int64_t sequence) {
  const auto* key = keys.as<std::int32_t>();
  const std::int64_t length = keys.shape[1];
  for (std::int64_t i = 0; i < keys.elements(); ++i) {
    const bool first = i % length == 0, none = key[i] == -1, after_end = !first && key[i - 1] == -1;
    MILLRACE_CHECK(none || (key[i] >= 0 && key[i] < sequence), ExitCode::internal, component, "key {} at position {}, expected 0 to {}",
                   key[i], i, sequence - 1);
    MILLRACE_CHECK(none || first || (!after_end && key[i] > key[i - 1]), ExitCode::internal, component,
                   "key {} at position {} behind key {}, expected increasing keys", key[i], i, first ? -1 : key[i - 1]);
  }
}

}  // namespace millrace::kernels
