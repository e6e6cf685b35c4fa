#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <functional>

namespace millrace::runtime {

/// A typed number: a StageId cannot be passed where a MicrobatchId is expected.
template <class Tag>
struct Id {
  std::int32_t value = 0;

  constexpr Id() = default;
  template <class Integer>
  constexpr explicit Id(Integer number) : value(static_cast<std::int32_t>(number)) {}
  /// The value as an index into a vector with one entry per id.
  [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
  friend constexpr auto operator<=>(Id, Id) = default;
};

using RankId = Id<struct RankTag>;              ///< position 0…P−1 in the pipeline
using StageId = Id<struct StageTag>;            ///< virtual stage 0…S−1
using MicrobatchId = Id<struct MicrobatchTag>;  ///< 0…M−1 within a step
using StepId = Id<struct StepTag>;              ///< training step, from 0
using EdgeId = Id<struct EdgeTag>;              ///< index into edges_of(placement)

inline constexpr RankId no_rank{-1};
inline constexpr StageId no_stage{-1};
inline constexpr MicrobatchId no_microbatch{-1};
inline constexpr StepId no_step{-1};
inline constexpr EdgeId no_edge{-1};

}  // namespace millrace::runtime

template <class Tag>
struct std::hash<millrace::runtime::Id<Tag>> {
  std::size_t operator()(millrace::runtime::Id<Tag> id) const noexcept { return std::hash<std::int32_t>{}(id.value); }
};

template <class Tag>
struct fmt::formatter<millrace::runtime::Id<Tag>> : fmt::formatter<std::int32_t> {
  template <class Context>
  auto format(millrace::runtime::Id<Tag> id, Context& context) const {
    return fmt::formatter<std::int32_t>::format(id.value, context);
  }
};
