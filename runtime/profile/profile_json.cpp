#include "runtime/profile/profile_json.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace millrace::runtime {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// Rounds to the nanosecond: further digits carry no information and double the file's size.
double rounded(double value) { return std::round(value * 1e6) / 1e6; }

OrderedJson number_or_null(double value) { return value > 0 ? OrderedJson(value) : OrderedJson(nullptr); }

std::string letter_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::forward:
      return "F";
    case SpanKind::input_gradient:
      return "I";
    case SpanKind::weight_gradient:
      return "W";
    case SpanKind::backward:
      return "B";
    case SpanKind::snapshot:
      return "S";
    default:
      return "O";
  }
}

class Writer {
 public:
  explicit Writer(const Profile& profile) : profile_(profile), measured_(profile.measured), table_(measured_.schedule) {}

  OrderedJson write() const {
    OrderedJson json;
    json["format"] = "millrace.profile.1";
    json["run"] = run();
    const auto& machine = measured_.machine;
    json["machine"] = {{"peak_flops", number_or_null(machine.peak_flops)}, {"memory_bandwidth", number_or_null(machine.memory_bandwidth)}};
    json["clocks"] = clocks();
    json["ranks"] = ranks();
    for (std::size_t cause = 0; cause < cause_count; ++cause) json["causes"].push_back(to_string(static_cast<Cause>(cause)));
    json["steps"] = steps();
    json["timeline"] = timeline();
    if (profile_.layout) json["layout_cost"] = layout_cost(*profile_.layout);
    json["lateness"] = lateness();
    json["prediction"] = prediction();
    json["operations"] = operations();
    if (!measured_.experts.empty()) json["experts"] = experts();
    if (!profile_.exchanges.empty()) json["exchanges"] = exchanges();
    if (!profile_.transfers.empty()) json["transfers"] = transfers();
    json["memory"] = memory();
    if (!measured_.device_actions.empty()) json["device"] = device();
    json["loss"] = losses();
    return json;
  }

 private:
  /// A time as milliseconds since the profile's origin.
  [[nodiscard]] double at(std::int64_t time) const { return rounded(milliseconds(time - profile_.origin())); }

  OrderedJson run() const {
    const auto& run = measured_.run;
    const auto& schedule = measured_.schedule;
    return {{"model", run.model},
            {"parameters", run.parameters},
            {"dtype", run.dtype},
            {"schedule", schedule.name},
            {"ranks", schedule.ranks.size()},
            {"processes", run.processes},
            {"stages", schedule.placement.stages()},
            {"microbatches", schedule.microbatches},
            {"layout", run.layout},
            {"threads", run.threads},
            {"tokens_per_step", run.tokens_per_step},
            {"flops_per_step", run.flops_per_step},
            {"build", run.build},
            {"kind", run.kind}};
  }

  OrderedJson clocks() const {
    OrderedJson json = OrderedJson::array();
    for (const auto& clock : measured_.clocks)
      json.push_back({{"process", clock.process},
                      {"host", clock.host},
                      {"offset_ms", milliseconds(clock.offset)},
                      {"bound_ms", milliseconds(clock.bound)},
                      {"shared", clock.shared},
                      {"measured_ms", milliseconds(clock.measured)},
                      {"round_trip_ms", milliseconds(clock.round_trip)},
                      {"pings", clock.pings}});
    return json;
  }

  OrderedJson ranks() const {
    OrderedJson json = OrderedJson::array();
    for (std::size_t rank = 0; rank < measured_.schedule.ranks.size(); ++rank) {
      OrderedJson stages = OrderedJson::array();
      for (const StageId stage : measured_.schedule.placement.stages_of(RankId(rank))) stages.push_back(stage.value);
      json.push_back({{"rank", rank}, {"process", measured_.process_of_rank.at(rank)}, {"stages", stages}});
    }
    return json;
  }

  OrderedJson steps() const {
    OrderedJson json = OrderedJson::array();
    for (const ProfiledStep& step : profile_.steps) {
      OrderedJson ranks = OrderedJson::array(), walls = OrderedJson::array();
      for (const Attribution& rank : step.ranks) {
        OrderedJson parts = OrderedJson::array();
        for (const std::int64_t part : rank.parts) parts.push_back(milliseconds(part));
        ranks.push_back(parts);
        walls.push_back(milliseconds(rank.wall));
      }
      json.push_back({{"step", step.view.step.value + 1},
                      {"begin", at(step.view.begin)},
                      {"duration", milliseconds(step.view.duration())},
                      {"loss", step.loss ? OrderedJson(*step.loss) : OrderedJson(nullptr)},
                      {"mfu", number_or_null(step.mfu)},
                      {"predicted", rounded(step.predicted)},
                      {"ranks", ranks},
                      {"wall", walls}});
    }
    return json;
  }

