#include "actors/planning/plan_search.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "actors/planning/transfer_costs.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/without_component.hpp"
#include "layers/models/model.hpp"
#include "runtime/engine/exchange_costs.hpp"
#include "runtime/schedule/replicate.hpp"
#include "runtime/schedule/simulator/measures.hpp"
#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::actors {
namespace {

constexpr double as_fast = 1.001;  // steps that differ by less count as equal, and memory decides
constexpr int max_chunks = 4;

using Policy = std::vector<std::string>;

/// The layers and policy of every stage of a replica.
struct Stages {
  std::vector<int> counts;
  std::vector<std::size_t> policies;  // indices into Planner::policies_
};

std::vector<int> counts_of(const actors::PipelinePlan& plan) {
  std::vector<int> counts;
  for (int stage = 0; stage < plan.schedule.placement.model_stages(); ++stage)
    counts.push_back(plan.layout[static_cast<std::size_t>(stage)].length());
  return counts;
}

class Planner {
 public:
  explicit Planner(const PlanSearch& search) : search_(search), policies_{search.request.rematerialize.policy} {
    const auto layers = layers::resolve(search.request.model).layers;
    for (const layers::LayerSpec& layer : layers)
      alike_.push_back(static_cast<std::size_t>(std::ranges::find(layers, layer) - layers.begin()));
    if (!search.may_rematerialize) return;
    for (const Policy& less : {Policy{"minimal"}, Policy{"save_qkv_proj"}, Policy{"full"}})
      if (less != policies_.front()) policies_.push_back(less);
  }

