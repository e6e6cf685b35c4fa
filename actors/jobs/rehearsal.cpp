#include "actors/jobs/rehearsal.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "actors/driver_actor.hpp"
#include "actors/rank/action_runner.hpp"
#include "kernels/base/count.hpp"
#include "runtime/engine/step_breakdown.hpp"
#include "runtime/io/hash.hpp"
#include "runtime/schedule/generators/split_backward.hpp"
#include "runtime/schedule/ledger.hpp"
#include "runtime/schedule/replicate.hpp"
#include "runtime/schedule/segment_list.hpp"
#include "runtime/schedule/weave_pairs.hpp"

namespace millrace::actors {
namespace {

constexpr const char* rehearsal_component = "actors.rehearsal";
constexpr std::int64_t sequence = 16, hidden = 16;  // of the model, which gives a boundary 1 KiB per row
constexpr int parts = 8;                            // of a rank's step in a Collected tensor: the waits, and its last end

std::chrono::nanoseconds nanoseconds_of(double milliseconds) { return std::chrono::nanoseconds(std::llround(milliseconds * 1e6)); }
double milliseconds_of(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-6; }

/// Tokens that are never read.
class NoTokens : public BatchProvider {
 public:
  void fill(std::int64_t, std::int64_t, const runtime::BatchView&) const override {}
  [[nodiscard]] std::int64_t valid_targets(std::int64_t) const override { return 1; }
  [[nodiscard]] std::int64_t evaluation_microbatches() const override { return 0; }
  void fill_evaluation(std::int64_t, const runtime::BatchView&) const override {}
  [[nodiscard]] std::int64_t evaluation_targets(std::int64_t) const override { return 0; }
};

/// The smallest model that fills the stages and has boundaries of the requested size.
PlanRequest request_of(const RehearsalSettings& settings) {
  const auto& placement = settings.schedule.placement;
  PlanRequest request;
  auto& model = request.model;
  model.vocab_size = model.hidden_size = model.intermediate_size = model.head_dim = hidden;
  model.heads = model.kv_heads = 1;
  model.layers = placement.model_stages();
  request.mesh.data = settings.members;
  request.train.accumulators = std::int64_t{settings.members} * placement.directions();
  request.pipeline.ranks = placement.ranks();
  request.pipeline.chunks = placement.model_stages() / placement.ranks();
  request.train.microbatches = std::int64_t{settings.members} * settings.schedule.microbatches;
  request.train.sequence = sequence;
  constexpr std::size_t row = sequence * hidden * sizeof(float);
  request.train.batch = static_cast<std::int64_t>(std::max<std::size_t>(1, (settings.bytes + row - 1) / row));
  request.train.steps = settings.steps + 1;
  return request;
}

/// The entries of the list of a rank of one copy.
std::vector<TimedEntry> entries_of(const RehearsalSettings& settings, runtime::RankId rank) {
  const runtime::Costs& costs = settings.costs;
  const auto& list = settings.schedule.ranks[rank.index()];
  std::vector<TimedEntry> entries;
  std::vector<std::size_t> posted(list.size());  // by action: exchanges so far
  for (const auto& segment : runtime::segment_list(list, runtime::shapes_of(costs.exchanges))) {
    const auto index = static_cast<std::size_t>(segment.action);
    const runtime::Action& action = list[index];
    const auto kind = static_cast<std::size_t>(action.kind);
    const auto* exchanges = costs.exchanges.empty() ? nullptr : &costs.exchanges[action.stage.index()];
    const double share = segment.segments == 1 ? 1 : exchanges->costs[kind].compute.at(static_cast<std::size_t>(segment.segment));
    double duration = share * costs.stages[action.stage.index()].of(action.kind) * costs.noise.factor(rank, action);
    for (const auto& stall : costs.noise.stalls)
      if (segment.begins_action() && stall.rank == rank && stall.index == segment.action) duration += stall.duration;
    TimedEntry& entry = entries.emplace_back();
    entry.duration = nanoseconds_of(duration);
    for (int post = 0; post < segment.posts; ++post) {
      const std::size_t exchange = posted[index]++;
      const double floats = exchanges->bytes[kind].at(exchange) / sizeof(float) / std::max(settings.members - 1, 1);
      entry.exchanges.push_back(
          {nanoseconds_of(exchanges->costs[kind].exchange.at(exchange)), static_cast<std::size_t>(std::ceil(floats))});
    }
  }
  return entries;
}

std::vector<SlowLink> links_of(const RehearsalSettings& settings) {
  std::vector<SlowLink> links;
  const auto& one = settings.schedule.placement;
  for (const runtime::LinkCost& link : runtime::replicate(settings.costs, one, settings.members).links)
    links.push_back({nanoseconds_of(link.latency), nanoseconds_of(link.occupancy())});
  return links;
}

/// Lets the copies of a plan exchange rows as the settings say, in place of the plan's programs, which exchange none.
void share_experts(PipelinePlan& plan, const RehearsalSettings& settings) {
  plan.mesh.expert = settings.members;
  plan.schedule = runtime::replicate(settings.schedule, settings.members);
  plan.ledger = runtime::replicate(runtime::make_ledger(settings.schedule), settings.schedule.placement, settings.members);
  const auto shapes = runtime::shapes_of(settings.costs.exchanges);
  for (int copy = 0; copy < settings.members; ++copy)
    plan.rehearsed_shapes.insert(plan.rehearsed_shapes.end(), shapes.begin(), shapes.end());
}

/// The kind of action that a span is of.
runtime::ActionKind kind_of(runtime::SpanKind span) {
  return *std::ranges::find(runtime::all_action_kinds, span, [](runtime::ActionKind kind) { return runtime::span_of(kind); });
}

// -- what a rank reports --------------------------------------------------------------------------------------------------

std::string step_name(std::int64_t step, const char* what) { return fmt::format("step {} {}", step, what); }

void add_wait(const runtime::TraceRecord& record, std::array<double, parts>& waits) {
  const auto [before, after] = runtime::split_wait(record.begin, record.end, record.produced);
  switch (record.reason) {
    case runtime::WaitReason::activation:
    case runtime::WaitReason::gradient:
      waits[record.reason == runtime::WaitReason::activation ? 1 : 2] += milliseconds_of(before);
      waits[3] += milliseconds_of(after);
      return;
    case runtime::WaitReason::credit:
      waits[4] += milliseconds_of(record.end - record.begin);
      return;
    case runtime::WaitReason::exchange:
      waits[5] += milliseconds_of(record.end - record.begin);
      return;
    default:
      waits[6] += milliseconds_of(record.end - record.begin);
  }
}

/// The rank's trace as tensors: two per step, namely times by cause, and begin, end and busy time of each action, in milliseconds, the
/// first two since the step's begin.
std::vector<CapturedTensor> times_of(Rank& rank) {
  const auto& list = rank.plan().schedule.ranks[rank.id().index()];
  const auto place_of = [](const runtime::Action& action) { return std::tuple(action.stage, action.kind, action.microbatch); };
  std::map<std::tuple<runtime::StageId, runtime::ActionKind, runtime::MicrobatchId>, std::size_t> places;
  for (std::size_t index = 0; index < list.size(); ++index) places[place_of(list[index])] = index;
  const auto records = rank.trace().snapshot();
  std::vector<CapturedTensor> tensors;
  for (const auto& step : records) {
    if (step.kind != runtime::SpanKind::step) continue;
    std::array<double, parts> waits{};  // busy, activation, gradient, link, slot, exchange, others, last end
    CapturedTensor actions;
    actions.name = step_name(step.step.value, "actions");
    actions.shape = {static_cast<std::int64_t>(list.size()), 3};
    actions.values.resize(3 * list.size());
    for (const auto& record : records) {
      if (record.step != step.step || record.kind == runtime::SpanKind::step || record.kind == runtime::SpanKind::optimizer) continue;
      if (record.kind == runtime::SpanKind::wait) {
        add_wait(record, waits);
        continue;
      }
      waits[0] += milliseconds_of(record.end - record.begin);
      waits[parts - 1] = std::max(waits[parts - 1], milliseconds_of(record.end - step.begin));
      float* values = &actions.values[3 * places.at({record.stage, kind_of(record.kind), record.microbatch})];
      if (record.segment == 0) values[0] = static_cast<float>(milliseconds_of(record.begin - step.begin));
      values[1] = static_cast<float>(milliseconds_of(record.end - step.begin));
      values[2] += static_cast<float>(milliseconds_of(record.end - record.begin));
    }
    tensors.push_back({step_name(step.step.value, "waits"), {parts}, {waits.begin(), waits.end()}});
    tensors.push_back(std::move(actions));
  }
  return tensors;
}

// -- the coordinator ------------------------------------------------------------------------------------------------------

/// Drives the steps, then collects the ranks' measurements.
class RehearsalActor : public DriverActor<RehearsalActor, std::vector<RehearsedStep>> {
 public:
  RehearsalActor(caf::actor_config& config, Setup setup, std::int64_t steps) : DriverActor(config, setup) {
    RehearsedStep step;
    step.ranks.resize(static_cast<std::size_t>(setup.ranks));
    steps_.assign(static_cast<std::size_t>(steps), step);
  }

