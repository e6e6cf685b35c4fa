#include "runtime/optimizers/spike_detector.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

std::string name_of(const char* which) { return std::string(run_state_prefix) + "skip_step." + which; }

const std::vector<double>& found(const RunState& state, const char* which, std::size_t size) {
  const auto tensor = std::ranges::find(state, name_of(which), &RunStateTensor::name);
  MILLRACE_CHECK(tensor != state.end() && tensor->values.size() == size, ExitCode::checkpoint, "runtime.spike_detector",
                 "the checkpoint has {} numbers in {}, expected {}", tensor == state.end() ? 0 : tensor->values.size(), name_of(which),
                 size);
  return tensor->values;
}

}  // namespace

SpikeDetector::SpikeDetector(std::int64_t window, double factor)
    : factor_(factor), losses_(static_cast<std::size_t>(window)), norms_(losses_.size()) {}

bool SpikeDetector::exceeds(const std::vector<float>& ring, double value) const {
  const auto count = static_cast<std::size_t>(std::min<std::int64_t>(seen_, static_cast<std::int64_t>(ring.size())));
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(ring[i]);
  const double mean = sum / static_cast<double>(std::max<std::size_t>(count, 1));
  for (std::size_t i = 0; i < count; ++i) squares += (static_cast<double>(ring[i]) - mean) * (static_cast<double>(ring[i]) - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(count > 1 ? count - 1 : 1));
  return !(value - mean <= factor_ * deviation);
}

bool SpikeDetector::see(double loss, double norm) {
  const auto own_loss = static_cast<float>(loss), own_norm = static_cast<float>(norm);
  const auto window = static_cast<std::int64_t>(losses_.size());
  const bool too_early = seen_ + 1 < std::max<std::int64_t>(2, window / 2);
  const bool spike = !too_early && (exceeds(losses_, static_cast<double>(own_loss)) || exceeds(norms_, static_cast<double>(own_norm)));
  const auto place = static_cast<std::size_t>(seen_ % window);
  losses_[place] = own_loss;
  norms_[place] = own_norm;
  ++seen_;
  return spike;
}

RunState SpikeDetector::state() const {
  return {{name_of("losses"), {losses_.begin(), losses_.end()}},
          {name_of("norms"), {norms_.begin(), norms_.end()}},
          {name_of("seen"), {static_cast<double>(seen_)}}};
}

void SpikeDetector::restore(const RunState& state) {
  const auto& losses = found(state, "losses", losses_.size());
  const auto& norms = found(state, "norms", norms_.size());
  std::ranges::transform(losses, losses_.begin(), [](double value) { return static_cast<float>(value); });
  std::ranges::transform(norms, norms_.begin(), [](double value) { return static_cast<float>(value); });
  seen_ = static_cast<std::int64_t>(found(state, "seen", 1).front());
}

}  // namespace millrace::runtime
