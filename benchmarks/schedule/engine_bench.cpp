// The time of an event of the engine, on one core:
//   build/release/benchmarks/schedule/engine_bench [repetitions=2000] [--check]
// The engines of all ranks run a list together, without workers and messages, and the events of each are recorded; then a rank's events
// are given to fresh engines again and again. The output has, for the rank with the most edges that end at it: the number of these, the
// events of a list, and nanoseconds of wall time per event, decisions included, as median and 90th percentile over the repetitions. With
// `--check` it exits with 1 if the median is above 1 us.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "runtime/engine/rank_engine.hpp"
#include "runtime/schedule/ledger.hpp"
#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {
namespace {

struct Event {
  enum class Kind : std::uint8_t { start, boundary, credit, batch, finished };
  Kind kind = Kind::start;
  EdgeId edge = no_edge;
  std::int64_t sequence = 0;  // of a boundary or credit
  MicrobatchId microbatch{0};
  Action action;
};

const Decisions& give(RankEngine& engine, const RankPlan& plan, const Event& event) {
  switch (event.kind) {
    case Event::Kind::start:
      return engine.start(plan, StepId{0});
    case Event::Kind::boundary:
      return engine.boundary_arrived(event.edge, event.sequence);
    case Event::Kind::credit:
      return engine.credit_returned(event.edge, event.sequence);
    case Event::Kind::batch:
      return engine.batch_ready(event.microbatch);
    case Event::Kind::finished:
      break;
  }
  return engine.entry_finished(event.action);
}

/// All ranks, each with its queue of events that have not been given to its engine.
class Engines {
 public:
  explicit Engines(const Schedule& schedule) : edges_(edges_of(schedule.placement)), ledger_(make_ledger(schedule)) {
    const auto ranks = static_cast<std::size_t>(schedule.placement.ranks());
    for (std::size_t rank = 0; rank < ranks; ++rank) plans_.push_back(make_rank_plan(schedule, RankId{rank}, ledger_.stages));
    for (std::size_t rank = 0; rank < ranks; ++rank) engines_.push_back(engine(rank));
    queues_.resize(ranks);
    events_.resize(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      queues_[rank].push_back({.kind = Event::Kind::start});
      for (int m = 0; m < schedule.microbatches; ++m) queues_[rank].push_back({.kind = Event::Kind::batch, .microbatch = MicrobatchId{m}});
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks; ++rank) moved |= give_next(rank);
    }
  }

  [[nodiscard]] std::unique_ptr<RankEngine> engine(std::size_t rank) const {
    return std::make_unique<RankEngine>(RankEngine::Options{RankId{rank}, edges_, ledger_.depths});
  }
  [[nodiscard]] const RankPlan& plan(std::size_t rank) const { return plans_[rank]; }
  [[nodiscard]] const std::vector<Event>& events(std::size_t rank) const { return events_[rank]; }
  [[nodiscard]] std::ptrdiff_t edges_into(std::size_t rank) const {
    return std::ranges::count_if(edges_, [&](const Edge& edge) { return !edge.local() && edge.consumer_rank.index() == rank; });
  }
  [[nodiscard]] std::size_t ranks() const { return engines_.size(); }

 private:
  bool give_next(std::size_t rank) {
    if (queues_[rank].empty()) return false;
    const Event event = queues_[rank].front();
    queues_[rank].pop_front();
    events_[rank].push_back(event);
    const Decisions& decisions = give(*engines_[rank], plans_[rank], event);
    for (const RingSlot& slot : decisions.sends)
      queues_[edges_[slot.edge.index()].consumer_rank.index()].push_back(
          {.kind = Event::Kind::boundary, .edge = slot.edge, .sequence = slot.sequence});
    for (const RingSlot& slot : decisions.releases)
      queues_[edges_[slot.edge.index()].producer_rank.index()].push_back(
          {.kind = Event::Kind::credit, .edge = slot.edge, .sequence = slot.sequence});
    for (const Issue& issue : decisions.issues) queues_[rank].push_back({.kind = Event::Kind::finished, .action = issue.action});
    return true;
  }

  std::vector<Edge> edges_;
  Ledger ledger_;
  std::vector<RankPlan> plans_;
  std::vector<std::unique_ptr<RankEngine>> engines_;
  std::vector<std::deque<Event>> queues_;
  std::vector<std::vector<Event>> events_;
};

double measure(const ScheduleRequest& request, int repetitions) {
  const Schedule schedule = make_schedule(request);
  const Engines engines(schedule);
  std::size_t busiest = 0;
  for (std::size_t rank = 1; rank < engines.ranks(); ++rank)
    if (engines.edges_into(rank) > engines.edges_into(busiest)) busiest = rank;
  const auto& events = engines.events(busiest);

  std::vector<double> times;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const auto engine = engines.engine(busiest);
    bool finished = false;
    const auto begin = std::chrono::steady_clock::now();
    for (const Event& event : events) finished = give(*engine, engines.plan(busiest), event).finished || finished;
    const std::chrono::duration<double, std::nano> passed = std::chrono::steady_clock::now() - begin;
    if (!finished) {
      std::fprintf(stderr, "engine_bench: %s did not finish its list\n", request.name.c_str());
      std::exit(1);
    }
    times.push_back(passed.count() / static_cast<double>(events.size()));
  }
  std::ranges::sort(times);
  const double median = times[times.size() / 2];
  fmt::print("{:>16} {:>6} {:>7} {:>13} {:>9} {:>9} {:>10.1f} {:>8.1f}\n", request.name, request.ranks, request.chunks,
             request.microbatches, engines.edges_into(busiest), events.size(), median, times[times.size() * 9 / 10]);
  return median;
}

int run(int repetitions, bool check) {
  fmt::print("{:>16} {:>6} {:>7} {:>13} {:>9} {:>9} {:>10} {:>8}\n", "schedule", "ranks", "chunks", "microbatches", "in-edges", "events",
             "ns, median", "p90");
  double most = 0;
  most = std::max(most, measure({"1f1b", 4, 1, 32, {}}, repetitions));
  most = std::max(most, measure({"zb-v", 4, 2, 32, {}}, repetitions));
  most = std::max(most, measure({"interleaved", 4, 4, 32, {}}, repetitions));
  most = std::max(most, measure({"interleaved", 8, 8, 64, {}}, repetitions));
  return check && most > 1000 ? 1 : 0;
}

}  // namespace
}  // namespace millrace::runtime

int main(int argc, char** argv) {
  const bool check = argc > 1 && std::strcmp(argv[argc - 1], "--check") == 0;
  if (check) --argc;
  return millrace::runtime::run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 2000, check);
}
