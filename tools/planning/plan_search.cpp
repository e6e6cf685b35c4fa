#include "tools/planning/plan_search.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "kernels/base/check.hpp"
#include "runtime/schedule/measures.hpp"
#include "runtime/schedule/simulate.hpp"

namespace millrace::tools {
namespace {

constexpr double as_fast = 1.001;  // steps that differ by less are the same: memory decides
constexpr int most_chunks = 4;

/// Policies from keeping more to keeping less.
const std::vector<std::vector<std::string>>& smaller_policies() {
  static const std::vector<std::vector<std::string>> policies{{"minimal"}, {"save_qkv_proj"}, {"full"}};
  return policies;
}

std::vector<layers::StageLayout> layout_of(const std::vector<int>& counts) {
  std::vector<layers::StageLayout> stages(counts.size());
  int first = 0;
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    stages[stage] = {stage == 0, first, counts[stage], stage + 1 == counts.size()};
    first += counts[stage];
  }
  return stages;
}

std::vector<int> counts_of(const actors::PipelinePlan& plan) {
  std::vector<int> counts;
  for (int stage = 0; stage < plan.schedule.placement.model_stages(); ++stage)
    counts.push_back(plan.layout[static_cast<std::size_t>(stage)].layer_count);
  return counts;
}

class Planner {
 public:
  explicit Planner(const PlanSearch& search) : search_(search) {}

  PlanResult run() {
    PlanResult result;
    auto plan = make_plan("1f1b", 1, search_.request.rematerialize.policy);
    result.uniform = priced(plan, counts_of(plan), 1, search_.request.rematerialize.policy);
    for (const auto& name : search_.schedules) add(name, result);
    std::stable_sort(result.runs.begin(), result.runs.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
    if (!result.runs.empty()) prefer_less_memory(result.runs);
    return result;
  }

 private:
  actors::PipelinePlan make_plan(const std::string& schedule, int chunks, const std::vector<std::string>& policy) const {
    auto request = search_.request;
    request.pipeline.schedule = schedule;
    request.pipeline.chunks = chunks;
    request.pipeline.layout.clear();
    request.pipeline.plan.clear();
    request.pipeline.warmup = -1;
    request.pipeline.group = 0;
    request.rematerialize.policy = policy;
    return actors::make_plan(request);
  }

  const ModelCosts& costs(const std::vector<std::string>& policy) {
    const auto known = costs_.find(policy);
    if (known != costs_.end()) return known->second;
    auto request = search_.request;
    request.rematerialize.policy = policy;
    return costs_.emplace(policy, search_.costs(request)).first->second;
  }

  runtime::Costs fixed(const actors::PipelinePlan& plan) const {
    runtime::Costs costs;
    if (search_.latency > 0 || search_.bytes_per_unit > 0) costs.links = runtime::uniform_links(plan.schedule.placement, search_.latency);
    for (auto& link : costs.links) {
      if (search_.bytes_per_unit <= 0) continue;
      link.bytes = static_cast<double>(plan.boundary_bytes());
      link.bytes_per_second = search_.bytes_per_unit;
    }
    return costs;
  }

  static void set_layout(actors::PipelinePlan& plan, const std::vector<int>& counts) {
    const auto one = layout_of(counts);
    plan.layout.clear();
    for (int replica = 0; replica < plan.replicas(); ++replica) plan.layout.insert(plan.layout.end(), one.begin(), one.end());
  }

  /// Of every rank, with its programs planned for this layout.
  std::vector<std::uint64_t> bytes_of(actors::PipelinePlan& plan, const std::vector<int>& counts) const {
    set_layout(plan, counts);
    std::vector<std::uint64_t> bytes;
    for (int rank = 0; rank < plan.ranks(); ++rank)
      bytes.push_back(actors::RankBlueprint(plan, runtime::RankId(rank), search_.needs).build(true)->memory_plan().total_bytes());
    return bytes;
  }

  PlannedRun priced(actors::PipelinePlan& plan, const std::vector<int>& counts, int chunks, const std::vector<std::string>& policy) {
    auto prices = fixed(plan);
    prices.stages = runtime::stage_costs(plan.schedule.placement, costs(policy).parts, counts);
    const auto measures = runtime::measure(plan.schedule, runtime::simulate(plan.schedule, prices, false));
    return {plan.schedule.name, chunks,          policy,        layers::print_layout(layout_of(counts)),
            measures.makespan,  measures.bubble, measures.idle, bytes_of(plan, counts)};
  }

  /// The best layout of one schedule under one policy; nothing where it is beyond the limit.
  std::optional<PlannedRun> best(const std::string& name, int chunks, const std::vector<std::string>& policy) {
    auto plan = make_plan(name, chunks, policy);
    runtime::PartitionOptions options;
    options.fixed = fixed(plan);
    if (search_.memory) {
      options.excess = [&](const std::vector<int>& counts) {
        double beyond = 0;
        for (const auto bytes : bytes_of(plan, counts))
          if (bytes > *search_.memory) beyond += static_cast<double>(bytes - *search_.memory);
        return beyond;
      };
    }
    const auto found = runtime::partition(plan.schedule, costs(policy).parts, options);
    if (found.excess > 0) return std::nullopt;
    return priced(plan, found.counts, chunks, policy);
  }

  std::optional<PlannedRun> within_memory(const std::string& name, int chunks) {
    if (auto run = best(name, chunks, search_.request.rematerialize.policy)) return run;
    if (!search_.may_rematerialize) return std::nullopt;
    for (const auto& policy : smaller_policies())
      if (policy != search_.request.rematerialize.policy)
        if (auto run = best(name, chunks, policy)) return run;
    return std::nullopt;
  }

  void add(const std::string& name, PlanResult& result) {
    const int usual = runtime::usual_chunks(name);
    std::string reason;
    bool found = false;
    for (int chunks = usual; chunks <= (usual == 1 ? 1 : most_chunks); ++chunks) {
      try {
        if (auto run = within_memory(name, chunks)) {
          result.runs.push_back(std::move(*run));
          found = true;
        } else if (reason.empty()) {
          reason = "no layout fits the memory";
        }
      } catch (const Error& error) {
        if (error.code() != ExitCode::config) throw;
        if (reason.empty()) reason = error.what();
      }
    }
    if (!found) result.others.push_back({name, reason});
  }

  static void prefer_less_memory(std::vector<PlannedRun>& runs) {
    const double limit = runs.front().step * as_fast;
    const auto slower = std::find_if(runs.begin(), runs.end(), [&](const auto& run) { return run.step > limit; });
    std::stable_sort(runs.begin(), slower, [](const auto& a, const auto& b) { return a.most_bytes() < b.most_bytes(); });
  }

  const PlanSearch& search_;
  std::map<std::vector<std::string>, ModelCosts> costs_;
};

}  // namespace

std::uint64_t PlannedRun::most_bytes() const { return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end()); }

PlanResult search_plans(const PlanSearch& search) { return Planner(search).run(); }

}  // namespace millrace::tools
