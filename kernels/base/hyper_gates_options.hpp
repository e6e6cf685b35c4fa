#pragma once

#include <cstdint>

#include "kernels/base/options.hpp"

namespace millrace::kernels {

inline constexpr std::int64_t max_hyper_streams = 8;     // k
inline constexpr std::int64_t max_permuted_streams = 5;  // k of the lite form, which has k! weights
inline constexpr std::int64_t max_sinkhorn_iterations = 64;

/// The gates of manifold-constrained hyper-connections (kernels/hyper_gates.hpp).
struct HyperGatesOptions {
  std::int64_t streams = 4;      // k
  std::int64_t iterations = 20;  // of Sinkhorn and Knopp; without effect in the lite form
  bool lite = false;             // the residual map is a mean of permutations

  bool operator==(const HyperGatesOptions&) const = default;

  static constexpr auto members() {
    return std::tuple(member("streams", &HyperGatesOptions::streams), member("iterations", &HyperGatesOptions::iterations),
                      member("lite", &HyperGatesOptions::lite));
  }
};

[[nodiscard]] constexpr std::int64_t factorial(std::int64_t n) { return n < 2 ? 1 : n * factorial(n - 1); }

/// The numbers from which a token's residual map is made: k·k, or k! in the lite form.
[[nodiscard]] constexpr std::int64_t residual_logits(const HyperGatesOptions& options) {
  return options.lite ? factorial(options.streams) : options.streams * options.streams;
}

}  // namespace millrace::kernels
