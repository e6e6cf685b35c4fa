#include "runtime/schedule/simulator/extrapolate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "kernels/base/check.hpp"
#include "runtime/schedule/component.hpp"

namespace millrace::runtime {
namespace {

constexpr int min_samples = 64;
constexpr int samples_for_one = 8;  // samples per replica below which the maximum is taken from the samples

// Normal numbers by the method of Box and Muller (1958), from a generator that the standard specifies exactly; it does not do so
// for its distributions.
double normal(std::mt19937_64& random) {
  const auto uniform = [&random] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1.0p-53; };
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

double slowdown(double spread, double deviations) { return std::exp(spread * deviations - spread * spread / 2); }

// √(2 ln D): an upper bound, in deviations above the mean, of the expected maximum of D normals.
double max_deviations(int draws) { return std::sqrt(2 * std::log(static_cast<double>(draws))); }

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double deviation_of(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

// The slowest of a number of replicas: by its ranks' speeds alone, and with jitter.
struct Slowest {
  double persistent = 0;
  double all = 0;
};

class Extrapolator {
 public:
  Extrapolator(const Schedule& schedule, const Costs& costs, const ScaleModel& model) : schedule_(schedule), costs_(costs), model_(model) {
    MILLRACE_CHECK(model.spread >= 0 && costs.noise.jitter >= 0 && model.samples >= min_samples && model.optimizer >= 0, ExitCode::internal,
                   schedule_component, "spread {}, jitter {}, {} samples, optimizer {}, expected none below 0 and {} samples", model.spread,
                   costs.noise.jitter, model.samples, model.optimizer, min_samples);
    MILLRACE_CHECK(model.error.error >= 0 && model.error.growth >= 0 && model.error.ranks >= 1, ExitCode::internal, schedule_component,
                   "error {}, growing by {}, of {} ranks, expected none below 0 and a rank", model.error.error, model.error.growth,
                   model.error.ranks);
    base_ = costs.noise.slowdown;
    base_.resize(schedule.ranks.size(), 1);
    quiet_ = costs;
    quiet_.noise.jitter = 0;
    alone_ = simulate(schedule, quiet_, false);
    sample();
  }

  Extrapolation run(const std::vector<int>& replicas) {
    Extrapolation result;
    result.alone = alone_.makespan;
    result.samples = static_cast<int>(all_.size());
    result.mean = mean_of(all_);
    result.deviation = deviation_of(all_);
    result.persistent_mean = mean_of(persistent_);
    result.persistent_deviation = deviation_of(persistent_);
    result.sampled_replicas = limit_;
    for (const int count : replicas) result.points.push_back(point(count, result));
    return result;
  }

 private:
  void sample() {
    const bool noise = model_.spread > 0 || costs_.noise.jitter > 0;
    const auto affordable = model_.effort / (2 * static_cast<double>(std::max<std::size_t>(1, alone_.actions())));
    const int samples = noise ? static_cast<int>(std::clamp<double>(affordable, min_samples, model_.samples)) : 1;
    limit_ = noise ? samples / samples_for_one : std::numeric_limits<int>::max();
    std::mt19937_64 random(costs_.noise.seed);
    Costs noisy = costs_;
    noisy.noise.slowdown = base_;
    for (int index = 0; index < samples; ++index) {
      for (std::size_t rank = 0; rank < base_.size() && model_.spread > 0; ++rank)
        noisy.noise.slowdown[rank] = base_[rank] * slowdown(model_.spread, normal(random));
      noisy.noise.seed = random();
      persistent_.push_back(model_.spread > 0 ? makespan(noisy.noise.slowdown) : alone_.makespan);
      all_.push_back(costs_.noise.jitter > 0 ? simulate(schedule_, noisy, false).makespan : persistent_.back());
    }
    std::ranges::sort(persistent_);
    std::ranges::sort(all_);
  }

  // The makespan without jitter.
  double makespan(const std::vector<double>& slowdowns) {
    quiet_.noise.slowdown = slowdowns;
    return simulate(schedule_, quiet_, false).makespan;
  }

  double with_one_slow_rank(double factor) {
    double worst = 0;
    for (std::size_t rank = 0; rank < base_.size(); ++rank) {
      auto slowdowns = base_;
      slowdowns[rank] *= factor;
      worst = std::max(worst, makespan(slowdowns));
    }
    return worst;
  }

  Slowest slowest(int replicas, const Extrapolation& known) {
    if (replicas <= limit_) return {expected_maximum(persistent_, replicas), expected_maximum(all_, replicas)};
    // The samples give the level at `limit_`, the formula what is added beyond.
    Slowest result = slowest(limit_, known);
    const Slowest there = by_formula(limit_, known), here = by_formula(replicas, known);
    result.persistent += here.persistent - there.persistent;
    result.all += here.all - there.all;
    return result;
  }

  Slowest by_formula(int replicas, const Extrapolation& known) {
    const double deviations = max_deviations(replicas);
    Slowest result{alone_.makespan, 0};
    if (model_.spread > 0) result.persistent = with_one_slow_rank(slowdown(model_.spread, deviations));
    result.all = result.persistent + std::max(0.0, known.deviation - known.persistent_deviation) * deviations;
    return result;
  }

  void add_reduction(ScalePoint& point) const {
    const auto ranks = reduce_gradients(schedule_, alone_, model_.reduction, point.replicas);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const double beyond = ranks[rank].end - alone_.makespan;
      if (beyond <= point.exposed) continue;
      point.exposed = beyond;
      point.exposed_rank = RankId{rank};
      point.exposed_stage = ranks[rank].last;
    }
  }

  ScalePoint point(int replicas, const Extrapolation& known) {
    MILLRACE_CHECK(replicas >= 1, ExitCode::internal, schedule_component, "{} replicas, expected 1 or more", replicas);
    ScalePoint point;
    point.replicas = replicas;
    point.ranks = static_cast<double>(replicas) * static_cast<double>(schedule_.ranks.size());
    const Slowest slow = slowest(replicas, known);
    point.persistent = slow.persistent - alone_.makespan;
    point.transient = slow.all - slow.persistent;
    add_reduction(point);
    point.step = slow.all + point.exposed + model_.optimizer;
    const double error = model_.error.at(point.ranks);
    point.low = point.step * std::max(0.0, 1 - error);
    point.high = point.step * (1 + error);
    point.goodput = goodput(model_.failures, point.ranks, point.step);
    point.efficiency = (alone_.makespan + model_.optimizer) / point.step * point.goodput.useful;
    return point;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  const ScaleModel& model_;
  std::vector<double> base_;  // slowdowns from the costs
  Costs quiet_;               // the costs without jitter
  Simulation alone_;
  int limit_ = 1;                         // number of replicas up to which the samples give the maximum
  std::vector<double> persistent_, all_;  // makespans of the samples, sorted
};

}  // namespace

double PredictionError::at(double total) const { return error + growth * std::max(0.0, std::log2(total / ranks)); }

double expected_maximum(std::span<const double> sorted, int draws) {
  const auto count = static_cast<double>(sorted.size());
  // Σ x_k (F(k) − F(k−1)), summed by parts: the largest sample minus every gap times the probability that all draws lie below it.
  // Exact if all samples are equal.
  double result = sorted.empty() ? 0 : sorted.back();
  for (std::size_t below = 1; below < sorted.size(); ++below)
    result -= (sorted[below] - sorted[below - 1]) * std::pow(static_cast<double>(below) / count, draws);
  return result;
}

Extrapolation extrapolate(const Schedule& schedule, const Costs& costs, const ScaleModel& model, const std::vector<int>& replicas) {
  return Extrapolator(schedule, costs, model).run(replicas);
}

}  // namespace millrace::runtime
