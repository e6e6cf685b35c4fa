#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/program/value.hpp"

namespace millrace::runtime {

class OperationRule;

/// What one operation does beside its own work, so that another operation falls away. runtime/passes/choose_epilogues.hpp decides it from
/// what the rule can do.
struct Epilogue {
  /// Added to the operation's only result before that is rounded: a value of the result's type, or a bias f32 [N] to every row. It is the
  /// operation's last operand.
  enum class Add : std::uint8_t { none, addend, bias };
  Add add = Add::none;
  bool packed = false;  // the weight among its operands lies packed for products (kernels/packing.hpp)
  friend bool operator==(const Epilogue&, const Epilogue&) = default;
};

/// What operations of a rule can take.
struct Epilogues {
  bool addend = false;
  bool bias = false;
  /// The operand that may lie packed, and in which form.
  struct Weight {
    std::size_t operand = 0;
    WeightForm form = WeightForm::plain;
  };
  std::optional<Weight> packed;
  /// For an input gradient: the weight gradient that it can compute along with its own results, and the rule that does both, from the input
  /// gradient's operands and with the bits of one after the other. B uses it.
  const OperationRule* weight_gradient = nullptr;
  const OperationRule* both = nullptr;
};

}  // namespace millrace::runtime
