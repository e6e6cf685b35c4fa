#pragma once

#include <cstdint>
#include <optional>

namespace millrace::layers {

/// NumPy's default generator, numpy.random.default_rng(seed), to the bit: PCG64 with the output function XSL-RR (O'Neill, "PCG: A Family of
/// Simple Fast Space-Efficient Statistically Good Algorithms for Random Number Generation", 2014), seeded through SeedSequence. For numbers
/// that a model file assumes; runs draw their own from kernels/base/mix.hpp. One thread at a time.
class Pcg64 {
 public:
  explicit Pcg64(std::uint64_t seed) noexcept;

  [[nodiscard]] std::uint64_t next64() noexcept;
  /// Halves of 64-bit draws, the lower one first.
  [[nodiscard]] std::uint32_t next32() noexcept;
  /// An integer from [0, bound), bound >= 1 (Lemire, arXiv 1805.10941). A bound of 1 draws nothing.
  [[nodiscard]] std::uint32_t below(std::uint32_t bound) noexcept;

 private:
  using Wide = unsigned __int128;
  void step() noexcept;

  Wide state_ = 0, increment_ = 0;
  std::optional<std::uint32_t> upper_half_;
};

}  // namespace millrace::layers
