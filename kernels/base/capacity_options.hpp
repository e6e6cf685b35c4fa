#pragma once

#include <cstdint>

#include "kernels/base/options.hpp"

namespace millrace::kernels {

/// How many of a sequence's choices an expert takes.
struct CapacityOptions {
  std::int64_t experts = 1;    // E
  std::int64_t sequences = 1;  // B of the microbatch; each has S = T / B tokens
  std::int64_t capacity = 0;   // choices of a sequence that an expert takes; 0: it takes none

  bool operator==(const CapacityOptions&) const = default;

  static constexpr auto members() {
    return std::tuple(member("experts", &CapacityOptions::experts), member("sequences", &CapacityOptions::sequences),
                      member("capacity", &CapacityOptions::capacity));
  }
};

}  // namespace millrace::kernels
