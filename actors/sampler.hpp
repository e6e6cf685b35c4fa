#pragma once

#include <cstdint>
#include <vector>

namespace millrace::actors {

/// How the next token is sampled from logits.
struct Sampling {
  double temperature = 0;  // of softmax(logits / temperature); 0: greedy, the most probable token; ties go to the lowest id
  std::int64_t top_k = 0;  // only the k most probable tokens; 0: all
  double top_p = 1;        // of those the smallest set, most probable first, whose total probability is at least this; 1: all
  std::uint64_t seed = 1;
};

/// Samples one token. Of equally probable tokens the one with the lower id counts as more probable. The random number is a
/// function of (seed, index), so a sample is the same in every layout. Errors: Error(internal) for no logits.
[[nodiscard]] std::int32_t sample_token(const std::vector<float>& logits, const Sampling& sampling, std::uint64_t index);

/// The same without top-k and top-p.
[[nodiscard]] std::int32_t sample_token(const std::vector<float>& logits, double temperature, std::uint64_t seed, std::uint64_t index);

}  // namespace millrace::actors
