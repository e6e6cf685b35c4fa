#include "runtime/engine/load_balance.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"
#include "kernels/elementwise.hpp"

namespace millrace::runtime {

BiasUpdate bias_update(double rate, const std::vector<Observation>& observations) {
  return rate == 0 ? BiasUpdate{} : BiasUpdate{rate, expert_loads(observations)};
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
    if (tensor.router.empty()) continue;
    const auto load = std::ranges::find(update.loads, tensor.router, &ExpertLoad::scope);
    MILLRACE_CHECK(load != update.loads.end() && load->counts.size() == tensor.elements(), ExitCode::internal, "runtime.load_balance",
                   "{} of the router in {} without the {} counts of its experts", tensor.name, tensor.router, tensor.elements());
    const std::vector<float> steps = bias_steps(update.rate, *load);
    const kernels::Tensor sum = shard.gradient(tensor);
    shard.fill(context, sum, [&](std::span<float> elements) { std::ranges::copy(steps, elements.begin()); });
    kernels::accumulate(context, sum, shard.master(tensor));
    kernels::fill_zero(context, sum);
  }
}

}  // namespace millrace::runtime
