#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/base/shape.hpp"
#include "layers/model_config.hpp"
#include "layers/parameter.hpp"
#include "layers/partition.hpp"
#include "runtime/engine/ownership.hpp"
#include "runtime/ids.hpp"
#include "runtime/program/loss_weights.hpp"
#include "runtime/schedule/placement.hpp"

namespace millrace::actors {

/// After a step's list, ranks that hold the same weights exchange gradient sums. In the first round the ranks of all replicas add what each
/// has from its share of the microbatches, use by use, in the order of the tree of their parts (sum_tree.hpp). In the second round ranks
/// that use one table in different places of the model (embedding, modules of multi-token prediction, tied head) send each other the sums
/// of their uses, and each adds all of them in the order of the uses, so that all get the same bits. Replicas that divide the update need
/// no first round (runtime::Reduction does its work), and in the second one each rank gets the sums of what it owns.
enum class SumRound : std::uint8_t { replicas, uses };

/// How the parts of a weight's gradient are shared by those who have it: copy c has the parts that are c modulo `copies`, in the order of
/// its sets, and after its own additions some sums that it sends.
struct SharedParts {
  int parts = 1, copies = 1;
  int copy = 0;  // of the sender
  friend bool operator==(const SharedParts&, const SharedParts&) = default;
};

/// The gradient sum of one use of a weight, or several sums.
struct SumPart {
  std::string tensor;
  int order = 0;  // of the tensor in the model
  int use = 0;
  std::size_t bytes = 0;                // of one sum, aligned to kernels::kAlignment
  SharedParts shared;                   // in the round of replicas
  runtime::ElementRange elements = {};  // of the tensor as the sender holds it
  std::vector<int> sums = {0};          // the parts that hold the sender's sums, one after another in the message
};

/// One message of a round.
struct SumMessage {
  SumRound round = SumRound::uses;
  runtime::RankId from, to;
  int channel = 0;
  std::vector<SumPart> parts = {};  // in the order of the model, then of the uses
  [[nodiscard]] std::size_t bytes() const;
};

struct SumMessagesInput {
  const std::vector<layers::ParameterSpec>& parameters;  // of the whole model
  const layers::ModelConfig& model;
  const std::vector<layers::StageLayout>& layout;  // the stages of one replica
  const runtime::LossWeights& losses;
  const runtime::Placement& placement;
  int parts = 1, expert_parts = 1;  // of the gradients of all weights, and of those of experts
  int expert_groups = 1;            // the replicas c, c + groups, c + 2 · groups, … share experts (PipelinePlan::expert_groups)
  int first_channel = 0;
  /// What each member of a group of replicas owns of a tied weight; empty: the update is not divided.
  std::function<std::vector<runtime::ElementRange>(const layers::ParameterSpec& spec)> owned = {};
};

/// The names of the weights that several stages use.
[[nodiscard]] std::vector<std::string> tied_weights(const std::vector<layers::ParameterSpec>& parameters, const layers::ModelConfig& model,
                                                    const std::vector<layers::StageLayout>& layout, const runtime::LossWeights& losses);

/// All messages of a step, in the order of their channels, of which the first is `first_channel`.
[[nodiscard]] std::vector<SumMessage> sum_messages(const SumMessagesInput& input);

}  // namespace millrace::actors
