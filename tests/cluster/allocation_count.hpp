#pragma once

#include <cstdint>

namespace millrace::tests {

/// The heap allocations through C++ so far, on any thread of the process. Any thread.
[[nodiscard]] std::int64_t allocation_count() noexcept;

}  // namespace millrace::tests
