#include "runtime/engine/step_loss.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "runtime/schedule/global_order.hpp"

namespace millrace::runtime {
namespace {

/// A term's place in the model: its stage within a replica, and its place among the terms of that stage.
using TermPlace = std::pair<int, int>;

/// The reports of each term, one per replica in the replicas' order.
std::map<TermPlace, std::vector<const LossTermSums*>> in_model_order(std::vector<LossTermSums>& reported, int model_stages) {
  std::ranges::stable_sort(reported, {}, &LossTermSums::stage);
  std::map<TermPlace, std::vector<const LossTermSums*>> terms;
  int stage = -1, place = 0;
  for (const LossTermSums& each : reported) {
    place = each.stage == stage ? place + 1 : 0;
    stage = each.stage;
    terms[{stage % std::max(model_stages, 1), place}].push_back(&each);
  }
  return terms;
}

StepLoss::Named& named(StepLoss& loss, const LossTerm& term) {
  const auto found = std::ranges::find(loss.terms, term.name, &StepLoss::Named::name);
  return found != loss.terms.end() ? *found
                                   : loss.terms.emplace_back(StepLoss::Named{term.name, term.auxiliary, 0, 0, term.evaluation_only});
}

}  // namespace

const StepLoss::Named* StepLoss::find(std::string_view name) const {
  const auto found = std::ranges::find(terms, name, &Named::name);
  return found != terms.end() ? &*found : nullptr;
}

StepLoss add_loss_terms(std::vector<LossTermSums> reported, int model_stages, const StepCounts& counts) {
  StepLoss loss;
  for (const auto& [place, replicas] : in_model_order(reported, model_stages)) {
    double sum = 0;
    const GlobalOrder order(static_cast<int>(replicas.size()));
    std::int64_t microbatches = 0;
    for (const LossTermSums* part : replicas) microbatches += static_cast<std::int64_t>(part->sums.size());
    for (std::int64_t microbatch = 0; microbatch < microbatches; ++microbatch) {
      const LossTermSums& part = *replicas[static_cast<std::size_t>(order.copy(microbatch))];
      const double value = part.sums.at(static_cast<std::size_t>(order.ordinal(microbatch)));
      if (!loss.bad && !std::isfinite(value)) loss.bad = BadLoss{part.stage, part.term.name, microbatch, value};
      sum += value;
    }
    const LossTerm& term = replicas.front()->term;
    const double mean = term.mean(sum, counts);
    StepLoss::Named& shown = named(loss, term);
    shown.sum += sum;
    shown.value += term.auxiliary ? mean * static_cast<double>(counts.accumulation_steps) : mean;
    if (!term.evaluation_only) loss.total += mean;
    if (!term.auxiliary) loss.main += mean;
  }
  return loss;
}

}  // namespace millrace::runtime
