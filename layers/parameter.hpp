#pragma once

#include <cstdint>
#include <string>

#include "kernels/base/shape.hpp"
#include "runtime/program/value.hpp"

namespace millrace::layers {

/// The initial values of a parameter; truncated_normal ends at two deviations, log_uniform is the logarithm of a number that is drawn
/// evenly.
enum class InitialKind : std::uint8_t { normal, truncated_normal, zeros, ones, constant, log_uniform };

struct Initial {
  InitialKind kind = InitialKind::normal;
  double deviation = 0;  // of the normal distribution before truncation; 0: the model's initializer_range
  float value = 0;       // of every element, if constant
  double least = 0;      // log_uniform: the bounds of the number, both above 0
  double most = 0;

  bool operator==(const Initial&) const = default;
};

/// One use of a weight by a stage.
struct ParameterSpec {
  std::string name;  // as in the checkpoint
  kernels::Shape shape;
  int layer = -1;  // decoder layer, -1 outside of one
  int use = 0;     // 1: the output head's use of a tied table
  Initial initial;
  runtime::StoredForm stored;         // as files have it
  double active = 1;                  // the share of the tokens that it is multiplied with; K / E for experts
  runtime::ExpertSlice experts = {};  // of a weight of experts: those that the stage has
  std::string router = {};            // of a bias by which a router chooses: the scope of the router; empty: it is none
  runtime::ScoreMatrix scores = {};   // for a matrix that QK-clip scales
  bool trained = true;                // false: it has no gradient, and optimizers leave it as it is
  int order = 0;  // position of the tensor in the model's list, the same for both uses of a tied table; sums over tensors are in this order

  bool operator==(const ParameterSpec&) const = default;
};

/// Experts [first, first + count) of a whole weight of experts, as one of several ranks has them.
[[nodiscard]] inline ParameterSpec slice_of(ParameterSpec whole, std::int64_t first, std::int64_t count) {
  whole.experts = {first, whole.experts.whole};
  whole.shape.dimension(0) = count;
  return whole;
}

}  // namespace millrace::layers
