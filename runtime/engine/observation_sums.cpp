#include "runtime/engine/observation_sums.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "runtime/program/observation.hpp"

namespace millrace::runtime {

namespace {

/// An observation's place in the model: its stage within a replica, and its place among the observations of that stage.
using ObservedPlace = std::pair<int, int>;

/// The reports of each observation, one per replica in the replicas' order.
std::map<ObservedPlace, std::vector<const ObservedSums*>> by_place(std::vector<ObservedSums>& reported, int model_stages) {
  std::ranges::stable_sort(reported, {}, &ObservedSums::stage);
  std::map<ObservedPlace, std::vector<const ObservedSums*>> places;
  int stage = -1, place = 0;
  for (const ObservedSums& each : reported) {
    place = each.stage == stage ? place + 1 : 0;
    stage = each.stage;
    places[{stage % std::max(model_stages, 1), place}].push_back(&each);
  }
  return places;
}

}  // namespace

std::vector<Observation> add_observations(std::vector<ObservedSums> reported, int model_stages) {
  std::vector<Observation> all;
  for (const auto& [place, replicas] : by_place(reported, model_stages)) {
    const ObservedSums& first = *replicas.front();
    const auto width = static_cast<std::size_t>(first.width);
    const bool largest = first.name == score_maxima_name;
    Observation& sum = all.emplace_back(Observation{first.name, first.layer, first.scope, {}});
    sum.values.assign(width, largest ? -std::numeric_limits<double>::infinity() : 0.0);
    // In rounds: a row of every replica, then the next row of every replica. So the rows of microbatches come in their order, and the order
    // of sums of integers, a row for each accumulation step, does not matter.
    std::size_t rows = 0;
    for (const ObservedSums* each : replicas) rows = std::max(rows, each->values.size() / std::max<std::size_t>(width, 1));
    for (std::size_t row = 0; row < rows; ++row) {
      for (const ObservedSums* each : replicas) {
        if ((row + 1) * width > each->values.size()) continue;
        for (std::size_t i = 0; i < width; ++i) {
          double& value = sum.values[i];
          const double own = each->values[row * width + i];
          value = largest ? std::max(value, own) : value + own;
        }
      }
    }
  }
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