  using DriverActor::handle;
  void handle(const RankReady&) {
    if (all()) begin_step();
  }
  void handle(const StepReport&) {
    if (!all()) return;
    steps_[step_].duration = milliseconds_of((std::chrono::steady_clock::now() - begin_).count());
    const auto step = static_cast<std::int64_t>(step_);
    broadcast(Optimize{step, step + 1, 1, 0});
  }
  void handle(const Optimized&) {
    if (!all()) return;
    if (++step_ < steps_.size()) return begin_step();
    broadcast(Collect{});
  }
  void handle(const Collected& collected) {
    if (!collected.last) return note(static_cast<std::size_t>(collected.rank), collected.tensor);
    if (all()) finish(std::move(steps_));
  }

 private:
  void begin_step() {
    begin_ = std::chrono::steady_clock::now();
    broadcast(RunStep{static_cast<std::int64_t>(step_)});
  }
  void note(std::size_t rank, const CapturedTensor& tensor) {
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      auto& rehearsed = steps_[step].ranks[rank];
      const auto& values = tensor.values;
      if (tensor.name == step_name(static_cast<std::int64_t>(step), "actions")) {
        for (std::size_t i = 0; i + 2 < values.size(); i += 3) {
          rehearsed.begin.push_back(values[i]);
          rehearsed.end.push_back(values[i + 1]);
          rehearsed.busy.push_back(values[i + 2]);
        }
      } else if (tensor.name == step_name(static_cast<std::int64_t>(step), "waits")) {
        auto& time = rehearsed.time;
        time.busy = values[0];
        time.activation = values[1];
        time.gradient = values[2];
        time.link = values[3];
        time.slot = values[4];
        time.exchange = values[5];
        time.launch = values[7] - std::accumulate(values.begin(), values.begin() + 6, 0.0);
        time.drain = steps_[step].duration - values[7];
      }
    }
  }

