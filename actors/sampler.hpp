#pragma once

#include <cstdint>
#include <vector>

namespace millrace::actors {

/// One token from softmax(logits / temperature); temperature 0 takes the most probable (the first of equals).
/// The random number is a function of (seed, index), so a sample is the same for every layout.
[[nodiscard]] std::int32_t sample_token(const std::vector<float>& logits, double temperature, std::uint64_t seed, std::uint64_t index);

}  // namespace millrace::actors