  OrderedJson slice(const TraceRecord& record) const {
    return {letter_of(record.kind), record.stage.value, record.microbatch.value, at(record.begin), at(record.end)};
  }

  OrderedJson timeline() const {
    const ProfiledStep& step = profile_.steps[profile_.shown];
    OrderedJson measured = OrderedJson::array(), waits = OrderedJson::array();
    for (const auto& rank : step.view.ranks) {
      OrderedJson slices = OrderedJson::array(), lane = OrderedJson::array();
      for (const auto& record : rank.actions) slices.push_back(slice(record));
      for (const auto& record : rank.others) slices.push_back(slice(record));
      for (const auto& record : rank.waits) lane.push_back(wait(step.view, record));
      measured.push_back(slices);
      waits.push_back(lane);
    }
    return {{"step", step.view.step.value + 1},
            {"begin", at(step.view.begin)},
            {"duration", milliseconds(step.view.duration())},
            {"predicted", rounded(step.predicted)},
            {"measured", measured},
            {"planned", planned(at(step.view.begin))},
            {"waits", waits},
            {"sends", sends(step.view)}};
  }

  OrderedJson planned(double begin) const {
    const Simulation& simulation = profile_.prediction.simulation;
    OrderedJson json = OrderedJson::array();
    for (std::size_t rank = 0; rank < measured_.schedule.ranks.size(); ++rank) {
      OrderedJson slices = OrderedJson::array();
      for (std::size_t index = 0; index < measured_.schedule.ranks[rank].size(); ++index) {
        const Action& action = measured_.schedule.ranks[rank][index];
        const std::size_t place = simulation.first[rank] + index;
        slices.push_back({std::string(1, letter_of(action.kind)), action.stage.value, action.microbatch.value,
                          rounded(begin + simulation.begin[place]), rounded(begin + simulation.end[place])});
      }
      json.push_back(slices);
    }
    return json;
  }

  OrderedJson wait(const StepView& view, const TraceRecord& record) const {
    const auto made = waited_boundary(measured_.schedule, table_, view, record);
    return {to_string(record.reason),
            record.stage.value,
            record.microbatch.value,
            at(record.begin),
            at(record.end),
            record.peer.value,
            made ? OrderedJson(at(made->produced)) : OrderedJson(nullptr)};
  }

