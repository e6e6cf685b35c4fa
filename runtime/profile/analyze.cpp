#include "runtime/profile/analyze.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/base/check.hpp"
#include "runtime/profile/lateness.hpp"
#include "runtime/profile/layout_cost.hpp"
#include "runtime/profile/prediction.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* analyze_component = "runtime.profile";

ProfiledStep step_of(const Measured& measured, std::size_t index) {
  ProfiledStep step;
  step.view = view_of(measured.schedule, measured.traces, measured.steps[index]);
  step.ranks = attribute(measured.schedule, step.view, measured.exchanging);
  for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
    const auto problem = problem_of(step.ranks[rank]);
    MILLRACE_CHECK(problem.empty(), ExitCode::internal, analyze_component, "step {} on rank {}: {}", measured.steps[index].value + 1, rank,
                   problem);
  }
  if (index < measured.losses.size()) step.loss = measured.losses[index];
  const double peak = measured.machine.job_peak_flops;
  if (peak > 0) step.mfu = measured.run.flops_per_step / (milliseconds(step.view.duration()) * 1e-3 * peak);
  return step;
}

/// The longest time that any rank is busy after the step's last action: gradient sums, optimizer, snapshot.
double tail_of(const StepView& view) {
  double longest = 0;
  for (const auto& rank : view.ranks) {
    double busy = 0;
    for (const TraceRecord& record : rank.others)
      busy += milliseconds(std::max<std::int64_t>(0, record.end - std::max(record.begin, view.lists_end)));
    longest = std::max(longest, busy);
  }
  return longest;
}

void predict(Profile& profile, const std::vector<StepView>& views) {
  const Measured& measured = profile.measured;
  const bool rehearsal = measured.run.kind == "rehearsal" && measured.planned.has_value();
  Prediction& prediction = profile.prediction;
  prediction.source = rehearsal ? "the given durations of the actions" : "the mean of each stage's measured actions";
  prediction.costs = rehearsal ? *measured.planned : mean_costs(measured.schedule, views, measured.exchanging);
  prediction.simulation = simulate(measured.schedule, prediction.costs);
  prediction.bubble = prediction.simulation.bubble() * prediction.simulation.makespan;
  double tails = 0;
  const auto count = static_cast<double>(profile.steps.size());
  for (ProfiledStep& step : profile.steps) {
    const double tail = tail_of(step.view);
    tails += tail / count;
    step.predicted = prediction.simulation.makespan + tail;
    prediction.measured_duration += milliseconds(step.view.duration()) / count;
    for (const Attribution& rank : step.ranks)
      prediction.measured_bubble += milliseconds(rank.idle()) / count / static_cast<double>(step.ranks.size());
  }
  prediction.duration = prediction.simulation.makespan + tails;
  if (!rehearsal && measured.planned) prediction.promised_duration = simulate(measured.schedule, *measured.planned, false).makespan + tails;
}

std::size_t median_step(const std::vector<ProfiledStep>& steps) {
  std::vector<std::size_t> order(steps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return steps[a].view.duration() < steps[b].view.duration(); });
  return order[(order.size() - 1) / 2];
}

}  // namespace

Profile analyze(Measured measured) {
  MILLRACE_CHECK(!measured.steps.empty(), ExitCode::internal, analyze_component, "no steps, expected 1 or more");
  Profile profile;
  profile.measured = std::move(measured);
  for (std::size_t index = 0; index < profile.measured.steps.size(); ++index) profile.steps.push_back(step_of(profile.measured, index));
  profile.shown = median_step(profile.steps);
  std::vector<StepView> views;
  for (const auto& step : profile.steps) views.push_back(step.view);
  predict(profile, views);
  profile.exchanges = exchange_times(profile.measured.exchanging, views);
  profile.transfers = transfer_times(views);
  profile.layout = layout_cost_of(profile);
  profile.lateness = lateness_of(profile.measured, profile.steps);
  const StepView& shown = profile.steps[profile.shown].view;
  for (std::size_t rank = 0; rank < profile.measured.memory.size(); ++rank)
    profile.memory.push_back(memory_use(profile.measured.memory[rank], profile.measured.schedule.ranks[rank], shown.ranks[rank].actions));
  return profile;
}

}  // namespace millrace::runtime
