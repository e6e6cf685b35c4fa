#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "layers/parameter.hpp"

namespace millrace::layers {

/// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four 32-bit words from a 128-bit counter and a
/// 64-bit key.
[[nodiscard]] std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept;

/// The standard normal distribution's quantile function, 0 < p < 1 (Wichura, AS 241, Applied Statistics 37, 1988). Only additions,
/// multiplications, divisions and square roots of doubles, so every machine and libm gives the same bits.
[[nodiscard]] double normal_quantile(double p) noexcept;

/// The standard normal value of a 32-bit word: the quantile at (word + 1/2) / 2³².
[[nodiscard]] double standard_normal(std::uint32_t word) noexcept;

/// Elements [first, first + values.size()) of a tensor's initial value: normal (complete, or truncated at two deviations), ones, zeros or a
/// constant; `range` is the deviation if the spec has none. Keyed by (seed, tensor name, element index) alone, so stage, rank, thread and
/// order of construction do not matter. For some of the experts of a weight the index is that in the whole tensor, so that it does not
/// matter either which rank has which of them; `first` counts from the first of them.
void initial_values(const ParameterSpec& spec, double range, std::uint64_t seed, std::int64_t first, std::span<float> values);

}  // namespace millrace::layers
