#include "actors/jobs/stage_replay.hpp"

#include <algorithm>
#include <chrono>
#include <span>

#include "actors/rank/rank.hpp"
#include "kernels/base/check.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::actors {
namespace {

using runtime::ActionKind;

std::vector<std::byte> copy(const std::byte* from, std::size_t bytes) {
  return from == nullptr ? std::vector<std::byte>() : std::vector<std::byte>(from, from + bytes);
}

std::string hash(const std::byte* data, std::size_t bytes) {
  return data == nullptr ? "" : runtime::hash_of(std::span<const std::byte>(data, bytes)).hex();
}

/// The boundaries of one stage: the types of their ports, and how they lie in slots.
struct Boundaries {
  explicit Boundaries(const runtime::ProgramSet& programs) : in(programs.types(programs.inputs)), out(programs.types(programs.outputs)) {}
  std::vector<runtime::ValueType> in, out;
  [[nodiscard]] runtime::SlotLayout boundary_in() const { return runtime::activation_slot(in); }
  [[nodiscard]] runtime::SlotLayout boundary_out() const { return runtime::activation_slot(out); }
  [[nodiscard]] runtime::SlotLayout gradient_in() const { return runtime::gradient_slot(out); }
  [[nodiscard]] runtime::SlotLayout gradient_out() const { return runtime::gradient_slot(in); }
};

Boundaries boundaries_of(const Rank& rank, runtime::StageId stage) { return Boundaries(rank.compute().stage(stage).programs()); }

/// The hash of the ports in a slot, one after the other, without what lies between them; empty if there is no slot.
std::string ports_hash(const std::byte* slot, const std::vector<runtime::ValueType>& types, bool gradients) {
  if (slot == nullptr) return "";
  const auto layout = gradients ? runtime::gradient_slot(types) : runtime::activation_slot(types);
  std::vector<std::byte> all;
  for (std::size_t port = 0; port < types.size(); ++port) {
    if (gradients && !runtime::has_gradient(types[port])) continue;
    const std::byte* begin = slot + layout.offsets[port];
    all.insert(all.end(), begin, begin + runtime::bytes_of(types[port]));
  }
  return hash(all.data(), all.size());
}

/// The hash of the action's output for another stage.
std::string output_hash(const Rank& rank, const Execute& execute) {
  const Boundaries boundaries = boundaries_of(rank, execute.action.stage);
  if (execute.action.kind == ActionKind::forward) return ports_hash(execute.slots.boundary_out, boundaries.out, false);
  return runtime::makes_gradient(execute.action.kind) ? ports_hash(execute.slots.gradient_out, boundaries.in, true) : "";
}

/// The memory that the exchange which a segment awaits has filled, from the first to the last.
std::vector<std::span<std::byte>> arrivals_of(const runtime::Stage& stage, const Execute& execute) {
  const auto awaits = stage.segments(execute.pass).at(static_cast<std::size_t>(execute.segment)).awaits;
  if (!awaits.valid()) return {};
  const auto& exchange = stage.programs().exchange(awaits);
  const auto receive = stage.tensor(execute.pass, exchange.receive, execute.slots);
  const std::int64_t rows = receive.shape[0];
  if (rows == 0) return {};
  const std::size_t row_bytes = receive.bytes() / static_cast<std::size_t>(rows);
  const auto stretch = [&](std::int64_t first, std::int64_t end) {
    return std::span(receive.data + static_cast<std::size_t>(first) * row_bytes, static_cast<std::size_t>(end - first) * row_bytes);
  };
  if (!exchange.receive_table.valid()) return {stretch(0, rows)};
  const auto table = stage.tensor(execute.pass, exchange.receive_table, execute.slots);
  const std::span entries(reinterpret_cast<const std::int32_t*>(table.data), static_cast<std::size_t>(table.shape.elements()));
  if (!runtime::has_ranges(table.shape)) return {stretch(entries.front(), entries.back())};
  std::vector<std::span<std::byte>> all;
  if (entries.front() < 0) return all;  // a round that no member needed
  for (std::size_t member = 0; member < entries.size(); member += 2) all.push_back(stretch(entries[member], entries[member + 1]));
  return all;
}

/// In place of other ranks, whose rows are recorded.
class NobodyListens final : public runtime::ExchangePort {
 public:
  void post(const runtime::ExchangePost&) override {}
};

bool begins(const Execute& execute) { return execute.segment == 0; }
bool ends(const Execute& execute) { return execute.segment + 1 == execute.segments; }

std::string gradient_hash(const Rank& rank, runtime::StageId stage) {
  std::string text;
  for (const auto& set : rank.compute().stage(stage).shard().accumulators())
    for (const auto& sum : set) text += hash(sum.data, sum.bytes());
  return runtime::hash_of(std::as_bytes(std::span(text))).hex();
}

}  // namespace