  std::size_t step_ = 0;
  std::chrono::steady_clock::time_point begin_;
  std::vector<RehearsedStep> steps_;
};

/// A text of the settings, compared between processes.
std::string text_of(const RehearsalSettings& settings) {
  std::string text = counted(settings.steps, "step");
  for (std::size_t rank = 0; rank < settings.schedule.ranks.size(); ++rank) {
    for (const auto& entry : entries_of(settings, runtime::RankId(rank))) {
      text += fmt::format(" {}", entry.duration.count());
      for (const auto& exchange : entry.exchanges) text += fmt::format("+{} for {}", exchange.time.count(), exchange.floats);
    }
  }
  for (const auto& link : links_of(settings)) text += fmt::format(" {} {}", link.latency.count(), link.occupancy.count());
  return text;
}

void check_traces(const RehearsalSettings& settings) {
  std::size_t longest = 0;
  for (const auto& list : settings.schedule.ranks)
    longest = std::max(longest, runtime::segment_list(list, runtime::shapes_of(settings.costs.exchanges)).size());
  const std::size_t records = (2 * longest + 4) * static_cast<std::size_t>(settings.steps + 1);  // a span and a wait per entry
  MILLRACE_CHECK(records <= runtime::TraceRing::default_capacity, ExitCode::usage, rehearsal_component,
                 "{} steps of {} actions or segments, expected {} steps at most: a rank's trace keeps {} records", settings.steps, longest,
                 runtime::TraceRing::default_capacity / (2 * longest + 4) - 1, runtime::TraceRing::default_capacity);
}

}  // namespace

runtime::Schedule as_run(const runtime::Schedule& schedule) { return runtime::without_pairs(runtime::with_one_kind_of_backward(schedule)); }

const RehearsedStep& Rehearsal::median() const {
  std::vector<std::size_t> order(steps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) { return steps[a].duration < steps[b].duration; });
  return steps.at(order.at((order.size() - 1) / 2));
}

const RehearsedStep& Rehearsal::fastest() const { return *std::ranges::min_element(steps, {}, &RehearsedStep::duration); }

std::optional<Rehearsal> rehearse(Session& session, const RehearsalSettings& settings) {
  check_traces(settings);
  const auto request = request_of(settings);
  auto plan = make_plan(request, settings.schedule);
  if (settings.members > 1) share_experts(plan, settings);
  Pipeline pipeline(session, plan, RankResources{});
  for (auto* rank : pipeline.ranks()) {
    const runtime::RankId alike(rank->id().value % settings.schedule.placement.ranks());
    rank->replace_runner(std::make_unique<TimedRunner>(entries_of(settings, alike), settings.members));
  }
  const NoTokens batches;
  std::promise<std::vector<RehearsedStep>> output;
  Pipeline::Start start;
  start.batches = &batches;
  start.steps = request.train.steps;
  start.captured = times_of;
  start.links = links_of(settings);
  start.coordinator = [&](std::function<void(const ToRank&)> to_ranks, const caf::actor&) {
    return pipeline.system().spawn<RehearsalActor>(RehearsalActor::Setup{plan.ranks(), std::move(to_ranks), &output}, request.train.steps);
  };
  session.control().agree({{"plan", runtime::hash_of(plan.text()).hex()}, {"costs", runtime::hash_of(text_of(settings)).hex()}});
  Rehearsal rehearsal{drive(session, pipeline, start, output)};
  if (settings.examine) settings.examine(pipeline);
  if (!session.leads()) return std::nullopt;
  rehearsal.steps.erase(rehearsal.steps.begin());
  for (RehearsedStep& step : rehearsal.steps) step.ranks.resize(settings.schedule.ranks.size());
  return rehearsal;
}

}  // namespace millrace::actors
