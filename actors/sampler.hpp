#pragma once

#include <cstdint>
#include <vector>

namespace millrace::actors {

/// How the next token is drawn from logits.
struct Sampling {
  double temperature = 0;  // of softmax(logits / temperature); 0: the most probable token, the first of equals
  std::int64_t top_k = 0;  // only the k most probable; 0: all
  double top_p = 1;        // of those the fewest, most probable first, whose share of the probability is this or more; 1: all
  std::uint64_t seed = 1;
};

/// One token. Of equally probable tokens the one with the lower id counts as more probable. The random number is a function of (seed,
/// index), so a sample is the same for every layout. Errors: Error(internal) for no logits.
[[nodiscard]] std::int32_t sample_token(const std::vector<float>& logits, const Sampling& sampling, std::uint64_t index);

/// The same of all tokens.
[[nodiscard]] std::int32_t sample_token(const std::vector<float>& logits, double temperature, std::uint64_t seed, std::uint64_t index);

}  // namespace millrace::actors
