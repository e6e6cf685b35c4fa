#include "runtime/engine/observation_sums.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace millrace::runtime {

std::vector<Observation> add_observations(std::vector<ObservedSums> reported, int model_stages) {
  std::ranges::stable_sort(reported, {}, &ObservedSums::stage);
  std::map<std::pair<int, int>, Observation> sums;  // by stage of a replica, and place within the stage
  int stage = -1, place = 0;
  for (ObservedSums& each : reported) {
    place = each.stage == stage ? place + 1 : 0;
    stage = each.stage;
    const auto width = static_cast<std::size_t>(each.width);
    Observation& sum = sums[{stage % std::max(model_stages, 1), place}];
    if (sum.values.empty()) sum = {std::move(each.name), each.layer, std::move(each.scope), std::vector<double>(width, 0.0)};
    for (std::size_t i = 0; i < each.values.size(); ++i) sum.values[i % width] += each.values[i];
  }
  std::vector<Observation> all;
  for (auto& [where, sum] : sums) all.push_back(std::move(sum));
  return all;
}

}  // namespace millrace::runtime
