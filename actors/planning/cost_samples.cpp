#include "actors/planning/cost_samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/schedule/action.hpp"

namespace millrace::actors {
namespace {

using runtime::ActionKind;

constexpr int most_measurements = 4;
constexpr double most_elsewhere = 1.15;                      // wall time by processor time
constexpr double least_backward = 0.5, most_backward = 1.5;  // B by I + W
constexpr double negligible = 0.02;                          // ms; shorter passes are not judged: the clocks' own time is part of them

CostSample chosen(std::vector<CostSample> samples, bool least) {
  if (samples.empty()) return {};
  const auto middle = samples.begin() + (least ? 0 : static_cast<std::ptrdiff_t>(samples.size() / 2));
  std::ranges::nth_element(samples, middle, {}, &CostSample::wall);
  return *middle;
}

/// What is wrong with the samples chosen; empty if nothing is.
struct Judge {
  CostSample sum;
  std::vector<std::string> impossible;

  runtime::StageCost part(const PartSamples& samples, bool least) {
    runtime::StageCost cost{0, 0, 0, 0};
    for (const ActionKind kind : runtime::all_action_kinds) cost.of(kind) = take(samples.passes[static_cast<std::size_t>(kind)], least);
    cost.update = take(samples.updates, least);
    if (auto text = impossible_cost(samples.name, cost); !text.empty()) impossible.push_back(std::move(text));
    return cost;
  }

  [[nodiscard]] std::string doubt() const {
    std::vector<std::string> reasons = impossible;
    if (sum.wall > most_elsewhere * sum.processor)
      reasons.insert(reasons.begin(), fmt::format("the passes took {:.2f} x the processor time of the threads that compute",
                                                  sum.processor > 0 ? sum.wall / sum.processor : 0.0));
    return fmt::format("{}", fmt::join(reasons, "; "));
  }

 private:
  double take(const std::vector<CostSample>& samples, bool least) {
    const auto sample = chosen(samples, least);
    if (sample.wall > negligible) {
      sum.wall += sample.wall;
      sum.processor += sample.processor;
    }
    return sample.wall;
  }
};

void append(std::vector<CostSample>& samples, const std::vector<CostSample>& more) {
  samples.insert(samples.end(), more.begin(), more.end());
}

}  // namespace

std::string impossible_cost(const std::string& part, const runtime::StageCost& cost) {
  const double halves = cost.input_gradient + cost.weight_gradient;
  const bool known = cost.backward > negligible && halves > negligible;
  if (!known || (cost.backward <= most_backward * halves && cost.backward >= least_backward * halves)) return "";
  return fmt::format("B of {} takes {:.3f} ms, I and W, which do the same work, {:.3f} ms", part, cost.backward, halves);
}

std::string impossible_costs(const runtime::LayerCosts& costs) {
  auto text = impossible_cost("embedding", costs.embedding);
  for (std::size_t layer = 0; layer < costs.layers.size() && text.empty(); ++layer)
    text = impossible_cost(fmt::format("layer {}", layer), costs.layers[layer]);
  return text.empty() ? impossible_cost("head", costs.head) : text;
}

JudgedCosts judge_costs(const std::function<std::vector<PartSamples>()>& measure) {
  JudgedCosts costs;
  auto parts = measure();
  for (;; ++costs.measurements) {
    Judge judge;
    costs.parts.clear();
    costs.least = costs.measurements > 1;
    for (const auto& part : parts) costs.parts.push_back(judge.part(part, costs.least));
    costs.doubt = judge.doubt();
    if (costs.doubt.empty() || costs.measurements == most_measurements) return costs;
    const auto more = measure();
    for (std::size_t part = 0; part < parts.size(); ++part) {
      for (std::size_t pass = 0; pass < parts[part].passes.size(); ++pass) append(parts[part].passes[pass], more.at(part).passes[pass]);
      append(parts[part].updates, more.at(part).updates);
    }
  }
}

}  // namespace millrace::actors