  PlanResult run() {
    PlanResult result;
    Candidate uniform(*this, "1f1b", 1, weaves().front());
    result.uniform = uniform.priced({counts_of(uniform.plan), {}});
    for (const auto& name : search_.schedules) add(name, result);
    std::stable_sort(result.runs.begin(), result.runs.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
    if (!result.runs.empty()) prefer_less_memory(result.runs);
    return result;
  }

 private:
  /// The search for one schedule and number of chunks.
  struct Candidate {
    Candidate(Planner& of, const std::string& schedule, int chunks_of_rank, const std::string& woven)
        : planner(of),
          name(schedule),
          chunks(chunks_of_rank),
          weave(woven),
          plan(of.make_plan(schedule, chunks_of_rank, of.policies_.front(), woven)),
          lists(runtime::one_copy(plan.schedule)),
          even_counts(counts_of(plan)) {}

    /// The best layout with the same policy everywhere; within the limit if there is one and `bound` is set.
    runtime::LayerAssignment best(std::size_t policy, bool bound) {
      runtime::LayerAssignmentOptions options;
      options.fixed = planner.fixed(plan);
      if (bound && planner.search_.memory) {
        options.excess = [&](const std::vector<int>& counts) {
          double beyond = 0;
          for (const auto bytes : bytes_of({counts, std::vector(counts.size(), policy)})) beyond += planner.beyond(bytes);
          return beyond;
        };
      }
      return runtime::assign_layers(lists, planner.costs(policy), options);
    }

    /// The first policy for every rank that keeps it within the limit; nothing if there is none.
    std::optional<Stages> lifted(const std::vector<int>& counts) {
      Stages stages{counts, std::vector<std::size_t>(counts.size(), 0)};
      for (int rank = 0; rank < lists.placement.ranks(); ++rank) {
        while (planner.beyond(bytes_of(stages, rank)) > 0) {
          for (const auto stage : plan.schedule.placement.stages_of(runtime::RankId(rank)))
            if (++stages.policies[stage.index() % counts.size()] == planner.policies_.size()) return std::nullopt;
        }
      }
      return stages;
    }

    /// With transfers between replicas and the update, as priced() counts it.
    double step(const Stages& stages) {
      auto costs = prices(stages);
      add_transfers(stages, costs);
      const double transferred = runtime::simulate(lists, costs, false).transferred;
      costs.transfers.clear();
      return transferred + update_of(costs);
    }

    /// Moves one layer at a time from any stage to any other as long as the step becomes shorter.
    Stages improved(Stages stages) {
      double least = step(stages);
      for (bool better = true; better;) {
        better = false;
        for (std::size_t from = 0; from < stages.counts.size() && !better; ++from) {
          for (std::size_t to = 0; to < stages.counts.size() && !better && stages.counts[from] > 0; ++to) {
            if (from == to) continue;
            auto counts = stages.counts;
            --counts[from];
            ++counts[to];
            const auto other = lifted(counts);
            if (!other || step(*other) >= least / as_fast) continue;
            stages = *other;
            least = step(stages);
            better = true;
          }
        }
      }
      return stages;
    }

    /// The search for a layout does not know of transfers between replicas, nor of the update: with them another one may be faster, the
    /// even one to begin with.
    Stages with_transfers(const std::vector<int>& counts) {
      const auto alike = [](const std::vector<int>& of) { return Stages{of, std::vector<std::size_t>(of.size(), 0)}; };
      Stages found = alike(counts);
      const auto& links = planner.search_.links;
      if (plan.replicas() == 1 || (links.latency <= 0 && links.bytes_per_unit <= 0)) return found;
      double least = step(found);
      const auto take = [&](const std::vector<int>& other) {
        const auto stages = lifted(other);
        const double other_step = stages ? step(*stages) : least;
        if (other_step >= least / as_fast) return false;
        found = *stages;
        least = other_step;
        return true;
      };
      take(even_counts);
      // A border between two stages moves as long as that helps.
      for (bool better = true; better;) {
        better = false;
        for (std::size_t left = 0; left + 1 < found.counts.size(); ++left) {
          for (const int change : {1, -1}) {
            auto counts_then = found.counts;
            counts_then[left] += change;
            counts_then[left + 1] -= change;
            while (std::min(counts_then[left], counts_then[left + 1]) >= 0 && take(counts_then)) {
              better = true;
              counts_then[left] += change;
              counts_then[left + 1] -= change;
            }
          }
        }
      }
      return found;
    }

    PlannedRun priced(Stages stages) {
      stages.policies.resize(stages.counts.size(), 0);
      auto priced_with = prices(stages);
      const double alone = runtime::simulate(lists, priced_with, false).makespan;
      const std::uint64_t sent = add_transfers(stages, priced_with);
      const auto simulation = runtime::simulate(lists, priced_with, false);
      const auto measures = runtime::measure(lists, simulation);
      priced_with.transfers.clear();
      const double update = update_of(priced_with);
      PlannedRun run{name,
                     chunks,
                     weave,
                     planner.policies_[stages.policies.front()],
                     {},
                     layers::print_layout(planner.layout_of(stages.counts)),
                     simulation.transferred + update,
                     simulation.transferred - alone,
                     update,
                     sent,
                     measures.bubble,
                     measures.idle,
                     bytes_of(stages),
                     priced_with};
      run.parts = parts(stages);
      if (std::ranges::adjacent_find(stages.policies, std::not_equal_to()) != stages.policies.end())
        for (const auto policy : stages.policies) run.stages.push_back(fmt::format("{}", fmt::join(planner.policies_[policy], "+")));
      return run;
    }

    /// The update of the rank for which it takes longest. Replicas that divide it do it in parts.
    double update_of(const runtime::Costs& costs) const {
      double longest = 0;
      for (int rank = 0; rank < lists.placement.ranks(); ++rank) {
        double sum = 0;
        for (const runtime::StageId stage : lists.placement.stages_of(runtime::RankId(rank))) sum += costs.stages[stage.index()].update;
        longest = std::max(longest, sum);
      }
      if (plan.divides_update()) return longest / plan.replicas();
      // The time is that of all experts of a layer, of which a rank may have a part.
      double all = 0, own = 0;
      for (const layers::ParameterSpec& parameter : plan.parameters) {
        const auto elements = static_cast<double>(parameter.shape.elements());
        all += elements;
        own += parameter.experts.present() ? elements / plan.mesh.expert : elements;
      }
      return longest * own / all;
    }

    /// What each rank transfers with its replicas. Returns the bytes that the rank which sends most sends in a step.
    std::uint64_t add_transfers(const Stages& stages, runtime::Costs& costs) {
      if (plan.replicas() == 1) return 0;
      std::uint64_t most = 0;
      for (int rank = 0; rank < lists.placement.ranks(); ++rank) {
        const auto key = key_of(stages, rank);
        auto known = known_transfers.find(key);
        if (known == known_transfers.end()) {
          set_stages(stages);
          known =
              known_transfers.emplace(key, transfer_costs(plan, runtime::RankId(rank), planner.search_.needs, planner.search_.links)).first;
        }
        most = std::max(most, known->second.sent);
        costs.transfers.push_back(known->second.list);
      }
      return most;
    }

    runtime::LayerCosts parts(const Stages& stages) {
      runtime::LayerCosts parts{planner.costs(stages.policies.front()).embedding, {}, planner.costs(stages.policies.back()).head};
      for (std::size_t stage = 0; stage < stages.counts.size(); ++stage)
        for (int layer = 0; layer < stages.counts[stage]; ++layer)
          parts.layers.push_back(planner.costs(stages.policies[stage]).layers[parts.layers.size()]);
      return parts;
    }

    runtime::Costs prices(const Stages& stages) {
      auto prices = planner.fixed(plan);
      prices.stages = runtime::stage_costs(lists.placement, parts(stages), stages.counts);
      if (plan.mesh.expert > 1)
        for (int stage = 0; stage < lists.placement.stages(); ++stage) prices.exchanges.push_back(exchanges_of(stages, stage));
      return prices;
    }

    /// The exchanges of a stage's actions, equal for stages with the same layers and policy.
    const runtime::StageExchanges& exchanges_of(const Stages& stages, int stage) {
      const auto position = static_cast<std::size_t>(stage) % stages.counts.size();
      const layers::StageLayout own = planner.layout_of(stages.counts)[position];
      const std::vector<std::size_t> key{static_cast<std::size_t>(own.first_layer), static_cast<std::size_t>(own.layer_count),
                                         static_cast<std::size_t>(own.modules), position, stages.policies[position]};
      const auto known = known_exchanges.find(key);
      if (known != known_exchanges.end()) return known->second;
      set_stages(stages);
      const runtime::GroupLink link{plan.mesh.expert, planner.search_.links.latency, planner.search_.links.bytes_per_unit};
      return known_exchanges[key] = runtime::exchange_costs(plan.programs(runtime::StageId(stage)), link);
    }

    void set_stages(const Stages& stages) {
      actors::set_layout(plan, planner.layout_of(stages.counts));
      for (std::size_t stage = 0; stage < stages.policies.size(); ++stage)
        plan.rematerialize[stage] = planner.rematerialization(stages.policies[stage]);
    }

    std::vector<std::uint64_t> bytes_of(const Stages& stages) {
      std::vector<std::uint64_t> bytes;
      for (int rank = 0; rank < lists.placement.ranks(); ++rank) bytes.push_back(bytes_of(stages, rank));
      return bytes;
    }

    /// What memory and transfers of a rank depend on: it is slow to find them, and many layouts have the same stages on a rank.
    std::vector<std::size_t> key_of(const Stages& stages, int rank) const {
      const auto one = planner.layout_of(stages.counts);
      std::vector<std::size_t> key{static_cast<std::size_t>(rank)};
      for (const auto stage : plan.schedule.placement.stages_of(runtime::RankId(rank))) {
        const auto position = stage.index() % stages.counts.size();
        for (int layer = 0; layer < one[position].layer_count; ++layer)
          key.push_back(planner.alike_[static_cast<std::size_t>(one[position].first_layer + layer)]);
        key.push_back(planner.alike_.size() + static_cast<std::size_t>(one[position].modules));  // ends the list of layers
        key.push_back(stages.policies[position]);
      }
      return key;
    }

    /// The memory that the run would allocate on this rank.
    std::uint64_t bytes_of(const Stages& stages, int rank) {
      const auto key = key_of(stages, rank);
      const auto known = known_bytes.find(key);
      if (known != known_bytes.end()) return known->second;
      set_stages(stages);
      const actors::RankBlueprint blueprint(plan, runtime::RankId(rank), planner.search_.needs);
      return known_bytes[key] = blueprint.build(true)->memory_plan().total_bytes();
    }

    Planner& planner;
    std::string name;
    int chunks;
    std::string weave;
    actors::PipelinePlan plan;  // of all copies
    runtime::Schedule lists;    // of one: all take the same time
    std::vector<int> even_counts;
    std::map<std::vector<std::size_t>, std::uint64_t> known_bytes;
    std::map<std::vector<std::size_t>, RankTransfers> known_transfers;
    std::map<std::vector<std::size_t>, runtime::StageExchanges> known_exchanges;
  };

  [[nodiscard]] std::vector<layers::StageLayout> layout_of(const std::vector<int>& counts) const {
    return layers::layout_of_counts(layers::chain_of(search_.request.model), counts);
  }

  /// The values of pipeline.weave to choose from.
  [[nodiscard]] std::vector<std::string> weaves() const {
    const auto& request = search_.request;
    if (request.mesh.expert == 1) return {"off"};
    if (request.pipeline.weave != "auto") return {request.pipeline.weave};
    return {"off", "neighbours"};
  }

  actors::PipelinePlan make_plan(const std::string& schedule, int chunks, const Policy& policy, const std::string& weave) const {
    auto request = search_.request;
    request.pipeline.weave = weave;
    request.pipeline.schedule = schedule;
    request.pipeline.chunks = chunks;
    request.pipeline.layout.clear();
    request.pipeline.plan.clear();
    request.pipeline.warmup = -1;
    request.pipeline.group = 0;
    request.rematerialize = {policy, {}};
    return actors::make_plan(request);
  }

  const runtime::LayerCosts& costs(std::size_t policy) {
    const auto known = costs_.find(policy);
    if (known != costs_.end()) return known->second;
    auto request = search_.request;
    request.rematerialize = {policies_[policy], {}};
    return costs_.emplace(policy, search_.costs(request).parts).first->second;
  }

  const runtime::RematerializationPolicy& rematerialization(std::size_t policy) {
    const auto known = rematerializations_.find(policy);
    if (known != rematerializations_.end()) return known->second;
    return rematerializations_.emplace(policy, make_plan("1f1b", 1, policies_[policy], "off").rematerialize.front()).first->second;
  }

  runtime::Costs fixed(const actors::PipelinePlan& plan) const {
    runtime::Costs costs;
    costs.links = link_costs(plan, search_.links);
    return costs;
  }

  [[nodiscard]] double beyond(std::uint64_t bytes) const {
    return search_.memory && bytes > *search_.memory ? static_cast<double>(bytes - *search_.memory) : 0;
  }

  /// The best plan of one schedule; nothing if it exceeds the limit.
  std::optional<PlannedRun> best(const std::string& name, int chunks) {
    std::optional<PlannedRun> best;
    for (const std::string& weave : weaves())
      if (auto run = best_woven(name, chunks, weave); run && (!best || run->step < best->step / as_fast)) best = std::move(run);
    return best;
  }

  std::optional<PlannedRun> best_woven(const std::string& name, int chunks, const std::string& weave) {
    Candidate candidate(*this, name, chunks, weave);
    const auto same = candidate.best(0, true);
    if (same.excess == 0) return candidate.priced(candidate.with_transfers(same.counts));
    // First the fastest layout keeps fewer values where it must; if that is not enough, so does the layout that needs the least
    // memory.
    std::optional<Stages> found;
    for (const auto& counts : {candidate.best(0, false).counts, candidate.best(policies_.size() - 1, true).counts}) {
      auto stages = candidate.lifted(counts);
      if (!stages) continue;
      *stages = candidate.improved(*stages);
      if (!found || candidate.step(*stages) < candidate.step(*found)) found = stages;
    }
    if (!found) return std::nullopt;
    return candidate.priced(*found);
  }

  void add(const std::string& name, PlanResult& result) {
    const int usual = runtime::usual_chunks(name);
    std::string reason;
    bool found = false;
    for (int chunks = usual; chunks <= (usual == 1 ? 1 : max_chunks); ++chunks) {
      try {
        if (auto run = best(name, chunks)) {
          result.runs.push_back(std::move(*run));
          found = true;
        } else if (reason.empty()) {
          reason = "no layout fits the memory";
        }
      } catch (const Error& error) {
        if (error.code() != ExitCode::config) throw;
        if (reason.empty()) reason = std::string(without_component(error.what()));
      }
    }
    if (!found) result.others.push_back({name, reason});
  }

  static void prefer_less_memory(std::vector<PlannedRun>& runs) {
    const double limit = runs.front().step * as_fast;
    const auto slower = std::find_if(runs.begin(), runs.end(), [&](const auto& run) { return run.step > limit; });
    std::stable_sort(runs.begin(), slower, [](const auto& a, const auto& b) { return a.max_bytes() < b.max_bytes(); });
  }

  const PlanSearch& search_;
  std::vector<Policy> policies_;    // from the request's to those that keep fewer and fewer values
  std::vector<std::size_t> alike_;  // by layer: the first one with the same parts
  std::map<std::size_t, runtime::LayerCosts> costs_;
  std::map<std::size_t, runtime::RematerializationPolicy> rematerializations_;
};

}  // namespace

std::uint64_t PlannedRun::max_bytes() const { return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end()); }

std::string PlannedRun::policy_text() const { return fmt::format("{}", fmt::join(stages.empty() ? policy : stages, ",")); }

PlanResult search_plans(const PlanSearch& search) { return Planner(search).run(); }

}  // namespace millrace::actors
