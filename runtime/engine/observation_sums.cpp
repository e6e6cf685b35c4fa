#include "runtime/engine/observation_sums.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "runtime/program/observation.hpp"

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
    const bool place_is_new = sum.values.empty();
    if (place_is_new) sum = {std::move(each.name), each.layer, std::move(each.scope), std::vector<double>(width, 0.0)};
    const bool largest = sum.name == score_maxima_name;
    if (largest && place_is_new) sum.values.assign(width, -std::numeric_limits<double>::infinity());
    for (std::size_t i = 0; i < each.values.size(); ++i) {
      double& value = sum.values[i % width];
      value = largest ? std::max(value, each.values[i]) : value + each.values[i];
    }
  }
  std::vector<Observation> all;
  for (auto& [where, sum] : sums) all.push_back(std::move(sum));
  return all;
}

std::vector<Observation> add_observations_of_step(const std::vector<ObservedSums>& reported, int model_stages, std::string_view name,
                                                  std::size_t accumulation_step) {
  std::vector<ObservedSums> own = reported;
  for (ObservedSums& each : own) {
    const auto begin = accumulation_step * static_cast<std::size_t>(each.width), end = begin + static_cast<std::size_t>(each.width);
    if (each.name != name || end > each.values.size()) {
      each.values.clear();
      continue;
    }
    each.values = {each.values.begin() + static_cast<std::ptrdiff_t>(begin), each.values.begin() + static_cast<std::ptrdiff_t>(end)};
  }
  std::vector<Observation> all = add_observations(std::move(own), model_stages);
  std::erase_if(all, [&](const Observation& each) { return each.name != name; });
  return all;
}

}  // namespace millrace::runtime
