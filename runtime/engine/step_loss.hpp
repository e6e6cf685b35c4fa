#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "runtime/program/loss_term.hpp"

namespace millrace::runtime {

/// One loss term of one stage, summed by microbatch: what the stage's rank reports.
struct LossTermSums {
  std::int32_t stage = 0;
  LossTerm term;
  std::vector<double> sums;  // by microbatch, in the order in which the stage has them
  auto tie() { return std::tie(stage, term, sums); }
};

/// The first value of a term that is not finite.
struct BadLoss {
  std::int32_t stage = 0;
  std::string term;
  std::int64_t microbatch = 0;  // of all replicas
  double value = 0;
};

/// The loss of a step or an evaluation, from the terms of all stages.
struct StepLoss {
  struct Named {
    std::string name;
    bool auxiliary = false;
    double sum = 0;  // over microbatches, stages and layers, without weight
    // weight · sum / (denominator · divisor), added over the stages and layers that have the term. Of an auxiliary term with G > 1
    // accumulation steps it is G times that, the sum of the steps' means, as MaxText shows it; the loss has the mean.
    double value = 0;
    bool evaluation_only = false;
    /// LossTerm::metric(): a percentage, and part of no loss.
    [[nodiscard]] bool metric() const noexcept { return auxiliary && evaluation_only; }
  };
  double total = 0;          // of all terms but those of evaluations: what training minimises
  double main = 0;           // without auxiliary terms: the loss of an evaluation, in nats per token
  std::vector<Named> terms;  // in model order of their first stage
  std::optional<BadLoss> bad;
  /// The terms to show beside the loss: none if the loss has one term only.
  [[nodiscard]] std::vector<Named> shown() const { return terms.size() > 1 ? terms : std::vector<Named>(); }
  /// nullptr if no term has this name.
  [[nodiscard]] const Named* find(std::string_view name) const;
};

/// Adds in model order: by stage, then in the order in which the stage declared its terms, and within a term by microbatch. The order does
/// not depend on how layers are divided into stages or stages among ranks, so neither do the bits. `reported` may come in any order of
/// stages. `model_stages`: stages of one replica; those of the others follow. Replicas share the microbatches as GlobalOrder says.
[[nodiscard]] StepLoss add_loss_terms(std::vector<LossTermSums> reported, int model_stages, const StepCounts& counts);

}  // namespace millrace::runtime
