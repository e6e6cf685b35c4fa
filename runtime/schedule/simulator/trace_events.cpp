#include "runtime/schedule/simulator/trace_events.hpp"

#include <nlohmann/json.hpp>

#include "kernels/base/check.hpp"
#include "runtime/schedule/causality.hpp"
#include "runtime/schedule/simulator/memory_curve.hpp"
#include "runtime/schedule/wiring.hpp"

namespace millrace::runtime {
namespace {

using Json = nlohmann::ordered_json;

constexpr int compute_thread = 0, wait_thread = 1;
constexpr double microseconds = 1000;  // per unit of the costs

/// Appends events as text: as a tree of nlohmann's a long trace would take ten times its size in memory.
class Tracer {
 public:
  Tracer(const Schedule& schedule, const Costs& costs, const Simulation& simulation)
      : schedule_(schedule), costs_(costs), simulation_(simulation), table_(schedule) {
    MILLRACE_CHECK(simulation.bindings.size() == simulation.actions(), ExitCode::internal, "runtime.schedule",
                   "a simulation without trace, expected simulate(schedule, costs, true)");
  }

  std::string write() {
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      name_rank(rank);
      write_list(rank);
      write_memory(rank);
    }
    write_transfers();
    return fmt::format("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n", events_);
  }

 private:
  void add(const Json& event) { events_ += (events_.empty() ? "" : ",\n") + event.dump(-1, ' ', false, Json::error_handler_t::replace); }

  static double stamp(double time) { return time * microseconds; }
  Json event(const char* phase, std::size_t rank, int thread, double time) const {
    return {{"ph", phase}, {"pid", rank}, {"tid", thread}, {"ts", stamp(time)}};
  }

  const Action& action(std::size_t at) const {
    const std::size_t rank = simulation_.rank_of(at).index();
    return schedule_.ranks[rank][at - simulation_.first[rank]];
  }

  void name_rank(std::size_t rank) {
    const auto name = [&](const char* what, int thread, const std::string& text) {
      add({{"ph", "M"}, {"pid", rank}, {"tid", thread}, {"name", what}, {"args", {{"name", text}}}});
    };
    name("process_name", compute_thread, fmt::format("rank {}", rank));
    add({{"ph", "M"}, {"pid", rank}, {"tid", 0}, {"name", "process_sort_index"}, {"args", {{"sort_index", rank}}}});
    name("thread_name", compute_thread, "compute");
    name("thread_name", wait_thread, "waits");
  }

  void write_list(std::size_t rank) {
    const auto& list = schedule_.ranks[rank];
    double free = 0;
    for (std::size_t index = 0; index < list.size(); ++index) {
      const std::size_t at = simulation_.first[rank] + index;
      const bool pair = list[index].overlaps_next && index + 1 < list.size();
      if (simulation_.begin[at] > free) write_wait(rank, at, free);
      write_slice(rank, at, pair);
      write_arrow(rank, at);
      if (pair) write_arrow(rank, simulation_.first[rank] + ++index);
      free = simulation_.end[at];
    }
  }

  void write_slice(std::size_t rank, std::size_t at, bool pair) {
    Json slice = event("X", rank, compute_thread, simulation_.begin[at]);
    slice["dur"] = stamp(simulation_.end[at] - simulation_.begin[at]);
    const Action& first = action(at);
    slice["name"] = pair ? fmt::format("({};{})", first, action(at + 1)) : to_string(first);
    slice["cat"] = pair ? std::string("pair") : std::string(1, letter_of(first.kind));
    slice["args"] = {
        {"stage", first.stage.value}, {"chunk", schedule_.placement.chunk_of(first.stage)}, {"microbatch", first.microbatch.value}};
    add(slice);
  }

  void write_wait(std::size_t rank, std::size_t at, double since) {
    Json slice = event("X", rank, wait_thread, since);
    slice["dur"] = stamp(simulation_.begin[at] - since);
    slice["name"] = cause(simulation_.bindings[at]);
    slice["cat"] = "wait";
    slice["args"] = {{"before", to_string(action(at))}};
    add(slice);
  }

  std::string cause(const Binding& binding) const {
    const auto source = [&] { return to_string(action(binding.source)); };
    switch (binding.bound) {
      case Bound::activation:
        return "activation of " + source();
      case Bound::gradient:
        return "gradient of " + source();
      case Bound::slot:
        return "slot that " + source() + " frees";
      default:
        return "launch";
    }
  }

  // Draws an arrow from the producer of the action's input. An arrow is attached to the slice that encloses its time, so it does
  // not start at the producer's very end.
  void write_arrow(std::size_t rank, std::size_t at) {
    const auto source = table_.boundary_source(action(at));
    if (!source) return;
    const std::size_t maker = simulation_.at(source->rank, source->index);
    Json out = event("s", source->rank.index(), compute_thread,
                     simulation_.begin[maker] + 0.96875 * (simulation_.end[maker] - simulation_.begin[maker]));
    Json in = event("f", rank, compute_thread, simulation_.begin[at]);
    in["bp"] = "e";
    for (Json* end : {&out, &in}) {
      (*end)["id"] = arrows_;
      (*end)["name"] = "token";
      (*end)["cat"] = "token";
    }
    ++arrows_;
    add(out);
    add(in);
  }

  void write_memory(std::size_t rank) {
    for (const MemoryStep& step : memory_curve(schedule_, simulation_, RankId{rank})) {
      Json counter = event("C", rank, compute_thread, step.time);
      counter["name"] = "microbatches held";
      counter["args"] = {{"held", step.held}};
      add(counter);
    }
  }

  // Transfers as the simulator has them: the boundaries of an edge are sent one after another.
  void write_transfers() {
    if (costs_.links.empty()) return;
    const Wiring wiring(schedule_);
    std::vector<double> free(wiring.edges.size(), 0);
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      for (std::size_t index = 0; index < schedule_.ranks[rank].size(); ++index) {
        const Action& maker = schedule_.ranks[rank][index];
        const std::int32_t out = wiring.output(maker);
        if (out < 0 || wiring.edges[static_cast<std::size_t>(out)].local()) continue;
        const LinkCost& link = costs_.links[static_cast<std::size_t>(out)];
        const double made = simulation_.end[simulation_.first[rank] + index];
        double& carried = free[static_cast<std::size_t>(out)];
        carried = std::max(carried, made) + link.occupancy();
        if (carried + link.latency > made) write_transfer(wiring.edges[static_cast<std::size_t>(out)], maker, made, carried + link.latency);
      }
    }
  }

  void write_transfer(const Edge& edge, const Action& maker, double begin, double end) {
    for (const bool first : {true, false}) {
      Json half = event(first ? "b" : "e", edge.producer_rank.index(), compute_thread, first ? begin : end);
      half["id"] = fmt::format("transfer {}", transfers_);
      half["name"] = fmt::format("{} to rank {}", to_string(edge.kind), edge.consumer_rank);
      half["cat"] = "transfer";
      if (first) half["args"] = {{"of", to_string(maker)}};
      add(half);
    }
    ++transfers_;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  const Simulation& simulation_;
  const ActionTable table_;
  int arrows_ = 0, transfers_ = 0;
  std::string events_;
};

}  // namespace

std::string trace_events(const Schedule& schedule, const Costs& costs, const Simulation& simulation) {
  return Tracer(schedule, costs, simulation).write();
}

}  // namespace millrace::runtime
