#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/shape.hpp"
#include "layers/model_config.hpp"
#include "layers/partition.hpp"
#include "runtime/ids.hpp"
#include "runtime/program/loss_weights.hpp"
#include "runtime/schedule/placement.hpp"

namespace millrace::actors {

/// After a step's list, ranks that hold the same weights exchange gradient sums. In the first round the two ranks of two replicas add what
/// each has from its half of the microbatches, use by use. In the second round ranks that use one table in different places of the model
/// (embedding, modules of multi-token prediction, tied head) send each other the sums of their uses, and each adds all of them in the order
/// of the uses, so that all get the same bits.
enum class SumRound : std::uint8_t { replicas, uses };

/// The gradient sum of one use of a weight.
struct SumPart {
  std::string tensor;
  int order = 0;  // of the tensor in the model
  int use = 0;
  std::size_t bytes = 0;  // aligned to kernels::kAlignment
};

/// One message of a round.
struct SumMessage {
  SumRound round = SumRound::uses;
  runtime::RankId from, to;
  int channel = 0;
  std::vector<SumPart> parts = {};  // in the order of the model, then of the uses
  [[nodiscard]] std::size_t bytes() const;
};

/// All messages of a step, in the order of their channels, of which the first is `first_channel`. `layout`: the stages of one replica.
[[nodiscard]] std::vector<SumMessage> sum_messages(const layers::ModelConfig& model, const std::vector<layers::StageLayout>& layout,
                                                   const runtime::LossWeights& losses, const runtime::Placement& placement,
                                                   int first_channel);

}  // namespace millrace::actors
