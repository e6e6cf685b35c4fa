#include "runtime/schedule/simulator/lost_time.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {
namespace {

struct Part {
  const char* name;
  double LostTime::*value;
};

constexpr std::array parts{
    Part{"bubble of the schedule", &LostTime::bubble},
    Part{"unequal stages", &LostTime::imbalance},
    Part{"exchanges", &LostTime::exchange},
    Part{"gathers of weights", &LostTime::weights},
    Part{"link latency", &LostTime::latency},
    Part{"link bandwidth", &LostTime::bandwidth},
    Part{"short rings", &LostTime::slots},
    Part{"launches", &LostTime::launch},
    Part{"slow ranks", &LostTime::slow_ranks},
    Part{"jitter", &LostTime::jitter},
    Part{"stalls", &LostTime::stalls},
};

}  // namespace

double LostTime::makespan() const {
  double sum = work;
  for (const Part& part : parts) sum += this->*part.value;
  return sum;
}

LostTime lost_time(const Schedule& schedule, const Costs& costs) {
  LostTime lost;
  Costs now = alike(costs);
  now.noise.seed = costs.noise.seed;
  Costs work = now;
  work.stages = costs.stages;
  work.pairs = costs.pairs;
  const Simulation even = simulate(schedule, work, false);
  for (const RankTime& rank : even.ranks) lost.work += rank.busy / static_cast<double>(even.ranks.size());
  double before = lost.work;
  const auto add = [&](const Costs& with) {
    const double makespan = simulate(schedule, with, false).makespan;
    return makespan - std::exchange(before, makespan);
  };
  lost.bubble = add(now);
  lost.imbalance = add(work);
  now = work;
  now.exchanges = costs.exchanges;
  now.members = costs.members;
  lost.exchange = add(now);
  now.transfers = costs.transfers;
  lost.weights = add(now);
  now.links = costs.links;
  for (LinkCost& link : now.links) link.bytes = 0;
  lost.latency = add(now);
  now.links = costs.links;
  lost.bandwidth = add(now);
  now.slots = costs.slots;
  lost.slots = add(now);
  now.launch = costs.launch;
  now.issue_ahead = costs.issue_ahead;
  lost.launch = add(now);
  now.noise.slowdown = costs.noise.slowdown;
  lost.slow_ranks = add(now);
  now.noise.jitter = costs.noise.jitter;
  lost.jitter = add(now);
  now.noise.stalls = costs.noise.stalls;
  lost.stalls = add(now);
  return lost;
}

std::string to_string(const LostTime& lost, const std::string& unit) {
  const double whole = lost.makespan();
  std::string text = fmt::format("{:<24} {:>12.3f} {} {:>6.1f} %\n", "work", lost.work, unit, 100 * lost.work / whole);
  auto sorted = parts;
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Part& a, const Part& b) { return lost.*a.value > lost.*b.value; });
  for (const Part& part : sorted) {
    const double value = lost.*part.value;
    if (std::abs(value) < 1e-9 * whole) continue;
    text += fmt::format("{:<24} {:>12.3f} {} {:>6.1f} %\n", part.name, value, unit, 100 * value / whole);
  }
  return text;
}

}  // namespace millrace::runtime
