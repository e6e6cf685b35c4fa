#include "runtime/engine/load_balance.hpp"

#include <algorithm>
#include <functional>
#include <span>

#include "kernels/base/check.hpp"
#include "kernels/transfer.hpp"
#include "runtime/program/observation.hpp"

namespace millrace::runtime {

BiasUpdate bias_update(double rate, const std::vector<ObservedSums>& observed, int model_stages, std::int64_t accumulation_steps) {
  BiasUpdate update{rate, {}};
  if (rate == 0) return update;
  for (std::size_t step = 0; step < static_cast<std::size_t>(accumulation_steps); ++step) {
    const auto loads = expert_loads(add_observations_of_step(observed, model_stages, expert_load_name, step));
    update.loads.insert(update.loads.end(), loads.begin(), loads.end());
  }
  return update;
}

std::vector<float> bias_steps(double rate, const ExpertLoad& load) {
  const auto step = static_cast<float>(rate);
  const auto experts = static_cast<std::int64_t>(load.counts.size());
  const std::int64_t total = load.total();
  std::vector<float> steps;
  for (const std::int64_t count : load.counts) {
    const std::int64_t above = count * experts;  // the mean times the experts is the total
    steps.push_back(above < total ? step : above > total ? -step : 0.0F);
  }
  return steps;
}

void update_biases(const kernels::ExecutionContext& context, const BiasUpdate& update, const StageShard& shard) {
  if (update.rate == 0) return;
  for (const StoredParameter& tensor : shard.tensors()) {
    if (tensor.router.empty() || tensor.held().empty()) continue;
    MILLRACE_CHECK(tensor.held() == tensor.whole(), ExitCode::internal, "runtime.load_balance", "{} is divided between replicas",
                   tensor.name);
    std::vector<float> steps;  // added over the accumulation steps
    for (const ExpertLoad& load : update.loads) {
      if (load.scope != tensor.router || load.counts.size() != tensor.elements()) continue;
      const std::vector<float> own = bias_steps(update.rate, load);
      if (steps.empty()) steps.resize(own.size(), 0.0F);
      std::ranges::transform(steps, own, steps.begin(), std::plus());
    }
    MILLRACE_CHECK(!steps.empty(), ExitCode::internal, "runtime.load_balance",
                   "{} of the router in {} without the {} counts of its experts", tensor.name, tensor.router, tensor.elements());
    const kernels::Tensor bias = shard.master(tensor);
    std::vector<float> values(steps.size());
    kernels::fetch(context, bias, std::as_writable_bytes(std::span(values)));
    std::ranges::transform(values, steps, values.begin(), std::plus());
    shard.fill(context, bias, [&](std::span<float> elements) { std::ranges::copy(values, elements.begin()); });
  }
}

}  // namespace millrace::runtime
