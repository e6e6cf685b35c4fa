#include "runtime/profile/trace_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/base/mix.hpp"

namespace millrace::runtime {
namespace {

using OrderedJson = nlohmann::ordered_json;

enum Lane : int { compute, waits, optimizer, checkpoint, whole_step };
constexpr std::array lane_names = {"compute", "waits", "optimizer", "checkpoint", "step"};

/// Appends events as text: as a tree of nlohmann's a long trace would take ten times its size in memory.
class Tracer {
 public:
  explicit Tracer(const Profile& profile)
      : profile_(profile), measured_(profile.measured), schedule_(measured_.schedule), table_(schedule_) {}

  std::string write() {
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      name_rank(rank);
      for (const ProfiledStep& step : profile_.steps) write_step(rank, step);
      write_checkpoints(rank);
      write_memory(rank);
    }
    return fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n{}\n]}}\n", text(other_data()), events_);
  }

 private:
  static std::string text(const OrderedJson& json) { return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace); }
  void add(const OrderedJson& event) { events_ += (events_.empty() ? "" : ",\n") + text(event); }
  [[nodiscard]] double stamp(std::int64_t time) const { return static_cast<double>(time - profile_.origin()) / 1000.0; }

  [[nodiscard]] const ProcessClock& clock_of(std::size_t rank) const {
    return measured_.clocks.at(static_cast<std::size_t>(measured_.process_of_rank.at(rank)));
  }

  OrderedJson other_data() const {
    OrderedJson ranks = OrderedJson::array();
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      const auto& clock = clock_of(rank);
      ranks.push_back({{"pid", rank},
                       {"host", clock.host},
                       {"clock_offset_us", static_cast<double>(clock.offset) / 1000.0},
                       {"clock_bound_us", static_cast<double>(clock.bound) / 1000.0}});
    }
    return {{"format", "millrace.trace.1"}, {"run", measured_.run.kind}, {"schedule", schedule_.name}, {"ranks", ranks}};
  }

  void name_rank(std::size_t rank) {
    const auto& stages = schedule_.placement.stages_of(RankId(rank));
    const auto meta = [&](const char* what, int lane, const OrderedJson& args) {
      add({{"ph", "M"}, {"pid", rank}, {"tid", lane}, {"ts", 0}, {"name", what}, {"args", args}});
    };
    meta("process_name", 0, {{"name", fmt::format("rank {}", rank)}});
    meta("process_sort_index", 0, {{"sort_index", stages.empty() ? 0 : stages.front().value}});
    const auto& clock = clock_of(rank);
    meta("process_labels", 0,
         {{"labels", fmt::format("{}, process {}, clock {:+.3f} us within {:.3f} us", clock.host, clock.process,
                                 static_cast<double>(clock.offset) / 1000.0, static_cast<double>(clock.bound) / 1000.0)}});
    for (int lane = 0; lane < static_cast<int>(lane_names.size()); ++lane) {
      meta("thread_name", lane, {{"name", lane_names[static_cast<std::size_t>(lane)]}});
      meta("thread_sort_index", lane, {{"sort_index", lane}});
    }
  }

  OrderedJson event(const char* phase, std::size_t rank, int lane, std::int64_t time, std::string name) const {
    return {{"ph", phase}, {"pid", rank}, {"tid", lane}, {"ts", stamp(time)}, {"name", std::move(name)}};
  }
  OrderedJson slice(std::size_t rank, int lane, std::int64_t begin, std::int64_t end, std::string name) const {
    OrderedJson json = event("X", rank, lane, begin, std::move(name));
    json["dur"] = static_cast<double>(std::max<std::int64_t>(0, end - begin)) / 1000.0;
    return json;
  }

  void write_step(std::size_t rank, const ProfiledStep& step) {
    const auto& records = step.view.ranks[rank];
    std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = std::numeric_limits<std::int64_t>::min();
    for (const auto* lane : {&records.actions, &records.waits, &records.others}) {
      for (const TraceRecord& record : *lane) {
        begin = std::min(begin, record.begin);
        end = std::max(end, record.end);
      }
    }
    if (begin < end) {  // within the rank itself: other ranks' clocks may be off by their bounds
      OrderedJson json = slice(rank, whole_step, begin, end, fmt::format("step {}", step.view.step.value + 1));
      json["args"]["step"] = step.view.step.value + 1;
      for (std::size_t cause = 0; cause < cause_count; ++cause)
        json["args"][fmt::format("{} ms", to_string(static_cast<Cause>(cause)))] = milliseconds(step.ranks[rank].parts[cause]);
      add(json);
    }
    for (std::size_t index = 0; index < records.actions.size(); ++index) write_action(rank, step.view, index);
    for (const TraceRecord& wait : records.waits) write_wait(rank, step.view, wait);
    for (const ExchangeRecord& exchange : records.exchanges) write_exchange(rank, exchange);
    for (const TransferRecord& transfer : records.transfers) write_transfer(rank, transfer);
    for (const TraceRecord& other : records.others) {
      OrderedJson json = slice(rank, optimizer, other.begin, other.end, to_string(other.kind));
      json["args"] = {{"step", step.view.step.value + 1}};
      add(json);
    }
  }

  void write_action(std::size_t rank, const StepView& view, std::size_t index) {
    const Action& action = schedule_.ranks[rank][index];
    const auto& segments = view.ranks[rank].segments[index];
    for (const TraceRecord& record : segments) {  // those of two woven actions alternate
      OrderedJson json = slice(rank, compute, record.begin, record.end, to_string(action));
      json["cat"] = std::string(1, letter_of(action.kind));
      json["args"] = {{"step", view.step.value + 1}, {"stage", action.stage.value}, {"microbatch", action.microbatch.value}};
      if (segments.size() > 1) json["args"]["segment"] = record.segment;
      add(json);
    }
    const auto boundary = boundary_of(table_, view, action);
    if (!boundary || boundary->maker.rank == RankId(rank)) return;
    write_arrow(view, *boundary, rank, segments.front(), action);
  }

  /// An arrow is attached to the slice that encloses its time, so it starts one nanosecond before the producer's end.
  void write_arrow(const StepView& view, const ProducedBoundary& boundary, std::size_t rank, const TraceRecord& used,
                   const Action& action) {
    const auto& maker = view.ranks[boundary.maker.rank.index()].actions[static_cast<std::size_t>(boundary.maker.index)];
    const Action& made = schedule_.ranks[boundary.maker.rank.index()][static_cast<std::size_t>(boundary.maker.index)];
    const bool forward = action.kind == ActionKind::forward;
    const std::string name = forward ? "activation" : "gradient";
    OrderedJson out = event("s", boundary.maker.rank.index(), compute, std::max(maker.begin, maker.end - 1), name);
    OrderedJson in = event("f", rank, compute, used.begin, name);
    in["bp"] = "e";
    // A hash of (step, microbatch, hop, direction), reduced to 53 bits, which every JSON reader can represent.
    std::uint64_t id = splitmix(static_cast<std::uint64_t>(view.step.value));
    for (const int part : {action.microbatch.value, made.stage.value, forward ? 0 : 1})
      id = splitmix(id ^ static_cast<std::uint64_t>(part));
    for (OrderedJson* end : {&out, &in}) {
      (*end)["cat"] = "token";
      (*end)["id"] = id >> 11;
      (*end)["args"] = {{"step", view.step.value + 1}, {"microbatch", action.microbatch.value}, {"of", to_string(made)}};
    }
    add(out);
    add(in);
  }

  void write_wait(std::size_t rank, const StepView& view, const TraceRecord& wait) {
    std::string name = to_string(wait.reason);
    const auto made = waited_boundary(schedule_, table_, view, wait);
    if (made) {
      name = fmt::format("{} of {}", name, schedule_.ranks[made->maker.rank.index()][static_cast<std::size_t>(made->maker.index)]);
    }
    OrderedJson json = slice(rank, waits, wait.begin, wait.end, name);
    json["cat"] = "wait";
    json["args"] = {{"step", view.step.value + 1}, {"stage", wait.stage.value}, {"microbatch", wait.microbatch.value}};
    if (wait.peer != no_rank) json["args"]["peer"] = wait.peer.value;
    add(json);
    const std::int64_t produced = produced_within(schedule_, table_, view, wait);
    if (made && produced < wait.end) {
      OrderedJson way = slice(rank, waits, produced, wait.end, "under way");
      way["cat"] = "transfer";
      add(way);
    }
  }

  void write_exchange(std::size_t rank, const ExchangeRecord& exchange) {
    const std::string action = to_string(Action{exchange.stage, exchange.action, exchange.microbatch});
    write_asynchronous(rank, exchange, exchange_name(measured_.exchanging, exchange.stage, exchange.action, exchange.number).name,
                       "exchange", {{"action", action}});
  }

  void write_transfer(std::size_t rank, const TransferRecord& transfer) {
    const std::string name = fmt::format("{} stage {}{}", transfer.kind == TransferKind::reduction ? "reduce" : "gather", transfer.stage,
                                         transfer.experts != 0 ? " experts" : "");
    write_asynchronous(rank, transfer, name, "replicas", {{"bucket", transfer.bucket}});
  }

  /// Several may be under way at once, so they are asynchronous slices: a viewer gives those that overlap rows of their own.
  template <class Record>
  void write_asynchronous(std::size_t rank, const Record& record, const std::string& name, const char* category, OrderedJson more) {
    ++asynchronous_;
    for (const auto& [phase, time] : {std::pair("b", record.begin), std::pair("e", record.end)}) {
      OrderedJson json = event(phase, rank, waits, time, name);
      json["cat"] = category;
      json["id"] = asynchronous_;
      if (*phase == 'b') {
        more.update({{"step", record.step.value + 1}, {"bytes sent", record.bytes}});
        json["args"] = more;
      }
      add(json);
    }
  }

  void write_checkpoints(std::size_t rank) {
    for (const TraceRecord& record : measured_.traces[rank].checkpoint) {
      OrderedJson json = slice(rank, checkpoint, record.begin, record.end, to_string(record.kind));
      json["args"] = {{"step", record.step.value + 1}};
      add(json);
    }
  }

  void write_memory(std::size_t rank) {
    for (const ProfiledStep& step : profile_.steps) {
      const auto& records = step.view.ranks[rank].actions;
      int held = 0;
      for (std::size_t index = 0; index < records.size(); ++index) {
        const Action& action = schedule_.ranks[rank][index];
        if (action.kind == ActionKind::forward) counter(rank, records[index].begin, "microbatches held", "held", ++held);
        if (ends_microbatch(action.kind)) counter(rank, records[index].end, "microbatches held", "held", --held);
      }
      if (rank >= measured_.memory.size()) continue;
      for (const auto& [time, bytes] : memory_use(measured_.memory[rank], schedule_.ranks[rank], records).alive)
        counter(rank, time, "memory", "alive", bytes);
    }
  }

  void counter(std::size_t rank, std::int64_t time, const char* name, const char* series, std::int64_t value) {
    OrderedJson json = event("C", rank, 0, time, name);
    json["args"] = {{series, value}};
    add(json);
  }

  const Profile& profile_;
  const Measured& measured_;
  const Schedule& schedule_;
  const ActionTable table_;
  std::string events_;
  std::int64_t asynchronous_ = 0;  // slices written so far
};

}  // namespace

std::string trace_json(const Profile& profile) { return Tracer(profile).write(); }

}  // namespace millrace::runtime
