#pragma once

#include <string_view>

#include "kernels/base/shape.hpp"
#include "kernels/optimizer_tensors.hpp"
#include "runtime/optimizers/name_patterns.hpp"
#include "runtime/program/value.hpp"
#include "runtime/train_config.hpp"

namespace millrace::runtime {

/// Which parameters are matrices to an optimizer that treats matrices apart from the rest (Muon), and how they lie in memory. All with two
/// or more axes are, but for those whose name train.muon_exclude selects. The last two axes are the matrix; further ones count matrices,
/// as those of experts do, and so do tensors that are stored apart. Programs hold every layer's weights apart and the axes of attention
/// heads merged with their neighbour's, so that each matrix is what MaxText's table of reduction and output axes makes of it.
class MatrixRule {
 public:
  MatrixRule() = default;
  /// `inputs_first`: the model's matrices are [inputs, outputs], as MaxText's are. If train.muon_exclude is empty, the expressions are
  /// those of the model's implementation. Throws Error(config) for one that is not a regular expression.
  MatrixRule(const TrainConfig& train, bool inputs_first);

  /// Count 0 for a parameter that is no matrix. `shape`: in programs.
  [[nodiscard]] kernels::MatrixForm matrices(std::string_view name, const kernels::Shape& shape, const StoredForm& stored) const;

 private:
  bool inputs_first_ = false;
  NamePatterns exclude_;
};

}  // namespace millrace::runtime
