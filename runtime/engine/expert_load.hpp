#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/engine/observation_sums.hpp"

namespace millrace::runtime {

/// What a router chose in one step: over all microbatches and replicas.
struct ExpertLoad {
  std::int32_t layer = -1;
  std::string scope;                 // "layers.3"
  std::vector<std::int64_t> counts;  // choices of each expert: K per token in all
  std::int64_t dropped = 0;          // those of them that exceeded the capacity of their expert; 0 without a capacity
  std::int64_t more_rounds = 0;      // of exchanges, beside the first of each microbatch (kernels/base/exchange_round_options.hpp)
  auto tie() { return std::tie(layer, scope, counts, dropped, more_rounds); }
  bool operator==(const ExpertLoad&) const = default;

  [[nodiscard]] std::int64_t total() const;
  /// −Σ p·ln p of the experts' shares p, in nats: ln E if all are chosen equally often, 0 if one is chosen always.
  [[nodiscard]] double entropy() const;
  /// The entropy as a fraction of ln E, 0 … 1; 1 for a single expert.
  [[nodiscard]] double evenness() const;
  /// The expert chosen most often, the first of equals; 0 if nothing was chosen.
  [[nodiscard]] std::size_t hottest() const;
  /// Its share of all choices; 0 if nothing was chosen.
  [[nodiscard]] double hottest_share() const;
};

/// The loads of all routers, in the order of the observations.
[[nodiscard]] std::vector<ExpertLoad> expert_loads(const std::vector<Observation>& observations);

/// Adds a step's loads, those of the same routers, to `sums`; into an empty one they are copied.
void add_loads(std::vector<ExpertLoad>& sums, const std::vector<ExpertLoad>& step);

}  // namespace millrace::runtime
