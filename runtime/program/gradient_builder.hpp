#pragma once

#include <string_view>
#include <vector>

#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// The interface for gradient rules: the forward operation, the gradients of its results, and functions that append to I or W.
class GradientBuilder {
 public:
  virtual ~GradientBuilder() = default;
  [[nodiscard]] virtual const Operation& forward() const = 0;
  [[nodiscard]] virtual const ValueType& type(ValueId value) const = 0;
  [[nodiscard]] virtual const Value& value(ValueId value) const = 0;
  /// Forward value `inputs[i]` / `outputs[i]` as the backward may read it: if it is rematerialised, its recomputed copy.
  [[nodiscard]] virtual ValueId input(std::size_t i) = 0;
  [[nodiscard]] virtual ValueId output(std::size_t i) = 0;
  /// The gradient of result i; invalid if no gradient flows into it. A loss term has no gradient:
  /// rules of losses read `loss_scale()` instead.
  [[nodiscard]] virtual ValueId output_gradient(std::size_t i) = 0;
  /// f32 [1], weight / (denominator · divisor) of the loss term that the operation yields, known when the step begins. Throws
  /// Error(internal) if none of its results is a loss term, or several are.
  [[nodiscard]] virtual ValueId loss_scale() = 0;
  /// Whether the gradient of input i is needed (yes for activations; no for batch fields, parameters and the first stage's
  /// inputs).
  [[nodiscard]] virtual bool wants(std::size_t i) const = 0;
  /// The fp32 accumulator of the parameter that is input i.
  [[nodiscard]] virtual ValueId accumulator(std::size_t i) = 0;
  /// Appends to the program that is being derived (I inside input_gradient, W inside weight_gradient).
  virtual std::vector<ValueId> append(const OperationRule& rule, std::vector<ValueId> inputs, Attributes attributes,
                                      std::string_view suffix) = 0;
  /// Appends to I an operation whose last results replace those of the forward operation, in its order: I computes them, and F
  /// leaves the forward operation out. The evaluation program keeps it. No other operation of F may read them.
  virtual std::vector<ValueId> append_for_forward(const OperationRule& rule, std::vector<ValueId> inputs, Attributes attributes,
                                                  std::string_view suffix) = 0;
  /// Appends an operation that accumulates into accumulators.
  virtual void append_accumulate(const OperationRule& rule, std::vector<ValueId> inputs, std::vector<ValueId> accumulators,
                                 Attributes attributes, std::string_view suffix) = 0;
  /// For the rule of an await: appends the post of its result's gradient, whose rows go back to the members that they came from.
  virtual void post_gradient() = 0;
  /// For the rule of a post: appends the await of what post_gradient posted, and declares it to be the gradient of what was sent.
  virtual void await_gradient() = 0;
  /// Declares `gradient` to be the gradient of input i, or a summand of it.
  virtual void add_gradient(std::size_t i, ValueId gradient) = 0;
};

}  // namespace millrace::runtime
