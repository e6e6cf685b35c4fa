#pragma once

#include <string>
#include <vector>

#include "actors/debug/debug_cursor.hpp"
#include "actors/jobs/stepper.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::actors {

/// A tensor that the user asked for by name, in its memory.
struct NamedTensor {
  std::string name;
  std::string where;  // "weight on rank 2", "result of 2F1"
  kernels::Tensor tensor;
};

/// Finds the tensor that a name refers to at the current position of a session: a weight by its name in checkpoints
/// ("model.layers.1.mlp.up_proj.weight"); grad.NAME, the weight's gradient sum so far; STATE/NAME, a state that the optimizer keeps
/// for the weight ("adamw.m/…"); tokens, positions, segments and targets of the action's microbatch; and the values of the action's
/// program by the names that `ops` prints ("layers.1.mlp.swiglu"), as long as they are in memory. A suffix of a name is accepted if
/// only one name ends with it.
class TensorFinder {
 public:
  TensorFinder(const actors::Stepper& stepper, const DebugCursor& standing);

  /// Throws Error(usage) for an unknown name, with the nearest known one, and for a value that is not in memory, with the
  /// operations between which it is.
  [[nodiscard]] NamedTensor find(const std::string& name) const;
  /// Whether this is the name of a tensor, or the end of one.
  [[nodiscard]] bool has(const std::string& name) const;
  /// All names that find() accepts at this position.
  [[nodiscard]] std::vector<std::string> names() const;
  /// Weights and gradients of all ranks, those of the selected one first.
  [[nodiscard]] std::vector<NamedTensor> weights() const;

 private:
  void add_weights();
  void add_weights(runtime::RankId rank, const runtime::StageShard& shard);
  void add_values();
  [[nodiscard]] std::string whole_of(const std::string& name) const;
  [[nodiscard]] std::string elsewhere(const std::string& name) const;
  void check_parts(const std::string& name) const;
  struct Entry {
    NamedTensor named;
    std::string missing;  // why it cannot be shown; empty if it can
  };
  const actors::Stepper& stepper_;
  const DebugCursor& standing_;
  std::vector<Entry> entries_;
};

}  // namespace millrace::actors