void RecordingRunner::run(Rank& rank, runtime::Stage& stage, const Execute& execute) {
  if (execute.action.stage != recording_.stage) return ProgramRunner::run(rank, stage, execute);
  const Boundaries boundaries = boundaries_of(rank, recording_.stage);
  StageCall call;
  call.execute = execute;
  for (const auto& stretch : arrivals_of(stage, execute)) call.arrivals.insert(call.arrivals.end(), stretch.begin(), stretch.end());
  if (execute.action.kind == ActionKind::forward && begins(execute)) {
    call.boundary_in = copy(execute.slots.boundary_in, boundaries.boundary_in().bytes);
    call.batch = runtime::Batch(rank.compute().batch(execute.slots.batch));
  }
  if (runtime::makes_gradient(execute.action.kind) && begins(execute))
    call.gradient_in = copy(execute.slots.gradient_in, boundaries.gradient_in().bytes);
  ProgramRunner::run(rank, stage, execute);
  if (ends(execute)) {
    call.output = output_hash(rank, execute);
    recording_.gradients = gradient_hash(rank, recording_.stage);
  }
  recording_.calls.push_back(std::move(call));
}

ReplayedRound replay(Rank& rank, const StageRecording& recording) {
  const Boundaries boundaries = boundaries_of(rank, recording.stage);
  auto& stage = rank.compute().stage(recording.stage);
  // By action, of those that are under way: two of them where a list weaves.
  std::map<std::string, std::vector<std::byte>> outputs;
  // By microbatch: a backward reads the inputs of its forward again, and W those of its I.
  std::map<int, const StageCall*> forwards, gradients;
  ReplayedRound round;
  NobodyListens port;
  stage.shard().zero_accumulators(rank.context());
  for (const auto& call : recording.calls) {
    auto execute = call.execute;
    auto& slots = execute.slots;
    const int microbatch = execute.action.microbatch.value;
    if (execute.action.kind == ActionKind::forward && begins(execute)) forwards[microbatch] = &call;
    if (runtime::makes_gradient(execute.action.kind) && begins(execute)) gradients[microbatch] = &call;
    const auto* forward = forwards.at(microbatch);
    runtime::copy_batch(forward->batch, rank.compute().batch(slots.batch));
    // Programs read these only; the executor's bases are not const.
    slots.boundary_in = forward->boundary_in.empty() ? nullptr : const_cast<std::byte*>(forward->boundary_in.data());
    const auto gradient = gradients.find(microbatch);
    slots.gradient_in = gradient == gradients.end() || gradient->second->gradient_in.empty()
                            ? nullptr
                            : const_cast<std::byte*>(gradient->second->gradient_in.data());
    auto& output = outputs[runtime::to_string(execute.action)];
    output.resize(std::max(boundaries.boundary_out().bytes, boundaries.gradient_out().bytes));
    if (slots.boundary_out != nullptr) slots.boundary_out = output.data();
    if (slots.gradient_out != nullptr) slots.gradient_out = output.data();
    auto arrived = call.arrivals.begin();
    for (const auto& stretch : arrivals_of(stage, execute)) {
      std::copy_n(arrived, stretch.size(), stretch.begin());
      arrived += static_cast<std::ptrdiff_t>(stretch.size());
    }
    const auto begin = std::chrono::steady_clock::now();
    if (execute.segments == 1) {
      stage.run(execute.pass, rank.context(), slots, rank.hook());
    } else {
      stage.run_segment(execute.pass, static_cast<std::size_t>(execute.segment), rank.context(), slots, rank.hook(), &port);
    }
    round.milliseconds.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    round.outputs.push_back(ends(execute) ? output_hash(rank, execute) : "");
    if (ends(execute)) outputs.erase(runtime::to_string(execute.action));
  }
  round.gradients = gradient_hash(rank, recording.stage);
  return round;
}

}  // namespace millrace::actors
