#include "runtime/engine/expert_load.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/program/observation.hpp"

namespace millrace::runtime {

std::int64_t ExpertLoad::total() const { return std::accumulate(counts.begin(), counts.end(), std::int64_t{0}); }

double ExpertLoad::entropy() const {
  const auto all = static_cast<double>(total());
  double sum = 0;
  for (const std::int64_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / all;
    sum -= share * std::log(share);
  }
  return sum;
}

double ExpertLoad::evenness() const { return counts.size() > 1 ? entropy() / std::log(static_cast<double>(counts.size())) : 1.0; }

std::size_t ExpertLoad::hottest() const { return static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin()); }

double ExpertLoad::hottest_share() const {
  const std::int64_t all = total();
  return all > 0 ? static_cast<double>(counts[hottest()]) / static_cast<double>(all) : 0.0;
}

void add_loads(std::vector<ExpertLoad>& sums, const std::vector<ExpertLoad>& step) {
  if (sums.empty()) {
    sums = step;
    return;
  }
  for (std::size_t router = 0; router < sums.size(); ++router) {
    for (std::size_t expert = 0; expert < sums[router].counts.size(); ++expert) sums[router].counts[expert] += step[router].counts[expert];
    sums[router].dropped += step[router].dropped;
    sums[router].more_rounds += step[router].more_rounds;
  }
}

std::vector<ExpertLoad> expert_loads(const std::vector<Observation>& observations) {
  std::vector<ExpertLoad> loads;
  for (const Observation& each : observations) {
    if (each.name != expert_load_name) continue;
    ExpertLoad& load = loads.emplace_back(ExpertLoad{each.layer, each.scope, {}});
    for (std::size_t i = 1; i < each.values.size(); ++i)
      load.counts.push_back(static_cast<std::int64_t>(each.values[i]) - static_cast<std::int64_t>(each.values[i - 1]));
  }
  for (const Observation& each : observations) {
    const bool dropped = each.name == dropped_tokens_name;
    if (!dropped && each.name != more_rounds_name) continue;
    const auto router = std::ranges::find(loads, each.scope, &ExpertLoad::scope);
    if (router != loads.end()) (dropped ? router->dropped : router->more_rounds) = static_cast<std::int64_t>(each.values.at(0));
  }
  return loads;
}

}  // namespace millrace::runtime