  OrderedJson sends(const StepView& view) const {
    OrderedJson json = OrderedJson::array();
    const auto& schedule = measured_.schedule;
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      for (std::size_t index = 0; index < schedule.ranks[rank].size(); ++index) {
        const Action& action = schedule.ranks[rank][index];
        const auto boundary = boundary_of(table_, view, action);
        if (!boundary || boundary->maker.rank == RankId(rank)) continue;
        const Action& maker = schedule.ranks[boundary->maker.rank.index()][static_cast<std::size_t>(boundary->maker.index)];
        json.push_back({boundary->maker.rank.value, rank, action.kind == ActionKind::forward ? "F" : "B", action.microbatch.value,
                        maker.stage.value, at(boundary->produced), at(view.ranks[rank].actions[index].begin)});
      }
    }
    return json;
  }

  OrderedJson layout_cost(const LayoutCost& layout) const {
    OrderedJson json = {{"cost", rounded(layout.cost)}, {"ranks", OrderedJson::array()}, {"text", layout_cost_text(profile_)}};
    for (const auto& rank : layout.heavy) {
      OrderedJson stages = OrderedJson::array();
      for (const StageId stage : rank.stages) stages.push_back(stage.value);
      json["ranks"].push_back(
          {{"rank", rank.rank.value}, {"stages", stages}, {"time", rounded(rank.time)}, {"relative", rounded(rank.relative)}});
    }
    if (layout.better)
      json["better"] = {{"layout", layout.better->layout}, {"now", rounded(layout.better->now)}, {"step", rounded(layout.better->step)}};
    return json;
  }

  OrderedJson lateness() const {
    OrderedJson json = OrderedJson::array();
    for (const Lateness& late : profile_.lateness)
      json.push_back({{"cost", rounded(late.cost)},
                      {"what", late.what},
                      {"rank", late.rank.value},
                      {"stage", late.stage == no_stage ? OrderedJson(nullptr) : OrderedJson(late.stage.value)}});
    return json;
  }

  OrderedJson prediction() const {
    const auto& prediction = profile_.prediction;
    OrderedJson json = {{"source", prediction.source},
                        {"duration", rounded(prediction.duration)},
                        {"bubble", rounded(prediction.bubble)},
                        {"measured_duration", rounded(prediction.measured_duration)},
                        {"measured_bubble", rounded(prediction.measured_bubble)}};
    if (prediction.promised_duration) json["promised_duration"] = rounded(*prediction.promised_duration);
    return json;
  }

  OrderedJson operations() const {
    OrderedJson json = OrderedJson::array();
    for (const auto& operation : measured_.operations)
      json.push_back({{"stage", operation.stage.value},
                      {"layer", operation.layer},
                      {"name", operation.name},
                      {"kind", operation.kind},
                      {"pass", std::string(1, operation.pass)},
                      {"count", operation.count},
                      {"ms", milliseconds(operation.nanoseconds)},
                      {"flops", operation.flops},
                      {"bytes", operation.bytes}});
    return json;
  }

  /// The routers, over all profiled steps.
  OrderedJson experts() const {
    OrderedJson json = OrderedJson::array();
    for (const auto& load : measured_.experts)
      json.push_back({{"name", load.scope},
                      {"layer", load.layer},
                      {"tokens", load.counts},
                      {"entropy", load.entropy()},
                      {"evenness", load.evenness()},
                      {"hottest", load.hottest()},
                      {"hottest_share", load.hottest_share()},
                      {"dropped", load.dropped},
                      {"more_rounds", load.more_rounds}});
    return json;
  }

  /// The exchanges, over all profiled steps and ranks.
  OrderedJson exchanges() const {
    OrderedJson json = OrderedJson::array();
    for (const auto& exchange : profile_.exchanges)
      json.push_back({{"layer", exchange.layer},
                      {"name", exchange.name},
                      {"pass", std::string(1, exchange.pass)},
                      {"count", exchange.count},
                      {"bytes", exchange.bytes},
                      {"under_way_ms", milliseconds(exchange.under_way)},
                      {"late_ms", milliseconds(exchange.late)},
                      {"exposed_ms", milliseconds(exchange.exposed)},
                      {"hidden", exchange.hidden()}});
    return json;
  }

  /// The transfers between replicas, over all profiled steps and ranks.
  OrderedJson transfers() const {
    OrderedJson json = OrderedJson::array();
    for (const auto& transfer : profile_.transfers)
      json.push_back({{"stage", transfer.stage.value},
                      {"kind", transfer.kind == TransferKind::reduction ? "reduction" : "gather"},
                      {"experts", transfer.experts},
                      {"count", transfer.count},
                      {"bytes", transfer.bytes},
                      {"under_way_ms", milliseconds(transfer.under_way)}});
    return json;
  }

  OrderedJson memory() const {
    OrderedJson json = OrderedJson::array();
    for (std::size_t rank = 0; rank < profile_.memory.size(); ++rank) {
      const auto& planned = measured_.memory[rank];
      const auto& use = profile_.memory[rank];
      OrderedJson timeline = OrderedJson::array();
      for (const auto& [time, bytes] : use.alive) timeline.push_back({at(time), bytes});
      json.push_back({{"rank", rank},
                      {"planned_bytes", planned.planned},
                      {"resident_bytes", planned.resident},
                      {"sections", named(planned.sections)},
                      {"peak_bytes", use.peak},
                      {"peak_time", at(use.peak_time)},
                      {"timeline", timeline},
                      {"at_peak", named(use.at_peak)}});
      if (planned.on_device < 0) continue;
      json.back()["device"] = planned.on_device;
      json.back()["device_planned_bytes"] = planned.device_planned;
      json.back()["device_bytes"] = planned.device;
    }
    return json;
  }

  /// The section about GPUs, over all profiled steps.
  OrderedJson device() const {
    OrderedJson actions = OrderedJson::array(), gaps = OrderedJson::array();
    for (const auto& action : measured_.device_actions)
      actions.push_back({{"stage", action.stage.value},
                         {"pass", std::string(1, action.pass)},
                         {"count", action.count},
                         {"device_ms", milliseconds(action.device)},
                         {"host_ms", milliseconds(action.host)}});
    for (const std::int64_t gap : measured_.launch_gaps) gaps.push_back(milliseconds(gap));
    return {{"actions", actions}, {"launch_gaps_ms", gaps}};
  }

  static OrderedJson named(const std::vector<NamedBytes>& parts) {
    OrderedJson json = OrderedJson::array();
    for (const auto& [name, bytes] : parts) json.push_back({name, bytes});
    return json;
  }

  OrderedJson losses() const {
    OrderedJson json = OrderedJson::array();
    for (const ProfiledStep& step : profile_.steps)
      if (step.loss) json.push_back({step.view.step.value + 1, *step.loss});
    return json;
  }

  const Profile& profile_;
  const Measured& measured_;
  const ActionTable table_;
};

}  // namespace

std::string profile_json(const Profile& profile) {
  return Writer(profile).write().dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace millrace::runtime
